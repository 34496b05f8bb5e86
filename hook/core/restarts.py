"""Turn stale plugins into restarts.

Each strategy is one function from node statuses to actions. To add one, write the function and add it to the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hook.core import breaker
from hook.core.asked import beside_memory
from hook.core.places import Places, serving
from hook.core.plugins import untolerated
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.verdicts import DeletePod, NodeState, Patience, RolloutRestart
from hook.settings import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.memory import Memory
    from hook.core.verdicts import Action, Judgement
    from hook.objects.views import DaemonSet


@dataclass(frozen=True, slots=True)
class Plan:
    """Node statuses in the light of earlier restarts, and the restarts for now."""

    judgements: tuple[Judgement, ...]
    actions: tuple[Action, ...]


def plan(judgements: Sequence[Judgement], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Match statuses against earlier restarts, then let the strategy choose."""
    compared = (beside_memory(status, fleet.settings, memory, now) for status in judgements)
    held = tuple(_held_as_suspect(status, memory, now) for status in compared)
    return _STRATEGIES[fleet.settings.strategy](held, fleet, memory, now)


def _held_as_suspect(judged: Judgement, memory: Memory, now: datetime) -> Judgement:
    if not _due(judged) or not breaker.suspect(judged, memory.breaker, now):
        return judged
    message = f"{judged.message}; but its driver was not reloaded, so its restart waits for a minute"
    return replace(judged, reason=Reason.PLUGIN_SUSPECT, message=message)


def _delete_stale_pods(judgements: tuple[Judgement, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Delete stale pods within the disruption budget.

    Deletion works with update strategy OnDelete, too, and changes no pod template.
    """
    places = Places.left(judgements, memory.restarts, fleet, now)
    actions: dict[str, Action] = {}
    for status in sorted(judgements, key=lambda status: (_last_trouble(status, memory), _ready_since(status))):
        serves = serving(status, fleet)
        if _due(status) and status.stale_pod is not None and places.has(serving=serves):
            actions[status.stale_pod.uid] = DeletePod(status.node, status.stale_pod)
            places = places.taken(serving=serves)
    shown = tuple(
        _queued(status, places.why_full)
        if _due(status) and status.stale_pod is not None and status.stale_pod.uid not in actions
        else status
        for status in judgements
    )
    return Plan(shown, tuple(actions.values()))


def _due(judged: Judgement) -> bool:
    """Return whether a stale pod may be restarted now, if the disruption budget allows."""
    return judged.state is NodeState.STALE and judged.reason is Reason.PLUGIN_STALE


def _last_trouble(judged: Judgement, memory: Memory) -> int:
    """Return the rank of a pod by its last failed restart: those without one first, the most recent failure last.

    A failing write takes time that other nodes may need.
    """
    if judged.stale_pod is None or judged.stale_pod.uid not in memory.troubles:
        return -1
    return list(memory.troubles).index(judged.stale_pod.uid)


def _ready_since(judged: Judgement) -> float:
    """Return since when a pod waits. In order of names, the last ones would starve where writes are slow."""
    moment = judged.stale_pod.driver_ready if judged.stale_pod else None
    return moment.timestamp() if moment else 0.0


def _queued(judged: Judgement, why: str) -> Judgement:
    return replace(judged, reason=Reason.PLUGIN_QUEUED, message=f"{judged.message}; waits for its turn ({why})")


def _restart_rollout(judgements: tuple[Judgement, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Restart whole DaemonSets once all nodes are settled, because a rollout restarts every pod, fresh or not.

    The update strategy of the DaemonSet limits how many pods are down during the rollout. The disruption budget only
    decides whether the rollout may begin.
    """
    unwelcome, waiting = _unwelcome(fleet), _waiting(judgements)
    shown = tuple(_held_back(_refuse_on_delete(status, fleet), unwelcome) for status in judgements)
    shown = tuple(_waiting_together(status, waiting) for status in shown)
    if any(status.state is NodeState.WAITING and status.reason is not Reason.PLUGIN_UNWELCOME for status in shown):
        return Plan(shown, ())
    rolling = {str(ds): ds for ds in fleet.consumers.named if _is_rolling(ds, judgements, fleet)}
    shown = tuple(
        _rolling(status, rolling[status.consumer]) if status.consumer in rolling else status for status in shown
    )
    places = Places.left(judgements, memory.restarts, fleet, now)
    if places.anyones is not None and places.anyones <= 0:
        return Plan(tuple(_queued(status, places.why_full) if _due(status) else status for status in shown), ())
    actions: list[Action] = []
    for daemonset in fleet.consumers.named:
        pods = tuple(
            (status.node, status.stale_pod)
            for status in shown
            if _due(status) and status.stale_pod and status.stale_pod.daemonset_uid == daemonset.uid
        )
        if pods:
            actions.append(RolloutRestart(daemonset.namespace, daemonset.name, daemonset.uid, now, pods))
    return Plan(shown, tuple(actions))


def _waiting(judgements: Sequence[Judgement]) -> dict[str, Judgement]:
    """Return by DaemonSet the status of a pod whose restart must wait. A rollout would restart it as well."""
    return {status.consumer: status for status in judgements if Trait.RESTART_HELD in status.reason.traits}


def _waiting_together(judged: Judgement, waiting: Mapping[str, Judgement]) -> Judgement:
    if not _due(judged) or judged.consumer not in waiting:
        return judged
    other = waiting[judged.consumer]
    message = f"{judged.message}; a rollout would also restart the pod on {other.node}: {other.message}"
    return replace(judged, reason=other.reason, message=message)


def _is_rolling(daemonset: DaemonSet, judgements: Sequence[Judgement], fleet: Fleet) -> bool:
    """Return whether a rollout is in progress. Pods that terminate on lost nodes do not count."""
    lost = {status.node for status in judgements if status.reason is Reason.NODE_NOT_READY}
    pods = (pod for node in lost for pod in fleet.consumer_pods.get(node, ()))
    stuck = {pod.node for pod in pods if pod.owner_uid == daemonset.uid and not pod.live}
    return not daemonset.observed or daemonset.updated + len(stuck) < daemonset.desired


def _unwelcome(fleet: Fleet) -> dict[str, str]:
    """Return by DaemonSet why a rollout would delete a pod, stale or fresh, that could not come back."""
    found: dict[str, str] = {}
    for daemonset in fleet.consumers.named:
        for node, pods in fleet.consumer_pods.items():
            why = untolerated(node, daemonset, fleet)
            if why and any(pod.owner_uid == daemonset.uid and pod.live for pod in pods):
                found.setdefault(str(daemonset), f"a rollout would also restart the pod on {node}: {why}")
    return found


def _held_back(judged: Judgement, unwelcome: Mapping[str, str]) -> Judgement:
    if judged.state is not NodeState.STALE or judged.consumer not in unwelcome:
        return judged
    return replace(
        judged,
        state=NodeState.WAITING,
        reason=Reason.PLUGIN_UNWELCOME,
        message=f"{judged.message}; {unwelcome[judged.consumer]}",
        patience=Patience.PLUGIN,
    )


def _rolling(judged: Judgement, consumer: DaemonSet) -> Judgement:
    """Leave a stale pod to the rollout in progress. To stamp the template again would restart the rollout.

    The grace period starts again with each pod that the rollout updates.
    """
    if judged.state is not NodeState.STALE:
        return judged
    message = f"{judged.message}; a rollout of {judged.consumer} is in progress"
    return replace(
        judged,
        state=NodeState.RESTARTING,
        reason=Reason.PLUGIN_RESTARTING,
        message=message,
        patience=Patience.PLUGIN,
        patience_with=f"rollout/{consumer}/{consumer.updated}",
    )


def _refuse_on_delete(judged: Judgement, fleet: Fleet) -> Judgement:
    stale = judged.stale_pod
    on_delete = {ds.uid for ds in fleet.consumers.named if not ds.rolling}
    if judged.state is not NodeState.STALE or stale is None or stale.daemonset_uid not in on_delete:
        return judged
    message = f"{judged.message}, but {judged.consumer} has updateStrategy OnDelete: a rollout restarts nothing"
    return judged.failed(Reason.ROLLOUT_IMPOSSIBLE, message)


_STRATEGIES: Final[Mapping[Strategy, Callable[[tuple[Judgement, ...], Fleet, Memory, datetime], Plan]]] = {
    Strategy.STALE_PODS: _delete_stale_pods,
    Strategy.ROLLOUT: _restart_rollout,
}
