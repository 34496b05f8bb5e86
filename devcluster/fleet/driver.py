"""The life of a GPU driver pod: unload what is loaded, load its own driver, turn Ready some time later."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from devcluster.fleet import faults
from devcluster.fleet.loader import LoaderLife
from devcluster.fleet.status import CRASH_LOOP, IMAGE_PULL

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver, Stack

DIGEST_VARIABLE = "DRIVER_CONFIG_DIGEST"

EVICTION_LABEL_VARIABLE = "NODE_LABEL_FOR_GPU_POD_EVICTION"
"""The environment variable of k8s-driver-manager that names one more label to pause."""

BRANCH_PATCH = "95.05"
"""A precompiled driver's tag names only a branch; this completes the version that is loaded."""

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

    @property
    def stack(self) -> Stack:
        """The GPUs' driver."""
        return self.node.gpu

    async def live(self) -> None:
        """Run the driver-manager, then the driver."""
        await self.accept()
        async with self.initializing():
            kept = await self._run_driver_manager()
        await self._pull_image()
        self.status.run()
        await self.report()
        while self._has("crash-loop"):
            await self.pause(self.settings.crash_seconds)
            await self._crash()
        await (self._install() if kept is None else self._remount(kept))
        await self.pause(self.settings.driver_ready_gap_seconds)
        await self._until_fixed("unready")
        await self.turn_ready()

    def restart_container(self) -> None:
        """Let the driver container exit once: it restarts in place and the init container does not."""
        if self.container.running and not self.deleted:
            self.become(self._restart_in_place())

    async def _restart_in_place(self) -> None:
        """Exit and start again. The old driver is still there at the new start; then it is replaced."""
        self.resign()
        await self._crash()
        await self.pause(self.settings.driver_unload_seconds)
        self.stack.unload()
        await self._install()
        await self.pause(self.settings.driver_ready_gap_seconds)
        await self._until_fixed("unready")
        await self.turn_ready()

    # The driver-manager.

    async def _run_driver_manager(self) -> Driver | None:
        """Unload the old driver, or keep it if it is configured alike; its root is unmounted anyway."""
        old = self.stack.loaded
        if old is not None:
            await self._pause_operands()
            await self.pause(self.settings.driver_unload_seconds)
            self.stack.unload()
        await self._resume_operands()
        return old if old is not None and self._digest and old.digest == self._digest else None

    async def _pause_operands(self) -> None:
        """Pause what is placed by labels, and wait until it is off the node.

        The real one does not await the pods of the label that its environment names, but what it does
        next takes it much longer than a DaemonSet needs to go.
        """
        labels = {key: paused(value) for key in self._pausable if (value := self.node.labels.get(key, ""))}
        self.node.draining = {key for key, value in labels.items() if is_paused(value)}
        await self._label({key: value for key, value in labels.items() if value != self.node.labels[key]})
        with contextlib.suppress(TimeoutError):
            drained = self.node.until(lambda: not self.node.has_pods_selected_by(self.node.draining))
            await asyncio.wait_for(drained, DRAIN_SECONDS)

    async def _resume_operands(self) -> None:
        """Also those that a driver-manager before us left paused."""
        labels = self.node.labels
        await self._label({key: resumed(labels[key]) for key in self._pausable if is_paused(labels.get(key, ""))})
        self.node.draining = set()

    async def _label(self, labels: dict[str, str]) -> None:
        if labels:
            await self.patch_node({"labels": labels})

    @property
    def _pausable(self) -> tuple[str, ...]:
        """The node labels that this pod's k8s-driver-manager pauses."""
        further = variable(self.pod["spec"].get("initContainers", []), EVICTION_LABEL_VARIABLE)
        return (*OPERAND_LABELS, further) if further else OPERAND_LABELS

    # The driver's container.

    async def _pull_image(self) -> None:
        """Wait for an image that cannot be pulled."""
        if self._has("image-pull"):
            self.container.wait(IMAGE_PULL, f'Back-off pulling image "{self.container.image}": not found')
            await self.report()
            await self._until_fixed("image-pull")

    async def _crash(self) -> None:
        self.container.crash(CRASH_LOOP)
        await self.report()
        await self.pause(self.settings.crash_backoff_seconds)
        self.container.run()
        await self.report()

    async def _install(self) -> None:
        await self.pause(self.settings.driver_install_seconds)
        self.stack.load(loaded_version(self.container.image), self._digest)

    async def _remount(self, kept: Driver) -> None:
        await self.pause(self.settings.driver_remount_seconds)
        self.stack.load(kept.version, kept.digest)

    @property
    def _digest(self) -> str:
        """The DRIVER_CONFIG_DIGEST that this pod was rendered with."""
        return variable(self.pod["spec"]["containers"], DIGEST_VARIABLE)

    def _has(self, fault: str) -> bool:
        """Return whether the node is to have this fault now."""
        return self.node.annotations.get(faults.DRIVER_FAULT) == fault

    async def _until_fixed(self, fault: str) -> None:
        await self.node.until(lambda: not self._has(fault))


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


def loaded_version(image: str) -> str:
    """Read the driver's version from its image's tag: ``<version>-<os>`` or ``<branch>-<kernel>-<os>``."""
    version = image.rpartition(":")[2].split("-")[0]
    return version if "." in version else f"{version}.{BRANCH_PATCH}"
