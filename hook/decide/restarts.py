"""Which stale plugins to restart now, within the disruption budget.

There are two limits: on plugins that are down because of this program (``max_parallel_restarts``), and on plugins
that are down for any reason (``max_unavailable``).

A plugin is down on a node with a settled driver if its pod is missing, terminating, starting or not Ready, or if it
publishes no devices. A stale plugin that is Ready is not down. A stale plugin that is not Ready is down already, so
its restart needs no budget. The second limit does not count nodes whose driver reloads, because the upgrade controller
limits those itself. It does not count excluded nodes either: a lost node would use up budget until it is back.

A plugin that this program restarted uses budget until it is back, even if its node becomes silent or its driver
reloads meanwhile. One plugin that does not come back within ``plugin_timeout`` returns its budget, so that it does not
block all other nodes.

Each strategy is one function from node statuses to actions. To add one, write the function and add it to the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import or_
from typing import TYPE_CHECKING, Final

from hook.config import Strategy
from hook.decide import breaker
from hook.decide.explain import Trait
from hook.decide.history import beside_memory
from hook.decide.plugins import untolerated
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Patience, RolloutRestart
from hook.decide.state import restart_key
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.result import Action, NodeStatus
    from hook.decide.state import Memory, RestartRecord
    from hook.objects.views import DaemonSet, Pod


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Disruption budget that is left. None means no limit."""

    ours: int | None
    """Left for plugins that are down because of this program."""
    anyones: int | None
    """Left for plugins that are down for any reason."""
    why_full: str = ""
    """Message for a node that has to wait because no budget is left."""

    @classmethod
    def left(
        cls, statuses: Sequence[NodeStatus], restarts: Mapping[str, RestartRecord], fleet: Fleet, now: datetime
    ) -> DisruptionBudget:
        """Return the budget that is left by the plugins that are down now."""
        limit, bound = fleet.settings.max_parallel_restarts, fleet.settings.max_unavailable
        if not limit and bound is None:
            return cls(None, None)
        awaited = [_awaited(status, restarts, fleet, now) for status in statuses]
        in_flight = [_in_flight(status, restarts, fleet) for status in statuses]
        failed = sum(status.state is NodeState.FAILED for status, away in zip(statuses, in_flight, strict=True) if away)
        ours = limit - sum(map(or_, awaited, in_flight)) + _given_back(failed) if limit else None
        if bound is None:
            return cls(ours, None, f"max {limit} plugins down at once")
        down = [status.node for status, away in zip(statuses, awaited, strict=True) if away or _down(status, fleet)]
        apart = (Reason.UNNAMED_PLUGIN,)
        plugins = [
            status for status in statuses if status.state is not NodeState.EXCLUDED and status.reason not in apart
        ]
        total = sum(status.reason is not Reason.NOTHING_TO_REFRESH for status in plugins)
        own = f"max {limit} because of this program, " if limit else ""
        named = f": {some(down)}" if down else ""
        why = f"{own}max {bound} of {total} plugins down at once, {len(down)} are{named}"
        return cls(ours, bound.of(total) - len(down), why)

    def has(self, *, serving: bool) -> bool:
        """Return whether one more plugin may be restarted. `serving` is False for a plugin that is down already."""
        ours = self.ours is None or self.ours > 0
        return ours and (not serving or self.anyones is None or self.anyones > 0)

    def taken(self, *, serving: bool) -> DisruptionBudget:
        """Return the budget after one more restart."""
        ours = None if self.ours is None else self.ours - 1
        anyones = None if self.anyones is None else self.anyones - serving
        return DisruptionBudget(ours, anyones, self.why_full)


def _given_back(failed: int) -> int:
    """Return how many places are free again, of those of plugins that did not come back in their time.

    One at most: where a second plugin fails, restarts do harm, and the run ends with the reason.
    """
    return min(failed, 1)


def serving(judged: NodeStatus, fleet: Fleet) -> bool:
    """Return whether the stale pod of a node is Ready."""
    stale = judged.stale_pod
    pods = fleet.plugin_pods.get(judged.node, ())
    return stale is not None and any(pod.uid == stale.uid and _is_up(pod) for pod in pods)


def _is_up(pod: Pod) -> bool:
    """Return whether the kubelet reports a pod as ready.

    On a silent node the node controller sets Ready to False, but leaves ContainersReady as it was.
    """
    return pod.ready or pod.containers_ready_since is not None


def _down(judged: NodeStatus, fleet: Fleet) -> bool:
    if judged.stale_pod is not None and judged.state is not NodeState.RESTARTING:
        return not serving(judged, fleet)
    return judged.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in judged.reason.traits


def _in_flight(judged: NodeStatus, restarts: Mapping[str, RestartRecord], fleet: Fleet) -> bool:
    """Return whether a plugin is down because this program restarted it."""
    if judged.state is NodeState.RESTARTING:
        return True
    if Trait.PLUGIN_DOWN not in judged.reason.traits:
        return False
    asked = (restarts.get(restart_key(ds.uid, judged.node)) for ds in fleet.plugins.named)
    return any(restart is not None and not restart.refused for restart in asked)


def _awaited(judged: NodeStatus, restarts: Mapping[str, RestartRecord], fleet: Fleet, now: datetime) -> bool:
    """Return whether a restarted plugin is not back, where the status is about the node or its driver."""
    if judged.stale_pod is not None or judged.state in (NodeState.EXCLUDED, NodeState.VERIFIED):
        return False
    plugins = (ds for ds in fleet.plugins.named if judged.plugin in ("", str(ds)))
    asked = {ds.uid: restarts.get(restart_key(ds.uid, judged.node)) for ds in plugins}
    return any(restart is not None and _away(judged.node, uid, restart, fleet, now) for uid, restart in asked.items())


def _away(node: str, daemonset_uid: str, asked: RestartRecord, fleet: Fleet, now: datetime) -> bool:
    """Return whether no plugin is ready on a node, apart from the deleted pod, which the cache may still show."""
    if asked.refused or asked.came_back or now - asked.at >= fleet.settings.plugin_timeout:
        return False
    pods = (pod for pod in fleet.plugin_pods.get(node, ()) if pod.owner_uid == daemonset_uid and pod.live)
    return not any(_is_up(pod) for pod in pods if pod.uid != asked.pod_uid)


@dataclass(frozen=True, slots=True)
class Plan:
    """Node statuses in the light of earlier restarts, and the restarts for now."""

    statuses: tuple[NodeStatus, ...]
    actions: tuple[Action, ...]


def plan(statuses: Sequence[NodeStatus], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Match statuses against earlier restarts, then let the strategy choose."""
    compared = (beside_memory(status, fleet.settings, memory, now) for status in statuses)
    held = tuple(_held_as_suspect(status, memory, now) for status in compared)
    return _STRATEGIES[fleet.settings.strategy](held, fleet, memory, now)


def _held_as_suspect(judged: NodeStatus, memory: Memory, now: datetime) -> NodeStatus:
    if not _due(judged) or not breaker.unexplained(judged, memory.breaker, now):
        return judged
    message = f"{judged.message}; but its driver was not reloaded, so its restart waits for a minute"
    return replace(judged, reason=Reason.STALE_UNEXPLAINED, message=message)


def _delete_stale_pods(statuses: tuple[NodeStatus, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Delete stale pods within the disruption budget.

    Deletion works with update strategy OnDelete, too, and changes no pod template.
    """
    places = DisruptionBudget.left(statuses, memory.restarts, fleet, now)
    actions: dict[str, Action] = {}
    for status in sorted(statuses, key=lambda status: (_last_trouble(status, memory), _ready_since(status))):
        serves = serving(status, fleet)
        if _due(status) and status.stale_pod is not None and places.has(serving=serves):
            actions[status.stale_pod.uid] = DeletePod(status.node, status.stale_pod)
            places = places.taken(serving=serves)
    shown = tuple(
        _queued(status, places.why_full)
        if _due(status) and status.stale_pod is not None and status.stale_pod.uid not in actions
        else status
        for status in statuses
    )
    return Plan(shown, tuple(actions.values()))


def _due(judged: NodeStatus) -> bool:
    """Return whether a stale pod may be restarted now, if the disruption budget allows."""
    return judged.state is NodeState.STALE and judged.reason is Reason.PLUGIN_STALE


def _last_trouble(judged: NodeStatus, memory: Memory) -> int:
    """Return the rank of a pod by its last failed restart: those without one first, the most recent failure last.

    A failing write takes time that other nodes may need.
    """
    if judged.stale_pod is None or judged.stale_pod.uid not in memory.troubles:
        return -1
    return list(memory.troubles).index(judged.stale_pod.uid)


def _ready_since(judged: NodeStatus) -> float:
    """Return since when a pod waits. In order of names, the last ones would starve where writes are slow."""
    moment = judged.stale_pod.driver_ready if judged.stale_pod else None
    return moment.timestamp() if moment else 0.0


def _queued(judged: NodeStatus, why: str) -> NodeStatus:
    return replace(judged, reason=Reason.PLUGIN_QUEUED, message=f"{judged.message}; waits for its turn ({why})")


def _restart_rollout(statuses: tuple[NodeStatus, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Restart whole DaemonSets once all nodes are settled, because a rollout restarts every pod, fresh or not.

    The update strategy of the DaemonSet limits how many pods are down during the rollout. The disruption budget only
    decides whether the rollout may begin.
    """
    unwelcome, waiting = _unwelcome(fleet), _waiting(statuses)
    shown = tuple(_held_back(_refuse_on_delete(status, fleet), unwelcome) for status in statuses)
    shown = tuple(_waiting_together(status, waiting) for status in shown)
    if any(status.state is NodeState.WAITING and status.reason is not Reason.TAINT_NOT_TOLERATED for status in shown):
        return Plan(shown, ())
    rolling = {str(ds): ds for ds in fleet.plugins.named if _is_rolling(ds, statuses, fleet)}
    shown = tuple(_rolling(status, rolling[status.plugin]) if status.plugin in rolling else status for status in shown)
    places = DisruptionBudget.left(statuses, memory.restarts, fleet, now)
    if places.anyones is not None and places.anyones <= 0:
        return Plan(tuple(_queued(status, places.why_full) if _due(status) else status for status in shown), ())
    actions: list[Action] = []
    for daemonset in fleet.plugins.named:
        pods = tuple(
            (status.node, status.stale_pod)
            for status in shown
            if _due(status) and status.stale_pod and status.stale_pod.daemonset_uid == daemonset.uid
        )
        if pods:
            actions.append(RolloutRestart(daemonset.namespace, daemonset.name, daemonset.uid, now, pods))
    return Plan(shown, tuple(actions))


def _waiting(statuses: Sequence[NodeStatus]) -> dict[str, NodeStatus]:
    """Return by DaemonSet the status of a pod whose restart must wait. A rollout would restart it as well."""
    return {status.plugin: status for status in statuses if Trait.RESTART_HELD in status.reason.traits}


def _waiting_together(judged: NodeStatus, waiting: Mapping[str, NodeStatus]) -> NodeStatus:
    if not _due(judged) or judged.plugin not in waiting:
        return judged
    other = waiting[judged.plugin]
    message = f"{judged.message}; a rollout would also restart the pod on {other.node}: {other.message}"
    return replace(judged, reason=other.reason, message=message)


def _is_rolling(daemonset: DaemonSet, statuses: Sequence[NodeStatus], fleet: Fleet) -> bool:
    """Return whether a rollout is in progress. Pods that terminate on lost nodes do not count."""
    lost = {status.node for status in statuses if status.reason is Reason.NODE_NOT_READY}
    pods = (pod for node in lost for pod in fleet.plugin_pods.get(node, ()))
    stuck = {pod.node for pod in pods if pod.owner_uid == daemonset.uid and not pod.live}
    return not daemonset.observed or daemonset.updated + len(stuck) < daemonset.desired


def _unwelcome(fleet: Fleet) -> dict[str, str]:
    """Return by DaemonSet why a rollout would delete a pod, stale or fresh, that could not come back."""
    found: dict[str, str] = {}
    for daemonset in fleet.plugins.named:
        for node, pods in fleet.plugin_pods.items():
            why = untolerated(node, daemonset, fleet)
            if why and any(pod.owner_uid == daemonset.uid and pod.live for pod in pods):
                found.setdefault(str(daemonset), f"a rollout would also restart the pod on {node}: {why}")
    return found


def _held_back(judged: NodeStatus, unwelcome: Mapping[str, str]) -> NodeStatus:
    if judged.state is not NodeState.STALE or judged.plugin not in unwelcome:
        return judged
    return replace(
        judged,
        state=NodeState.WAITING,
        reason=Reason.TAINT_NOT_TOLERATED,
        message=f"{judged.message}; {unwelcome[judged.plugin]}",
        patience=Patience.PLUGIN,
    )


def _rolling(judged: NodeStatus, plugin: DaemonSet) -> NodeStatus:
    """Leave a stale pod to the rollout in progress. To stamp the template again would restart the rollout.

    The grace period starts again with each pod that the rollout updates.
    """
    if judged.state is not NodeState.STALE:
        return judged
    message = f"{judged.message}; a rollout of {judged.plugin} is in progress"
    return replace(
        judged,
        state=NodeState.RESTARTING,
        reason=Reason.PLUGIN_RESTARTING,
        message=message,
        patience=Patience.PLUGIN,
        patience_with=f"rollout/{plugin}/{plugin.updated}",
    )


def _refuse_on_delete(judged: NodeStatus, fleet: Fleet) -> NodeStatus:
    stale = judged.stale_pod
    on_delete = {ds.uid for ds in fleet.plugins.named if not ds.rolling}
    if judged.state is not NodeState.STALE or stale is None or stale.daemonset_uid not in on_delete:
        return judged
    message = f"{judged.message}, but {judged.plugin} has updateStrategy OnDelete: a rollout restarts nothing"
    return judged.failed(Reason.ROLLOUT_IMPOSSIBLE, message)


_STRATEGIES: Final[Mapping[Strategy, Callable[[tuple[NodeStatus, ...], Fleet, Memory, datetime], Plan]]] = {
    Strategy.STALE_PODS: _delete_stale_pods,
    Strategy.ROLLOUT: _restart_rollout,
}
