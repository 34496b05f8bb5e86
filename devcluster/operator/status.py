"""The status of the operator's own objects: whether all is ready, and how that is written.

Two generations of the real operator answer differently, and both ask too little. 26.3 lists pods by the template's
labels: after a chart bump these carry the new chart's label, the old pods drop out of the list, and one upgraded pod is
enough to be ready. A state and two conditions are written one after the other.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from devcluster.controller.objects import HASH, labels_of, name_of
from devcluster.operator.names import DONE, SKIP, STATE

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.controller.world import Mirror


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
class StatusWriter:
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
        url_path = f"{self.mirror.url_path}/{name_of(thing)}/status"
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


def is_ready(behaviour: str, daemonset: Object, pods: list[Object], newest_hash: str) -> bool:
    """Judge one DaemonSet; `pods` are all that it owns."""
    status = daemonset.get("status", {})
    if status.get("desiredNumberScheduled", 0) == 0:
        return True
    if status.get("numberUnavailable", 0) != 0:
        return False
    if daemonset["spec"].get("updateStrategy", {}).get("type") == "RollingUpdate":
        return behaviour == "26.3" or _is_rolled_out(daemonset)
    if behaviour == "26.3":
        listed = _matching(pods, labels_of(daemonset["spec"]["template"]))
    else:
        if not _is_rolled_out(daemonset):
            return False
        listed = _matching(pods, daemonset["spec"]["selector"]["matchLabels"])
    return bool(listed) and all(_is_new_and_ready(pod, newest_hash) for pod in listed)


def is_pool_ready(daemonset: Object) -> bool:
    """Judge a DaemonSet of an NVIDIADriver or a GPUCluster, by its status alone and whatever generation that is of."""
    status = daemonset.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    if desired == 0:
        return bool(status.get("observedGeneration", 0) > 0)
    return bool(desired == status.get("numberAvailable") == status.get("updatedNumberScheduled"))


def is_quiet(node: Object) -> bool:
    """Return whether a node's upgrade is over, or its user excludes the node from it."""
    labels = labels_of(node)
    return labels.get(STATE, "") in {"", DONE} or labels.get(SKIP) == "true"


def _matching(pods: list[Object], labels: dict[str, str]) -> list[Object]:
    return [pod for pod in pods if labels.items() <= labels_of(pod).items()]


def _is_rolled_out(daemonset: Object) -> bool:
    status = daemonset["status"]
    desired = status["desiredNumberScheduled"]
    observed = bool(status.get("observedGeneration") == daemonset["metadata"]["generation"])
    return observed and desired == status.get("updatedNumberScheduled") == status.get("numberAvailable")


def _is_new_and_ready(pod: Object, newest_hash: str) -> bool:
    containers = pod.get("status", {}).get("containerStatuses", [])
    return (
        labels_of(pod).get(HASH) == newest_hash
        and pod["status"].get("phase") == "Running"
        and all(each["ready"] for each in containers)
    )
