"""The status of the operator's own objects: a state and two conditions, written one after the other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from devcluster.operator import names as n

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.controller.mirror import Mirror

Object = dict[str, Any]

BETWEEN_WRITES_SECONDS = 0.05
"""State and conditions are two writes; in between they contradict each other."""


class Verdict(NamedTuple):
    """What is to be said of an object."""

    state: str
    """ready, notReady or disabled."""
    reason: str
    message: str


READY = Verdict("ready", "Reconciled", "ClusterPolicy is ready as all resources have been successfully reconciled")
NO_GPU_NODES = Verdict("ready", "NoGPUNodes", "No GPU node found, watching for new nodes to join the cluster.")
NOT_READY = Verdict("notReady", "OperandNotReady", "ClusterPolicy is not ready, states not ready: [state-driver]")
DRIVER_READY = Verdict("ready", "Reconciled", "All resources have been successfully reconciled")
DRIVER_NOT_READY = Verdict("notReady", "DriverNotReady", "Waiting for driver pod to be ready")
CONFLICT = Verdict("notReady", "ConflictingNodeSelector", "conflicting NVIDIADriver NodeSelectors found")
DISABLED = Verdict("disabled", "ReconcileFailed", "useNvidiaDriverCRD is not enabled in ClusterPolicy")
CLUSTER_READY = Verdict("ready", "Reconciled", "GPUCluster is ready")
CLUSTER_NOT_READY = Verdict("notReady", "OperandNotReady", "GPUCluster is not ready")


@dataclass(frozen=True, slots=True)
class Scribe:
    """Writes the statuses of one kind."""

    api: Api
    mirror: Mirror
    """Where the answers go, and where the kind's path is known."""
    namespace: str

    async def write(self, thing: Object, verdict: Verdict) -> None:
        """Write the state, and a moment later the conditions; nothing where both are right."""
        status = thing.get("status", {})
        wanted = conditions(status.get("conditions", []), verdict)
        if status.get("state") != verdict.state:
            await self._patch(thing, {"state": verdict.state, "namespace": self.namespace})
            await asyncio.sleep(BETWEEN_WRITES_SECONDS)
        if status.get("conditions") != wanted:
            await self._patch(thing, {"conditions": wanted})

    async def _patch(self, thing: Object, status: Object) -> None:
        url_path = f"{self.mirror.url_path}/{n.name_of(thing)}/status"
        self.mirror.put(await self.api.patch(url_path, {"status": status}))


def conditions(before: list[Object], verdict: Verdict) -> list[Object]:
    """Spell Ready and Error as the real operator does; a condition's time moves with its status."""
    if verdict.state == "ready":
        wanted = [("Ready", "True", verdict.reason, verdict.message), ("Error", "False", "Ready", "")]
    else:
        wanted = [("Ready", "False", "Error", ""), ("Error", "True", verdict.reason, verdict.message)]
    times = {(each["type"], each["status"]): each["lastTransitionTime"] for each in before}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": times.get((kind, status), now),
        }
        for kind, status, reason, message in wanted
    ]
