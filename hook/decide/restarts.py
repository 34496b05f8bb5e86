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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import or_
from typing import TYPE_CHECKING

from hook.decide.explain import Trait
from hook.decide.history import with_history
from hook.decide.plugins import is_up
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, except_verified
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet, NodeView
    from hook.decide.result import NodeStatus
    from hook.decide.state import Memory, RestartRecord


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
    def left(cls, statuses: Sequence[NodeStatus], memory: Memory, fleet: Fleet, now: datetime) -> DisruptionBudget:
        """Return the budget that is left by the plugins that are down now."""
        settings = fleet.context.settings
        limit, bound = settings.max_parallel_restarts, settings.max_unavailable
        if not limit and bound is None:
            return cls(None, None)
        others = except_verified(statuses)
        awaited = [_is_awaited(status, memory, fleet, now) for status in others]
        in_flight = [_is_in_flight(status, memory, fleet) for status in others]
        failed = sum(status.state is NodeState.FAILED for status, away in zip(others, in_flight, strict=True) if away)
        ours = limit - sum(map(or_, awaited, in_flight)) + _given_back(failed) if limit else None
        if bound is None:
            return cls(ours, None, f"max {limit} plugins down at once")
        down = [status.node for status, away in zip(others, awaited, strict=True) if away or _is_down(status)]
        without_plugin = (Reason.UNNAMED_PLUGIN, Reason.NOTHING_TO_REFRESH)
        total = len(statuses) - sum(
            status.state is NodeState.EXCLUDED or status.reason in without_plugin for status in others
        )
        own = f"max {limit} because of this program, " if limit else ""
        named = f": {some(down)}" if down else ""
        why = f"{own}max {bound} of {total} plugins down at once, {len(down)} are{named}"
        return cls(ours, bound.of(total) - len(down), why)

    def allows(self, *, up: bool) -> bool:
        """Return whether one more plugin may be restarted. `up` is False for a plugin that is down already."""
        ours = self.ours is None or self.ours > 0
        return ours and (not up or self.anyones is None or self.anyones > 0)

    def take(self, *, up: bool) -> DisruptionBudget:
        """Return the budget after one more restart."""
        ours = None if self.ours is None else self.ours - 1
        anyones = None if self.anyones is None else self.anyones - up
        return DisruptionBudget(ours, anyones, self.why_full)


def _given_back(failed: int) -> int:
    """Return how much budget is free again, of that of plugins that did not come back in their time.

    One at most: where a second plugin fails, restarts do harm, and the run ends with the reason.
    """
    return min(failed, 1)


def _is_down(status: NodeStatus) -> bool:
    if status.stale_pod is not None and status.state is not NodeState.RESTARTING:
        return not status.stale_pod.up
    return status.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in status.reason.traits


def _is_in_flight(status: NodeStatus, memory: Memory, fleet: Fleet) -> bool:
    """Return whether a plugin is down because this program restarted it."""
    if status.state is NodeState.RESTARTING:
        return True
    if Trait.PLUGIN_DOWN not in status.reason.traits:
        return False
    records = (memory.restart_of(ds.uid, status.node) for ds in fleet.context.plugins.named)
    return any(record is not None and not record.refused for record in records)


def _is_awaited(status: NodeStatus, memory: Memory, fleet: Fleet, now: datetime) -> bool:
    """Return whether a restarted plugin is not back, where the status is about the node or its driver."""
    if status.stale_pod is not None or status.state in (NodeState.EXCLUDED, NodeState.VERIFIED):
        return False
    plugins = (ds for ds in fleet.context.plugins.named if status.plugin in ("", str(ds)))
    records = {ds.uid: record for ds in plugins if (record := memory.restart_of(ds.uid, status.node)) is not None}
    timeout, view = fleet.context.settings.plugin_timeout, fleet.nodes.get(status.node)
    return any(
        not record.refused and not record.came_back and now - record.at < timeout and not _is_back(record, uid, view)
        for uid, record in records.items()
    )


def _is_back(record: RestartRecord, daemonset_uid: str, view: NodeView | None) -> bool:
    """Return whether a plugin is ready, apart from the deleted pod, which the cache may still show."""
    pods = view.plugin_pods_of(daemonset_uid) if view is not None else ()
    return any(pod.live and is_up(pod) and pod.uid != record.pod_uid for pod in pods)


@dataclass(frozen=True, slots=True)
class Plan:
    """Node statuses in the light of earlier restarts, and the restarts for now."""

    statuses: tuple[NodeStatus, ...]
    actions: tuple[DeletePod, ...]


def plan(statuses: Sequence[NodeStatus], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Match statuses against earlier restarts, then choose the stale pods to delete."""
    settings = fleet.context.settings
    verified = Reason.VERIFIED
    compared = tuple(
        status if status.reason is verified else with_history(status, settings, memory, now) for status in statuses
    )
    return _delete_stale_pods(compared, fleet, memory, now)


def _delete_stale_pods(statuses: tuple[NodeStatus, ...], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
    """Delete stale pods within the disruption budget.

    Deletion works with update strategy OnDelete, too, and changes no pod template.
    """
    budget = DisruptionBudget.left(statuses, memory, fleet, now)
    actions: dict[str, DeletePod] = {}
    due = [status for status in except_verified(statuses) if _is_due(status)]
    for status in sorted(due, key=lambda status: (_last_trouble(status, memory), _ready_since(status))):
        stale = status.stale_pod
        if stale is not None and budget.allows(up=stale.up):
            actions[stale.uid] = DeletePod(status.node, stale)
            budget = budget.take(up=stale.up)
    if len(actions) == len(due):
        return Plan(statuses, tuple(actions.values()))
    shown = tuple(
        _queued(status, budget)
        if status.stale_pod is not None and _is_due(status) and status.stale_pod.uid not in actions
        else status
        for status in statuses
    )
    return Plan(shown, tuple(actions.values()))


def _is_due(status: NodeStatus) -> bool:
    """Return whether a stale pod may be restarted now, if the disruption budget allows."""
    return status.state is NodeState.STALE and status.reason is Reason.PLUGIN_STALE


def _last_trouble(status: NodeStatus, memory: Memory) -> int:
    """Return the rank of a pod by its last failed restart: those without one first, the most recent failure last.

    A failing write takes time that other nodes may need.
    """
    if status.stale_pod is None or status.stale_pod.uid not in memory.troubles:
        return -1
    return list(memory.troubles).index(status.stale_pod.uid)


def _ready_since(status: NodeStatus) -> float:
    """Return since when a pod waits. In order of names, the last ones would starve where writes are slow."""
    ready = status.stale_pod.driver_ready if status.stale_pod else None
    return ready.timestamp() if ready else 0.0


def _queued(status: NodeStatus, budget: DisruptionBudget) -> NodeStatus:
    message = f"{status.message}; waits for its turn ({budget.why_full})"
    return replace(status, reason=Reason.PLUGIN_QUEUED, message=message)
