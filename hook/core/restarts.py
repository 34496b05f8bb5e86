"""Turn stale plugins into actions, and never ask twice for what was asked.

A strategy is one function from the judgements to actions; another one is one function and a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.core.memory import restart_key
from hook.core.plugins import untolerated
from hook.core.reasons import Reason
from hook.core.verdicts import DeletePod, NodeState, Patience, RolloutRestart
from hook.settings import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.memory import AskedRestart, Memory
    from hook.core.verdicts import Action, Judgement, StalePod
    from hook.core.views import DaemonSet

DOWN: Final = frozenset(
    {
        Reason.PLUGIN_RESTARTING,
        Reason.PLUGIN_MISSING,
        Reason.PLUGIN_STARTING,
        Reason.PLUGIN_NOT_READY,
        Reason.SLICE_MISSING,
        Reason.SLICE_OUTDATED,
    }
)
"""A plugin that does not serve, whether it is still on its way or failed."""
ASK_AGAIN: Final = timedelta(seconds=30)
"""A deletion that is not seen for so long did not happen: watches deliver within a second or so."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Judgements as they look beside what was asked for before, and what to ask for now."""

    judgements: tuple[Judgement, ...]
    actions: tuple[Action, ...]


def plan(judgements: Sequence[Judgement], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Compare judgements with memory, then let the strategy choose."""
    compared = tuple(_beside_memory(one, memory, now) for one in judgements)
    return _STRATEGIES[fleet.settings.strategy](compared, fleet, memory, now)


def _beside_memory(judged: Judgement, memory: Memory, now: datetime) -> Judgement:
    """Show a stale pod that we asked to restart as restarting; its successor, stale again, needs a person."""
    if judged.reason is Reason.NOTHING_TO_REFRESH:
        return _must_come_back(judged, memory)
    if judged.stale_pod is None:
        return judged
    asked = memory.restarts.get(restart_key(judged.stale_pod.daemonset_uid, judged.node))
    same_run = asked is not None and asked.driver_run == judged.stale_pod.driver_run
    shown = _asked_before(judged, judged.stale_pod, asked, now) if asked and same_run else judged
    trouble = memory.troubles.get(judged.stale_pod.uid) if shown.state is NodeState.STALE else None
    return replace(shown, message=f"{shown.message}; restarting it failed: {trouble}") if trouble else shown


def _asked_before(judged: Judgement, stale: StalePod, asked: AskedRestart, now: datetime) -> Judgement:
    """Judge a stale plugin by what came of the restart that was asked for under this driver run."""
    if asked.pod_uid != stale.uid:
        message = f"{judged.message}, although it was restarted under this very driver run"
        return judged.failed(Reason.RESTART_DID_NOT_HELP, message)
    if asked.refused:
        return judged.failed(Reason.RESTART_REFUSED, f"{judged.message}, and its deletion was refused: {asked.refused}")
    if now - asked.at >= ASK_AGAIN:
        return judged
    message = f"plugin pod {stale.name} was asked to restart"
    return replace(judged, state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING, message=message)


def _must_come_back(judged: Judgement, memory: Memory) -> Judgement:
    """Where this run took a plugin away, a node without one is not done, whatever the DaemonSet says."""
    asked = memory.restarts.get(restart_key(judged.daemonset_uid, judged.node))
    if asked is None or asked.refused or asked.came_back:
        return judged
    message = f"the plugin that was restarted here did not come back: {judged.message}"
    return replace(
        judged,
        state=NodeState.WAITING,
        reason=Reason.PLUGIN_MISSING,
        message=message,
        subject=judged.consumer,
        patience=Patience.PLUGIN,
    )


def _delete_stale_pods(judgements: tuple[Judgement, ...], fleet: Fleet, memory: Memory, _now: datetime) -> Plan:
    """Delete each stale pod, as many at once as is allowed. Works with OnDelete too, mutates no template."""
    limit = fleet.settings.max_parallel_restarts
    room = limit - sum(_in_flight(one, memory.restarts, fleet) for one in judgements) if limit else len(judgements)
    actions: dict[str, Action] = {}
    for one in sorted(judgements, key=lambda one: _last_trouble(one, memory)):
        if one.state is NodeState.STALE and one.stale_pod is not None and len(actions) < room:
            actions[one.stale_pod.uid] = DeletePod(one.node, one.stale_pod)
    shown = tuple(
        _queued(one, limit)
        if one.state is NodeState.STALE and one.stale_pod is not None and one.stale_pod.uid not in actions
        else one
        for one in judgements
    )
    return Plan(shown, tuple(actions.values()))


def _last_trouble(judged: Judgement, memory: Memory) -> int:
    """Rank what failed before behind what did not, the last failure last: it takes time, which others may need."""
    if judged.stale_pod is None or judged.stale_pod.uid not in memory.troubles:
        return -1
    return list(memory.troubles).index(judged.stale_pod.uid)


def _queued(judged: Judgement, limit: int) -> Judgement:
    message = f"{judged.message}; waits for its turn (max {limit} plugins down at once)"
    return replace(judged, reason=Reason.PLUGIN_QUEUED, message=message)


def _in_flight(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet) -> bool:
    """Whether a plugin is down because of us: restarting, or asked to and not verified (any more)."""
    if judged.state is NodeState.RESTARTING:
        return True
    if judged.reason not in DOWN:
        return False
    asked = (restarts.get(restart_key(ds.uid, judged.node)) for ds in fleet.consumers.named)
    return any(one is not None and not one.refused for one in asked)


def _restart_rollout(judgements: tuple[Judgement, ...], fleet: Fleet, _memory: Memory, now: datetime) -> Plan:
    """Stamp the template once all nodes are settled: it restarts every pod, fresh or not."""
    unwelcome = _unwelcome(fleet)
    shown = tuple(_held_back(_refuse_on_delete(one, fleet), unwelcome) for one in judgements)
    if any(one.state is NodeState.WAITING and one.reason is not Reason.PLUGIN_UNWELCOME for one in shown):
        return Plan(shown, ())
    rolling = {str(ds): ds for ds in fleet.consumers.named if not ds.observed or ds.updated < ds.desired}
    shown = tuple(_rolling(one, rolling[one.consumer]) if one.consumer in rolling else one for one in shown)
    actions: list[Action] = []
    for daemonset in fleet.consumers.named:
        pods = tuple(
            (one.node, one.stale_pod)
            for one in shown
            if one.state is NodeState.STALE and one.stale_pod and one.stale_pod.daemonset_uid == daemonset.uid
        )
        if pods:
            actions.append(RolloutRestart(daemonset.namespace, daemonset.name, daemonset.uid, now, pods))
    return Plan(shown, tuple(actions))


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
