"""The life of a network driver's (MOFED, DOCA-OFED) pod.

It differs from a GPU driver's: the init container unloads nothing, and may only wait until the
node is empty. The driver's own container builds first, replaces what is loaded, and puts the
operating system's driver back when it is stopped. A network driver is loaded at almost all times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.fleet.driver import variable
from devcluster.fleet.loader import LoaderLife
from devcluster.fleet.node import INBOX

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack

SAFE_LOAD_VARIABLE = "SAFE_LOAD_ANNOTATION"
"""The environment variable of the init container that names a node annotation: by it the container asks the operator
to empty the node, and waits until it is taken away. The real one reads that from a ConfigMap."""


class NetworkDriverLife(LoaderLife):
    """The init container waits if it is to; then the driver container builds, and replaces what is loaded."""

    @property
    def stack(self) -> Stack:
        """The network card's driver."""
        return self.node.nic

    async def live(self) -> None:
        """Wait for a safe moment, build, replace the driver."""
        await self.accept()
        async with self.initializing():
            await self._wait_for_a_safe_moment()
        self.status.run()
        await self.report()
        await self.pause(self.settings.network_build_seconds)
        await self._replace_by(network_version(self.container.image))
        await self.pause(self.settings.network_ready_gap_seconds)
        await self.turn_ready()

    async def wind_down(self) -> None:
        """Put the operating system's driver back, if ours is loaded: it is known by our UID."""
        await super().wind_down()
        if self.stack.loaded is not None and self.stack.loaded.digest == self.uid:
            await self._replace_by(INBOX)

    async def _replace_by(self, version: str) -> None:
        self.stack.unload()
        await self.pause(self.settings.network_reload_seconds)
        self.stack.load(version, "" if version == INBOX else self.uid)

    async def _wait_for_a_safe_moment(self) -> None:
        """Where that is wished, ask by an annotation of the node, and continue when it was taken away."""
        annotation = variable(self.pod["spec"].get("initContainers", []), SAFE_LOAD_VARIABLE)
        if annotation:
            await self.patch_node({"annotations": {annotation: "true"}})
            self.stack.write("safe-load-asked", pod=self.name, uid=self.uid)
            await self.node.until(lambda: not self.node.annotations.get(annotation))


def network_version(image: str) -> str:
    """Read the driver's version, which has dashes itself, from its image's tag: ``<version>-<os>-<arch>``."""
    return image.rpartition(":")[2].rsplit("-", 2)[0]
