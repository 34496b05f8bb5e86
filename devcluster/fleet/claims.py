"""The life of a pod with claims: the node's plugin prepares them, right or wrong, before the pod gets its sandbox.

Measured with the real plugin: a stale plugin prepares claims from its caches. That succeeds, with the old driver's
files, and what was prepared once stays as it is. Here each pod has claims of its own: with the real plugin, pods that
share a claim get the files of the first one.

The real plugin keeps what it reads of the driver for five minutes from the moment at which it reads it: when it starts,
or for an earlier claim. Then it refuses until it is restarted. Here it never does. That is the worst case: such a claim
raises no error, and must be reported.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from devcluster.fleet.clients import RESOURCE_DRIVER
from devcluster.fleet.life import Life
from devcluster.fleet.status import CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Held

RETRY_SECONDS = 1.0
"""How often the kubelet tries again to prepare a claim; with a growing pause in reality."""


class ClaimLife(Life):
    """A pod with claims, whose files are those of the driver that the plugin held when it prepared them."""

    _prepared = False

    async def live(self) -> None:
        """Prepare the claims, unless that is done, then start at once."""
        await self.node.online()
        if not self._prepared:
            await self._prepare_claims()
        await self.accept()
        self.status.run_inits()
        self.status.end_inits()
        self.status.run()
        self.status.succeed_startup()
        await self.report()

    async def _prepare_claims(self) -> None:
        while (held := self._plugin()) is None:
            for main in self.status.mains:
                main.wait(CREATING)
            await self.report()
            await asyncio.sleep(RETRY_SECONDS)
        self._prepared = True
        facts = {"uid": self.uid, "pod": self.name, "namespace": self.namespace}
        self.node.gpu.write("claim-prepared", load=held.load, version=held.version, **facts)

    def _plugin(self) -> Held | None:
        """Return what the plugin holds that prepares the claims; None while there is no plugin or no driver."""
        stack = self.node.gpu
        found = (each for each in stack.holders.values() if each.resource_driver == RESOURCE_DRIVER)
        return next(found, None) if stack.loaded is not None else None

    def on_gone(self) -> None:
        """Release the claims."""
        self.node.gpu.write("claim-released", uid=self.uid, pod=self.name, namespace=self.namespace)
