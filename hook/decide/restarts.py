"""Which stale plugins to restart now, within the disruption budget.

There are two limits: a number (``max_parallel_restarts``), and a share of the plugins (``max_unavailable``). What is
down for any reason counts, because another process of the same Job has no memory of the restarts of the first one.

A plugin is down on a node with a settled driver if its pod is missing, terminating, starting or not Ready, or if it
publishes no devices. A stale plugin that is Ready is not down. A stale plugin that is not Ready is down already, so
its restart takes nothing down. It needs none of the second limit. Nodes whose driver reloads are not down, because the
upgrade controller limits those itself. Excluded nodes are not down either: a lost node would use up budget until it is
back. Nodes that want no plugin do not count at all.

A plugin that this program restarted uses budget until it is back, even if its node becomes silent or its driver
reloads meanwhile. One plugin that is not up within ``plugin_timeout`` returns its budget, so that it does not block all
other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hook.decide.explain import Trait
from hook.decide.plugins import is_up
from hook.decide.reasons import Reason
from hook.decide.record import matched
from hook.decide.result import DeletePod, NodeState, except_verified
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet, NodeView
    from hook.decide.record import RestartRecord
    from hook.decide.result import NodeStatus
    from hook.decide.state import Memory


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Disruption budget that is left. None means no limit."""

    number: int | None
    """Left of the number of plugins."""
    share: int | None
    """Left of the share of the plugins."""
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
        down = [status for status in others if _is_down(status) or _is_awaited(status, memory, fleet, now)]
        # A stale plugin that is not up waits for its restart. The number must not keep it from that.
        away = [status for status in down if status.stale_pod is None or status.state is NodeState.RESTARTING]
        number = limit - len(away) + _given_back(away, memory) if limit else None
        if bound is None:
            return cls(number, None, f"max {limit} plugins down at once")
        total = len(statuses) - sum(not _counts(status, fleet) for status in others)
        both = f"max {limit} and " if limit else ""
        named = f": {some([status.node for status in down])}" if down else ""
        why = f"{both}max {bound} of {total} plugins down at once, {len(down)} are{named}"
        return cls(number, bound.of(total) - len(down) + min(_failed(down), 1), why)

    def allows(self, *, up: bool) -> bool:
        """Return whether one more plugin may be restarted. `up` is False for a plugin that is down already."""
        number = self.number is None or self.number > 0
        return number and (not up or self.share is None or self.share > 0)

    def take(self, *, up: bool) -> DisruptionBudget:
        """Return the budget after one more restart."""
        number = None if self.number is None else self.number - 1
        share = None if self.share is None else self.share - up
        return DisruptionBudget(number, share, self.why_full)


def _given_back(away: Sequence[NodeStatus], memory: Memory) -> int:
    """Return how much budget is free again, of that of plugins that did not come up in their time.

    Of those that this process restarted, one at most: where a second one fails, restarts do harm, and the run ends with
    the reason.
    """
    restarted = {key.partition("/")[2] for key, record in memory.restarts.items() if not record.refused}
    ours = [status for status in away if status.node in restarted]
    return _failed(away) - _failed(ours) + min(_failed(ours), 1)


def _failed(statuses: Sequence[NodeStatus]) -> int:
    return sum(status.state is NodeState.FAILED for status in statuses)


def _counts(status: NodeStatus, fleet: Fleet) -> bool:
    """Return whether a status stands for a plugin that the share is of."""
    if status.state is NodeState.EXCLUDED or status.reason in (Reason.UNNAMED_PLUGIN, Reason.NOTHING_TO_REFRESH):
        return False
    view = fleet.nodes.get(status.node)
    # A status without a plugin is about the driver.
    return bool(status.plugin) or view is None or any(map(view.is_wanted_by, fleet.context.plugins.named))


def _is_down(status: NodeStatus) -> bool:
    if status.stale_pod is not None and status.state is not NodeState.RESTARTING:
        return not status.stale_pod.up
    return status.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in status.reason.traits


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
    """Return whether the successor is ready: neither the deleted pod, which the cache may still show, nor another."""
    pods = view.plugin_pods_of(daemonset_uid) if view is not None else ()
    return any(pod.live and is_up(pod) and pod.uid not in (record.pod_uid, *record.others) for pod in pods)


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
        status if status.reason is verified else matched(status, settings, memory.restarts, memory.troubles, now)
        for status in statuses
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
    return status.state is NodeState.STALE and status.reason in (Reason.PLUGIN_STALE, Reason.RESTART_FAILING)


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
    return replace(status, reason=Reason.PLUGIN_QUEUED, message=message, patience=None)
