"""The life of a pod with claims: the node's plugin prepares them, right or wrong, before the pod gets its sandbox.

Measured with the real plugin: a stale plugin prepares claims from its caches. That succeeds, with the old driver's
files. Later it fails, and the kubelet tries again until a fresh plugin succeeds. What was prepared once stays as it is.
Here each pod has claims of its own: with the real plugin, pods that share a claim get the files of the first one.

The real plugin keeps what it reads of the driver for five minutes from the moment at which it reads it: when it starts,
or for an earlier claim. So it prepares with old files for at most five minutes after a reload, and mostly for less.
Here it always does so for five minutes. That is the worst case: such a claim raises no error, and must be reported.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from devcluster.fleet.clients import RESOURCE_DRIVER
from devcluster.fleet.life import Life
from devcluster.fleet.status import CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Held

RETRY_SECONDS = 1.0
"""How often the kubelet tries again to prepare a claim; with a growing pause in reality."""

FAILED = "Failed to prepare dynamic resources: prepare devices failed: "
"""How the kubelet begins what a DRA driver answered."""

NOT_REGISTERED = FAILED + "DRA driver gpu.nvidia.com is not registered"
EMPTY_EDITS = FAILED + (
    "error preparing devices for claim {claim}: unable to create CDI spec file for claim: "
    'invalid CDI Spec: failed add device "{claim}-gpu-0": invalid device, empty device edits'
)


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
        while isinstance(answer := self._answer(), str):
            for main in self.status.mains:
                main.wait(CREATING, answer)
            await self.report()
            await asyncio.sleep(RETRY_SECONDS)
        self._prepared = True
        facts = {"uid": self.uid, "pod": self.name, "namespace": self.namespace}
        self.node.gpu.write("claim-prepared", load=answer.load, version=answer.version, **facts)

    def _answer(self) -> Held | str:
        """Return what the plugin prepares the claims with, or its error."""
        stack, settings = self.node.gpu, self.settings
        held = next((each for each in stack.holders.values() if each.resource_driver == RESOURCE_DRIVER), None)
        if held is None or stack.loaded is None:
            return NOT_REGISTERED
        if stack.is_stale(held) and time.monotonic() - stack.loaded.since >= settings.stale_success_seconds:
            return EMPTY_EDITS.format(claim=self.uid)
        return held

    def on_gone(self) -> None:
        """Release the claims."""
        self.node.gpu.write("claim-released", uid=self.uid, pod=self.name, namespace=self.namespace)
