"""What every controller of an operator does: reconcile when something changed, and now and then."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from devcluster.controller.objects import NODES, TROUBLE, name_of
from devcluster.controller.settings import OperatorSettings
from devcluster.controller.world import DriverWorld

if TYPE_CHECKING:
    from devcluster.client import Api

Object = dict[str, Any]

log = logging.getLogger(__name__)

World = TypeVar("World", bound=DriverWorld)
Settings = TypeVar("Settings", bound=OperatorSettings)


class Reconciler(Generic[World, Settings]):
    """A controller. Subclasses say in `reconcile` what is to be as their objects ask."""

    look_again_seconds: ClassVar[float] = 1.0
    """The real ones look again after 5 s while something is not ready."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self._judged_generation: int | None = None

    async def reconcile(self) -> None:
        """Look, and write what is missing."""
        raise NotImplementedError

    async def run(self) -> None:
        """Reconcile without an end; what a request ends with is met by looking again."""
        changed = self.world.subscribe()
        while True:
            changed.clear()
            try:
                await self.reconcile()
            except TROUBLE as error:
                log.warning("%s: %r", type(self).__qualname__, error)
            try:
                await asyncio.wait_for(changed.wait(), self.look_again_seconds)
            except TimeoutError:
                continue

    async def patch_node(self, node: Object, metadata: Object) -> None:
        """Write to a node, and see the answer before the watch brings it; nothing to write is no request."""
        if metadata:
            answer = await self.api.patch(f"{NODES}/{name_of(node)}", {"metadata": metadata})
            self.world.node_mirror.put(answer)

    async def delay_status(self, policy: Object) -> None:
        """Let a while pass before a policy of a new generation is judged: until then its status is of the old one."""
        generation = policy["metadata"]["generation"]
        if generation != self._judged_generation:
            await asyncio.sleep(self.settings.status_seconds)
            self._judged_generation = generation
