"""What the lives of all driver pods have in common: images, crashes, restarts in place, turning Ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from devcluster.fleet import faults
from devcluster.fleet.life import Life
from devcluster.fleet.stack import DriverPod
from devcluster.fleet.status import CRASH_LOOP, IMAGE_PULL, later

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack
    from devcluster.fleet.status import Container


class LoaderLife(Life):
    """A pod whose first container loads a driver into a stack of its node."""

    fault_annotation: ClassVar[str]
    """The node annotation with the fault that is asked for."""
    restart_annotation: ClassVar[str]
    """The node annotation that restarts the driver container in place."""

    @property
    def stack(self) -> Stack:
        """Where this pod loads its driver."""
        raise NotImplementedError

    @property
    def container(self) -> Container:
        """The container that owns the driver: always the first."""
        return self.status.mains[0]

    @property
    def ready_gap(self) -> float:
        """Seconds from a loaded driver to a Ready pod."""
        return self.settings.driver_ready_gap_seconds

    async def reload_in_place(self) -> None:
        """Replace what is loaded, after the driver container started a second time."""
        raise NotImplementedError

    def shown(self) -> dict[str, Any]:
        """Spell the status, with its times moved where that is wanted."""
        moved: dict[str, Any] = later(self.status.render(), float(self.node.fault(faults.TIME_JUMP) or 0))
        return moved

    def on_deleted(self) -> None:
        """Stop being the node's Ready driver; what is loaded stays so until it is unloaded."""
        self.resign()

    def on_gone(self) -> None:
        """Write it into the journal."""
        self.stack.write("driver-gone", pod=self.name, uid=self.uid)

    def restart_container(self) -> None:
        """Let the driver container exit once: it restarts in place and the init container does not."""
        if self.container.running and not self.deleted:
            self.become(self._restart_in_place())

    async def pull_image(self) -> None:
        """Wait for an image that cannot be pulled."""
        if self.node.fault(self.fault_annotation) == "image-pull":
            image = self.container.image
            self.container.wait(IMAGE_PULL, f'Back-off pulling image "{image}": not found')
            await self.report()
            await self.node.until(lambda: self.node.fault(self.fault_annotation) != "image-pull")

    async def start_containers(self) -> None:
        """Start (D), and crash and start again for as long as that is wanted."""
        for main in self.status.mains:
            main.run()
        await self.report()
        while self.node.fault(self.fault_annotation) == "crash-loop":
            await self.pause(self.settings.crash_seconds)
            await self._crash()

    async def turn_ready(self) -> None:
        """Pass the startup probe (R), unless it is to fail.

        The truth knows it first: a client may act on the API's word at once.
        """
        await self.node.until(lambda: self.node.fault(self.fault_annotation) != "unready")
        for main in self.status.mains:
            main.succeed_startup()
        labels = self.pod["metadata"]["labels"]
        pod = DriverPod(self.uid, self.owner.get("uid", ""), labels.get("controller-revision-hash", ""))
        self.stack.set_ready_driver(pod)
        loaded = self.stack.loaded
        self.stack.write(
            "driver-ready",
            pod=self.name,
            uid=self.uid,
            hash=pod.hash,
            load=loaded.load if loaded else None,
            version=loaded.version if loaded else "",
        )
        await self.report()

    def resign(self) -> None:
        """Stop being the node's Ready driver, where this pod is that."""
        ready = self.stack.ready_driver
        if ready is not None and ready.uid == self.uid:
            self.stack.set_ready_driver(None)

    async def _restart_in_place(self) -> None:
        """Exit and start again. The old driver is still there at the new start; then it is replaced."""
        self.resign()
        await self._crash()
        await self.reload_in_place()
        await self.pause(self.ready_gap)
        await self.turn_ready()

    async def _crash(self) -> None:
        self.container.crash(CRASH_LOOP)
        await self.report()
        await self.pause(self.settings.crash_backoff_seconds)
        self.container.run()
        await self.report()
