"""States of a controller, and telemetry with something of everything in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from prometheus_client import generate_latest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, NodeStatus, Phase, StalePod
from hook.decide.workloads import Affected
from hook.errors import ApiError
from hook.kube.client import Counters
from hook.kube.events import EventRecorder, ObjectReference
from hook.objects import names
from hook.run.restarts import RestartResult
from hook.run.telemetry import ControllerState, Telemetry

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PLUGIN: Final = "dra/plugin"


class Recorder(EventRecorder):
    """Keeps what Events would report: kind of the object, reason, what it is about, and whether it is a warning."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, str, bool]] = []

    def event(
        self, subject: ObjectReference, reason: str, _note: str, *, about: str = "", warning: bool = False
    ) -> None:
        """Note it."""
        self.heard.append((subject.kind, str(reason), about, warning))


def later(seconds: float) -> datetime:
    """Return a moment after the beginning."""
    return NOW + timedelta(seconds=seconds)


def stale_pod(name: str = "plugin-1", ready: datetime | None = NOW) -> StalePod:
    """Return a pod that must restart."""
    return StalePod("dra", name, name, "1", "ds", "it is old", "run", driver_ready=ready)


def stale(node: str = "gpu-1", ready: datetime | None = NOW) -> NodeStatus:
    """Return the status of a node whose plugin is stale."""
    return _evaluated(node, NodeState.STALE, Reason.PLUGIN_STALE, PLUGIN, stale_pod(f"plugin-{node}", ready))


def standing(state: NodeState, reason: Reason, node: str = "gpu-1", plugin: str = PLUGIN) -> NodeStatus:
    """Return the status of a node without a stale pod."""
    return _evaluated(node, state, reason, plugin)


def verified(node: str = "gpu-1") -> NodeStatus:
    """Return the status of a node whose plugin is verified."""
    return standing(NodeState.VERIFIED, Reason.VERIFIED, node)


def waiting(node: str = "gpu-1") -> NodeStatus:
    """Return the status of a node whose driver reloads: nothing is known of its plugins."""
    return standing(NodeState.WAITING, Reason.DRIVER_NOT_READY, node, plugin="")


def _evaluated(node: str, state: NodeState, reason: Reason, plugin: str, pod: StalePod | None = None) -> NodeStatus:
    return NodeStatus(node, state, reason, "so it is", plugin=plugin, stale_pod=pod)


def decision(statuses: Iterable[NodeStatus]) -> Decision:
    """Decide to wait."""
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "so it is", statuses=tuple(statuses))


def state(*statuses: NodeStatus, now: datetime = NOW) -> ControllerState:
    """Return the state after a reconcile."""
    return ControllerState(decision(statuses), now, Affected())


def restart(pod: StalePod, note: str = "", *, refused: str = "", trouble: str = "") -> RestartResult:
    """Restart a plugin; it went well unless said otherwise."""
    note = note or ("" if refused or trouble else "restarted")
    return RestartResult(DeletePod("gpu-1", pod), note, refused, trouble)


def lease(**spec: str) -> dict[str, Any]:
    """Return a controller's Lease, renewed two seconds ago."""
    metadata = {"name": "post", "namespace": "gpu-operator", "labels": names.OWN_LABELS}
    renewed = {"holderIdentity": "pod-a", "renewTime": "2026-03-01T11:59:58.000001Z"}
    return {"kind": "Lease", "metadata": metadata, "spec": {**renewed, **spec}}


def exposition() -> str:
    """Return what /metrics shows of a controller that has seen everything once."""
    counters = Counters()
    counters.failed(ApiError(0, "gone"), "watch", "pods")
    telemetry = Telemetry(counters)
    telemetry.leading(leading=True)
    telemetry.reconciled(replace(state(stale()), oldest_taint=NOW))
    return generate_latest(telemetry.registry).decode()
