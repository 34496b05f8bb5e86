"""Turn stale plugins into actions.

A strategy is one function from the judgements to actions; another one is one function and a row.
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
    """Judgements as they look beside what was asked for before, and what to ask for now."""

    judgements: tuple[Judgement, ...]
    actions: tuple[Action, ...]


def plan(judgements: Sequence[Judgement], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Compare judgements with memory, then let the strategy choose."""
    compared = (beside_memory(one, fleet.settings, memory, now) for one in judgements)
    held = tuple(_held_as_suspect(one, memory, now) for one in compared)
    return _STRATEGIES[fleet.settings.strategy](held, fleet, memory, now)


def _held_as_suspect(judged: Judgement, memory: Memory, now: datetime) -> Judgement:
    if not _due(judged) or not breaker.suspect(judged, memory.breaker, now):
        return judged
    message = f"{judged.message}; but its driver was not reloaded, so it is held for a minute"
    return replace(judged, reason=Reason.PLUGIN_SUSPECT, message=message)


def _delete_stale_pods(judgements: tuple[Judgement, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Delete each stale pod, as many at once as is allowed. Works with OnDelete too, mutates no template."""
    places = Places.left(judgements, memory.restarts, fleet, now)
    actions: dict[str, Action] = {}
    for one in sorted(judgements, key=lambda one: (_last_trouble(one, memory), _ready_since(one))):
        serves = serving(one, fleet)
        if _due(one) and one.stale_pod is not None and places.has(serving=serves):
            actions[one.stale_pod.uid] = DeletePod(one.node, one.stale_pod)
            places = places.taken(serving=serves)
    shown = tuple(
        _queued(one, places.why_full)
        if _due(one) and one.stale_pod is not None and one.stale_pod.uid not in actions
        else one
        for one in judgements
    )
    return Plan(shown, tuple(actions.values()))


def _due(judged: Judgement) -> bool:
    """Whether a stale pod is to be restarted now, as far as it alone is concerned."""
    return judged.state is NodeState.STALE and judged.reason is Reason.PLUGIN_STALE


def _last_trouble(judged: Judgement, memory: Memory) -> int:
    """Rank what failed before behind what did not, the last failure last: it takes time, which others may need."""
    if judged.stale_pod is None or judged.stale_pod.uid not in memory.troubles:
        return -1
    return list(memory.troubles).index(judged.stale_pod.uid)


def _ready_since(judged: Judgement) -> float:
    """Serve who waits longest first, whatever its name: where writes are slow, the last name would starve."""
    moment = judged.stale_pod.driver_ready if judged.stale_pod else None
    return moment.timestamp() if moment else 0.0


def _queued(judged: Judgement, why: str) -> Judgement:
    return replace(judged, reason=Reason.PLUGIN_QUEUED, message=f"{judged.message}; waits for its turn ({why})")


def _restart_rollout(judgements: tuple[Judgement, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Stamp the template once all nodes are settled: it restarts every pod, fresh or not.

    How many are down during a rollout is the DaemonSet's own affair; it begins only while there is a place.
    """
    unwelcome, waiting = _unwelcome(fleet), _waiting(judgements)
    shown = tuple(_held_back(_refuse_on_delete(one, fleet), unwelcome) for one in judgements)
    shown = tuple(_waiting_together(one, waiting) for one in shown)
    if any(one.state is NodeState.WAITING and one.reason is not Reason.PLUGIN_UNWELCOME for one in shown):
        return Plan(shown, ())
    rolling = {str(ds): ds for ds in fleet.consumers.named if _is_rolling(ds, judgements, fleet)}
    shown = tuple(_rolling(one, rolling[one.consumer]) if one.consumer in rolling else one for one in shown)
    places = Places.left(judgements, memory.restarts, fleet, now)
    if places.anyones is not None and places.anyones <= 0:
        return Plan(tuple(_queued(one, places.why_full) if _due(one) else one for one in shown), ())
    actions: list[Action] = []
    for daemonset in fleet.consumers.named:
        pods = tuple(
            (one.node, one.stale_pod)
            for one in shown
            if _due(one) and one.stale_pod and one.stale_pod.daemonset_uid == daemonset.uid
        )
        if pods:
            actions.append(RolloutRestart(daemonset.namespace, daemonset.name, daemonset.uid, now, pods))
    return Plan(shown, tuple(actions))


def _waiting(judgements: Sequence[Judgement]) -> dict[str, Judgement]:
    """Give, by consumer, a pod whose restart must wait: a rollout would restart it as well."""
    return {one.consumer: one for one in judgements if Trait.RESTART_HELD in one.reason.traits}


def _waiting_together(judged: Judgement, waiting: Mapping[str, Judgement]) -> Judgement:
    if not _due(judged) or judged.consumer not in waiting:
        return judged
    other = waiting[judged.consumer]
    message = f"{judged.message}; a rollout would also restart the pod on {other.node}: {other.message}"
    return replace(judged, reason=other.reason, message=message)


def _is_rolling(daemonset: DaemonSet, judgements: Sequence[Judgement], fleet: Fleet) -> bool:
    """Return whether a rollout is in progress, apart from pods that terminate on lost nodes until these are back."""
    lost = {one.node for one in judgements if one.reason is Reason.NODE_NOT_READY}
    pods = (pod for node in lost for pod in fleet.consumer_pods.get(node, ()))
    stuck = {pod.node for pod in pods if pod.owner_uid == daemonset.uid and not pod.live}
    return not daemonset.observed or daemonset.updated + len(stuck) < daemonset.desired


def _unwelcome(fleet: Fleet) -> dict[str, str]:
    """Say of which consumers a rollout would take a plugin down that could not come back, stale or fresh."""
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
    """Leave a stale pod to the rollout that is going on: stamping again would start it anew.

    Patience is had with the rollout: it starts again with each pod that it updates.
    """
    if judged.state is not NodeState.STALE:
        return judged
    message = f"{judged.message}; a rollout of {judged.consumer} is going on"
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
    message = f"{judged.message}, but {judged.consumer} is updated OnDelete: a rollout restarts nothing"
    return judged.failed(Reason.ROLLOUT_IMPOSSIBLE, message)


_STRATEGIES: Final[Mapping[Strategy, Callable[[tuple[Judgement, ...], Fleet, Memory, datetime], Plan]]] = {
    Strategy.STALE_PODS: _delete_stale_pods,
    Strategy.ROLLOUT: _restart_rollout,
}
