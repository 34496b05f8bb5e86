"""The life of a driver pod: unload what is loaded, load its own driver, turn Ready some time later."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from devcluster.client import path, retry
from devcluster.fleet import faults
from devcluster.fleet.loader import LoaderLife
from devcluster.fleet.node import INBOX, NFD_NIC
from devcluster.fleet.status import CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver, Stack

DIGEST_VARIABLE = "DRIVER_CONFIG_DIGEST"

CONTAINER = "nvidia-driver-ctr"
"""The container that owns the driver; its name distinguishes driver pods from others if their labels were replaced."""

VERSION_ANNOTATION = "devcluster/driver-version"
"""Pod annotation: what is loaded where the image does not say it, because it is given by its digest."""

RDMA_VARIABLE, HOST_VARIABLE = "GPU_DIRECT_RDMA_ENABLED", "USE_HOST_MOFED"
"""GPUDirect RDMA is on; the network card's driver is the host's own."""

EVICTION_LABEL_VARIABLE = "NODE_LABEL_FOR_GPU_POD_EVICTION"
"""The environment variable of k8s-driver-manager that names one more label to pause."""

PAUSED = "paused-for-driver-upgrade"
OPERAND_LABELS = tuple(
    f"nvidia.com/gpu.deploy.{operand}"
    for operand in (
        "operator-validator",
        "container-toolkit",
        "device-plugin",
        "gpu-feature-discovery",
        "dcgm",
        "dcgm-exporter",
        "mig-manager",
        "client",
        "dra-driver",
    )
)
"""What k8s-driver-manager pauses, of what the simulated operator sets; never ``.driver``."""

DRAIN_SECONDS = 60.0
"""How long the driver-manager waits for the pods that it paused; 5 min each in reality."""


class DriverLife(LoaderLife):
    """k8s-driver-manager first, then the driver container."""

    fault_annotation = faults.DRIVER_FAULT
    restart_annotation = faults.RESTART_DRIVER_CONTAINER

    @property
    def stack(self) -> Stack:
        """The GPUs' driver."""
        return self.node.gpu

    @property
    def digest(self) -> str:
        """The DRIVER_CONFIG_DIGEST that this pod was rendered with."""
        return variable(self.pod["spec"]["containers"], DIGEST_VARIABLE)

    @property
    def version(self) -> str:
        """The version that this pod loads."""
        annotated = self.pod["metadata"].get("annotations", {}).get(VERSION_ANNOTATION)
        return str(annotated or loaded_version(self.container.image, self.settings.branch_patch))

    @property
    def pausable(self) -> tuple[str, ...]:
        """The node labels that this pod's k8s-driver-manager pauses."""
        further = variable(self.pod["spec"].get("initContainers", []), EVICTION_LABEL_VARIABLE)
        return (*OPERAND_LABELS, further) if further else OPERAND_LABELS

    async def live(self) -> None:
        """Run the driver-manager, then the driver."""
        await self.node.until(lambda: self.node.fault(self.fault_annotation) != "pending")
        await self.accept()
        kept = await self._run_driver_manager()
        await self.pull_image()
        await self.start_containers()
        if kept is None:
            await self._install()
        else:
            await self.pause(self.settings.driver_remount_seconds)
            self.stack.load(kept.version, kept.digest)
        await self.pause(self.ready_gap)
        await self._wait_for_network_driver()
        await self.turn_ready()

    async def reload_in_place(self) -> None:
        """Replace the old driver, which no k8s-driver-manager unloaded this time."""
        await self.pause(self.settings.driver_unload_seconds)
        self.stack.unload()
        await self._install()

    async def _install(self) -> None:
        await self.pause(self.settings.driver_install_seconds)
        self.stack.load(self.version, self.digest)

    async def _run_driver_manager(self) -> Driver | None:
        """Unload the old driver, or keep it if it is configured alike; its root is unmounted anyway."""
        for init in self.status.inits:
            init.run()
        await self.report()
        old = self.stack.loaded
        if old is not None:
            await self._pause_operands()
            await self.pause(self.settings.driver_unload_seconds)
            self.stack.unload()
        await self._wait_for_network_driver()
        await self._resume_operands()
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.wait(CREATING)
        await self.report()
        return old if old is not None and self.digest and old.digest == self.digest else None

    async def _wait_for_network_driver(self) -> None:
        """With GPUDirect RDMA, wait for the network card's driver: k8s-driver-manager does, and nvidia-peermem too.

        Unless it is known to be the host's own, the one that came with the system does not count.
        """
        inits = self.pod["spec"].get("initContainers", [])
        if variable(inits, RDMA_VARIABLE) == "true" and self.node.labels.get(NFD_NIC) == "true":
            theirs = () if variable(inits, HOST_VARIABLE) == "true" else (INBOX,)
            nic = self.node.nic
            await self.node.until(lambda: nic.loaded is not None and nic.loaded.version not in theirs)

    async def _pause_operands(self) -> None:
        """Pause what is placed by labels, and wait until it is off the node.

        The real one does not await the pods of the label that its environment names, but what it does
        next takes it much longer than a DaemonSet needs to go.
        """
        labels = {key: paused(value) for key in self.pausable if (value := self.node.labels.get(key, ""))}
        self.node.draining = {key for key, value in labels.items() if is_paused(value)}
        await self._label({key: value for key, value in labels.items() if value != self.node.labels[key]})
        with contextlib.suppress(TimeoutError):
            drained = self.node.until(lambda: not self.node.has_pods_selected_by(self.node.draining))
            await asyncio.wait_for(drained, DRAIN_SECONDS)

    async def _resume_operands(self) -> None:
        """Also those that a driver-manager before us left paused."""
        labels = self.node.labels
        await self._label({key: resumed(labels[key]) for key in self.pausable if is_paused(labels.get(key, ""))})
        self.node.draining = set()

    async def _label(self, labels: dict[str, str]) -> None:
        if labels:
            await self.node.online()
            url_path, body = path("v1", "nodes", name=self.node.name), {"metadata": {"labels": labels}}
            answer = await retry(lambda: self.api.patch(url_path, body))
            self.node.update(answer)


def is_driver(pod: dict[str, Any]) -> bool:
    """Return whether a pod is a driver pod."""
    return any(each["name"] == CONTAINER for each in pod["spec"]["containers"])


def is_paused(value: str) -> bool:
    """Return whether k8s-driver-manager paused what is placed by a label of this value."""
    return value.endswith(PAUSED)


def paused(value: str) -> str:
    """Pause a label's value; what is off stays off."""
    if value == "false" or is_paused(value):
        return value
    return PAUSED if value == "true" else f"{value}_{PAUSED}"


def resumed(value: str) -> str:
    """Take back what `paused` did."""
    return "true" if value == PAUSED else value.removesuffix(f"_{PAUSED}")


def variable(containers: list[dict[str, Any]], name: str) -> str:
    """Read an environment variable of the first of these containers."""
    variables = containers[0].get("env", []) if containers else []
    return next((str(each.get("value", "")) for each in variables if each["name"] == name), "")


def loaded_version(image: str, branch_patch: str) -> str:
    """Read the driver's version from its image's tag: ``<version>-<os>`` or ``<branch>-<kernel>-<os>``."""
    version = image.rpartition(":")[2].split("-")[0]
    return version if "." in version else f"{version}.{branch_patch}"
