"""What the lives of driver pods have in common: which of them is the node's Ready driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.fleet.life import Life
from devcluster.fleet.stack import DriverPod

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack
    from devcluster.fleet.status import Container


class LoaderLife(Life):
    """A pod whose first container loads a driver into a stack of its node."""

    @property
    def stack(self) -> Stack:
        """Where this pod loads its driver."""
        raise NotImplementedError

    @property
    def container(self) -> Container:
        """The container that owns the driver: always the first."""
        return self.status.mains[0]

    def on_deleted(self) -> None:
        """Stop being the node's Ready driver; what is loaded stays so until it is unloaded."""
        self.resign()

    def on_gone(self) -> None:
        """Write it into the journal."""
        self.stack.write("driver-gone", pod=self.name, uid=self.uid)

    async def turn_ready(self) -> None:
        """Pass the startup probe (R). The truth knows it first: a client may act on the API's word at once."""
        self.status.succeed_startup()
        digest = self.pod["metadata"].get("labels", {}).get("controller-revision-hash", "")
        self.stack.set_ready_driver(DriverPod(self.uid, self.owner.get("uid", ""), digest))
        loaded = self.stack.loaded
        self.stack.write(
            "driver-ready",
            pod=self.name,
            uid=self.uid,
            hash=digest,
            load=loaded.load if loaded else None,
            version=loaded.version if loaded else "",
        )
        await self.report()

    def resign(self) -> None:
        """Stop being the node's Ready driver, where this pod is that."""
        ready = self.stack.ready_driver
        if ready is not None and ready.uid == self.uid:
            self.stack.set_ready_driver(None)
