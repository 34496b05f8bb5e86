"""The life of a network driver's (MOFED, DOCA-OFED) pod.

It differs from a GPU driver's: the init container unloads nothing, and may only wait until the
node is empty. The driver's own container builds first, replaces what is loaded, and puts the
operating system's driver back when it is stopped. A network driver is loaded at almost all times.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from devcluster.client import path
from devcluster.fleet import faults
from devcluster.fleet.loader import LoaderLife
from devcluster.fleet.node import INBOX
from devcluster.fleet.status import CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack

LABEL = "nvidia.com/ofed-driver"
"""The label of network driver pods; its value is empty."""

CONFIG, CONFIG_KEY = "ofed-init-container-config", "config.json"
"""The ConfigMap that the init container reads."""


class NetworkDriverLife(LoaderLife):
    """The init container waits if it is to; then the driver container builds, and replaces what is loaded."""

    fault_annotation = faults.NETWORK_DRIVER_FAULT
    restart_annotation = faults.RESTART_NETWORK_DRIVER_CONTAINER

    @property
    def stack(self) -> Stack:
        """The network card's driver."""
        return self.node.nic

    @property
    def ready_gap(self) -> float:
        """Seconds from a loaded driver to a Ready pod."""
        return self.settings.network_ready_gap_seconds

    async def live(self) -> None:
        """Wait for a safe moment, build, replace the driver."""
        await self.node.until(lambda: self.node.fault(self.fault_annotation) != "pending")
        await self.accept()
        await self._run_init_container()
        await self.pull_image()
        await self.start_containers()
        await self.reload_in_place()
        await self.pause(self.ready_gap)
        await self.turn_ready()

    async def reload_in_place(self) -> None:
        """Build, while the old driver serves on; then replace it."""
        await self.pause(self.settings.network_build_seconds)
        kernel = self.pod["metadata"]["labels"].get("kernel", "")
        await self._replace_by(network_version(self.container.image, kernel))

    async def wind_down(self) -> None:
        """Put the operating system's driver back, if ours is loaded: it is known by our UID."""
        await super().wind_down()
        if self.stack.loaded is not None and self.stack.loaded.digest == self.uid:
            await self._replace_by(INBOX)

    async def _replace_by(self, version: str) -> None:
        self.stack.unload()
        await self.pause(self.settings.network_reload_seconds)
        self.stack.load(version, "" if version == INBOX else self.uid)

    async def _run_init_container(self) -> None:
        for init in self.status.inits:
            init.run()
        await self.report()
        await self._wait_for_a_safe_moment()
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.wait(CREATING)
        await self.report()

    async def _wait_for_a_safe_moment(self) -> None:
        """Where that is wished, ask by an annotation of the node, and continue when it was taken away."""
        annotation = await self._safe_load_annotation()
        if annotation:
            await self.node.online()
            asked = {"metadata": {"annotations": {annotation: "true"}}}
            self.node.update(await self.api.patch(path("v1", "nodes", name=self.node.name), asked))
            self.stack.write("safe-load-asked", pod=self.name, uid=self.uid)
            await self.node.until(lambda: not self.node.annotations.get(annotation))

    async def _safe_load_annotation(self) -> str:
        """Read the init container's configuration: the annotation to ask by, or nothing."""
        if not self.status.inits:
            return ""
        await self.node.online()
        url_path = path("v1", "configmaps", namespace=self.namespace, name=CONFIG)
        config = json.loads((await self.api.get(url_path))["data"][CONFIG_KEY])["safeDriverLoad"]
        return str(config["annotation"]) if config["enable"] else ""


def is_network_driver(pod: dict[str, Any]) -> bool:
    """Return whether a pod is a network driver's."""
    return LABEL in pod["metadata"].get("labels", {})


def network_version(image: str, kernel: str) -> str:
    """Read the driver's version from its image: ``<version>[-<kernel>]-<os>-<arch>``, or the digest.

    The version itself has dashes.
    """
    if "@" in image:
        return image.partition("@")[2]
    tag = image.rpartition(":")[2]
    precompiled = tag.partition(f"-{kernel}-")[0]
    return precompiled if precompiled != tag else tag.rsplit("-", 2)[0]
