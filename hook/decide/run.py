"""Decide: a snapshot and the memory in, a decision and a memory out.

The functions here are pure, so a run that is killed loses nothing. Data goes one way: evaluate the nodes, compare them
with what was done before, choose restarts, and decide whether the run ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from hook.decide import end, moments
from hook.decide.fleet import Fleet, context_of, views_of
from hook.decide.node import evaluate_node, is_timed
from hook.decide.reasons import Reason, Trait
from hook.decide.record import Evaluation, Memory, Timers, compared
from hook.decide.result import TERMINAL, Decision, NodeState, NodeStatus, Patience, Phase, StalePlugin
from hook.format import some
from hook.settings import OnDeadline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from hook.decide.fleet import NodeView
    from hook.decide.record import Key, Record
    from hook.decide.result import Blocker
    from hook.objects import Snapshot
    from hook.settings import Settings

Value = TypeVar("Value")

MARGIN_SHARE: Final = 20
MARGIN_CEILING: Final = timedelta(seconds=30)
MARGIN_FLOOR: Final = timedelta(seconds=5)
"""The report must fit between our deadline and that of the Job. Two seconds were not enough on a loaded machine."""


def margin(settings: Settings) -> timedelta:
    """Return the part of the timeout that is reserved for the report."""
    share = min(settings.timeout / MARGIN_SHARE, MARGIN_CEILING)
    return min(max(share, MARGIN_FLOOR), settings.timeout / 2)


def deadline(settings: Settings, started: datetime) -> datetime:
    """Return when a run must begin to report. A controller has no deadline."""
    if settings.is_controller:
        return datetime.max.replace(tzinfo=UTC)
    return started + settings.timeout - margin(settings)


def succeeded(decision: Decision, settings: Settings) -> bool:
    """Return whether the run exits with 0."""
    if decision.phase is Phase.DEADLINE:
        return settings.on_deadline is OnDeadline.REPORT
    return decision.phase in (Phase.DONE, Phase.SKIP)


def decide(
    snapshot: Snapshot, memory: Memory, settings: Settings, now: datetime, changed: Collection[str] | None = None
) -> tuple[Decision, Memory]:
    """Evaluate the nodes, choose the restarts for now, and return the decision with the next memory.

    Only `changed` nodes are evaluated again, if they are given: those whose objects changed since the decision that the
    memory is of.
    """
    evaluation, memory = evaluate(snapshot, memory, settings, now, changed)
    decision, after = conclude(evaluation, memory, now)
    return decision, replace(after, evaluation=evaluation)


def conclude(evaluation: Evaluation, memory: Memory, now: datetime) -> tuple[Decision, Memory]:
    """Choose the restarts for now from an evaluation, and return the decision with the next memory."""
    fleet, timers = evaluation.fleet, Timers(memory, now)
    # Evaluated in every decision, so that the quiet time of the operator runs while other conditions hold.
    operator = end.operator_blocker(fleet, timers)
    statuses = [_in_time(status, memory, timers, fleet) for each in evaluation.statuses.values() for status in each]
    after = _remembered(memory, statuses, fleet)
    withdrawn = end.policy_withdrawn(fleet.context, statuses, timers)
    skip = withdrawn or end.nothing_to_protect(fleet.context) or end.no_eligible_node(fleet, statuses, operator)
    if skip is None:
        decision = _of_nodes(statuses, operator, memory, fleet, timers)
        eligible = any(status.state is not NodeState.EXCLUDED for status in statuses)
        return decision, replace(after, first_seen=timers.first_seen, saw_fleet=memory.saw_fleet or eligible)
    # The missing object may be replaced, or the labels may come back.
    reloads = fleet.context.deployed and any(status.state not in TERMINAL for status in statuses)
    sure = withdrawn is not None or not (memory.saw_fleet or reloads)
    over = timers.held(f"skip/{skip[0]}") >= fleet.context.settings.node_timeout
    decision = _skip(skip, statuses, fleet) if over or sure else _wait_to_skip(skip, statuses, memory, fleet, timers)
    return decision, replace(after, first_seen=timers.first_seen)


def _skip(skip: Blocker, statuses: Sequence[NodeStatus], fleet: Fleet) -> Decision:
    """Return that there is nothing to protect."""
    return Decision(Phase.SKIP, *skip, statuses=tuple(statuses), warnings=tuple(end.about_names(fleet.context)))


def _wait_to_skip(
    skip: Blocker, statuses: Sequence[NodeStatus], memory: Memory, fleet: Fleet, timers: Timers
) -> Decision:
    """Wait for a grace period before a skip, because this run saw an eligible node, or a driver reloads."""
    message = f"{skip[1]} (that may change in a moment)"
    if timers.now < deadline(fleet.context.settings, memory.started):
        return Decision(Phase.WAIT, skip[0], message, statuses=tuple(statuses))
    late = f"the time is up with work left: {message}"
    return Decision(Phase.DEADLINE, Reason.TIME_UP, late, statuses=tuple(statuses), cause=skip[0])


def _of_nodes(
    statuses: Sequence[NodeStatus], operator: Blocker | None, memory: Memory, fleet: Fleet, timers: Timers
) -> Decision:
    """Choose the restarts for now, and return the phase of the run."""
    shown, actions = _restarts(statuses, fleet, memory, timers.now)
    blockers, warnings = end.blockers(fleet, shown, operator, timers)
    phase, reason = _phase(blockers, shown, memory, fleet, timers)
    release_pending = any(Trait.RELEASE_PENDING in blocker.traits for blocker, _message in blockers)
    too_early = release_pending or fleet.context.blind
    may_act = (phase is Phase.WAIT or fleet.context.settings.is_controller) and not too_early
    return Decision(
        phase,
        *reason,
        statuses=tuple(shown),
        actions=tuple(actions) if may_act else (),
        warnings=tuple(warnings),
        cause=blockers[0][0] if blockers and phase is Phase.DEADLINE else None,
    )


def _remembered(memory: Memory, statuses: Sequence[NodeStatus], fleet: Fleet) -> Memory:
    """Return the memory with what the statuses prove. A run without an end forgets what no longer exists."""
    context, snapshot = fleet.context, fleet.snapshot
    after = memory.evaluated(statuses, {pod.uid for pod in snapshot.plugin_pods})
    known = snapshot.nodes.keys() | fleet.nodes.keys()
    if context.settings.is_controller:
        return after.about({ds.uid for ds in context.plugins.named}, known)
    eligible = {status.node for status in statuses if status.state is not NodeState.EXCLUDED}
    return replace(after, eligible=(memory.eligible | eligible) & known)


# Which nodes are evaluated, and what was done to them before.


def evaluate(
    snapshot: Snapshot, memory: Memory, settings: Settings, now: datetime, changed: Collection[str] | None = None
) -> tuple[Evaluation, Memory]:
    """Evaluate the nodes about which something changed since the decision that the memory is of.

    Return the memory without the proofs that a change of their devices voids.

    `changed` are the nodes whose objects changed; None if they are not known. Then all nodes are evaluated, as they are
    if something changed that applies to all of them. The evaluation of a node is a pure function of what applies to all
    nodes, of the objects and records on it, and of the time if it is timed. So both ways lead to the same statuses.
    """
    context, before = context_of(snapshot, settings), memory.evaluation
    names: set[str] | None = None
    if before is not None and changed is not None and before.holds(context):
        names = {*changed, *before.timed, *_recorded_since(before.records, memory.records)}
    views = views_of(snapshot, context, names, memory.eligible)
    memory = memory.changing([view for view in views.values() if moments.is_changing(view, context)])
    statuses = {name: evaluate_node(view, context, memory, now) for name, view in views.items()}
    timed = _timed(views, now)
    if before is not None and names is not None:
        views = _replaced(before.fleet.nodes, views, names)
        statuses = _replaced(before.statuses, statuses, names)
    return Evaluation(Fleet(context, views, snapshot), statuses, memory.records, timed), memory


def _timed(views: Mapping[str, NodeView], now: datetime) -> frozenset[str]:
    """Return the nodes whose statuses may change with time alone. Each was evaluated now, as all timed ones are."""
    return frozenset(name for name, view in views.items() if is_timed(view, now))


def _replaced(before: Mapping[str, Value], again: Mapping[str, Value], names: AbstractSet[str]) -> dict[str, Value]:
    """Return the values of all nodes by name, where some nodes have other values, or none any more."""
    merged = {**before, **again}
    for name in names - again.keys():
        merged.pop(name, None)
    return merged if merged.keys() == before.keys() else dict(sorted(merged.items()))


def _recorded_since(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> set[str]:
    """Return the nodes whose records differ.

    A proof that was recorded makes no difference at once, because it rests on the objects that were evaluated.
    """
    if before is after:
        return set()
    return {key[0] for key in before.keys() | after.keys() if before.get(key) is not after.get(key)}


def _in_time(status: NodeStatus, memory: Memory, timers: Timers, fleet: Fleet) -> NodeStatus:
    """Return a status in the light of what was done before, and of its grace period."""
    settings = fleet.context.settings
    status = compared(status, memory.of(status.node, status.daemonset_uid), settings, timers.now)
    return status if status.patience is None else _out_of_patience(status, settings, timers)


def _out_of_patience(status: NodeStatus, settings: Settings, timers: Timers) -> NodeStatus:
    """Return a status that has outlasted its grace period as failed, or as excluded if its node is away.

    A grace period continues when another reason follows.
    """
    grace = settings.plugin_timeout if status.patience is Patience.PLUGIN else settings.node_timeout
    held = timers.held(f"{status.patience}/{status.node}/{status.plugin}")
    if held < grace:
        return status
    if status.patience is not Patience.NODE:
        return status.failed(message=f"{status.message} (waited {int(held.total_seconds())} s)")
    if status.reason is Reason.LABELS_MISSING:
        return replace(status, state=NodeState.EXCLUDED)
    again = "" if settings.is_controller else " and you run the release again"
    minutes = int(held.total_seconds() // 60)
    message = f"it was NotReady for {minutes} min; its plugin is evaluated when it is back{again}"
    return replace(status, state=NodeState.EXCLUDED, reason=Reason.NODE_NOT_READY, message=message)


# Which stale plugins are restarted now.
#
# There are two limits: a number (``max_parallel_restarts``), and a share of the plugins (``max_unavailable``). What
# is down for any reason counts, because another process of the same Job has no memory of the restarts of the first
# one.
#
# A plugin is down on a node with a settled driver if its pod is missing, terminating, starting or not Ready, or if it
# publishes no devices. A stale plugin that is Ready is not down. A stale plugin that is not Ready is down already, so
# its restart takes nothing down. It needs none of the second limit. Nodes whose driver reloads are not down, because
# the upgrade controller limits those itself. Excluded nodes are not down either: a lost node would use up budget
# until it is back. Nodes that want no plugin do not count at all.
#
# A plugin that this program restarted uses budget until it is back, even if its node becomes silent or its driver
# reloads meanwhile. One plugin that is not up within ``plugin_timeout`` returns its budget, so that it does not block
# all other nodes.

UNLIMITED: Final = 1 << 31


@dataclass(slots=True)
class DisruptionBudget:
    """Disruption budget that is left."""

    number: int
    """Left of the number of plugins."""
    share: int
    """Left of the share of the plugins."""
    why_full: str
    """Message for a node that has to wait because no budget is left."""

    def take(self, *, up: bool) -> bool:
        """Take budget for one more restart, if there is some. `up` is False for a plugin that is down already."""
        if self.number <= 0 or (up and self.share <= 0):
            return False
        self.number, self.share = self.number - 1, self.share - up
        return True


def _restarts(
    statuses: Sequence[NodeStatus], fleet: Fleet, memory: Memory, now: datetime
) -> tuple[list[NodeStatus], list[StalePlugin]]:
    """Choose the stale pods to delete within the disruption budget. Return the statuses with those that must wait.

    Deletion works with update strategy OnDelete, too, and changes no pod template. The last request of a pod may have
    failed. It comes after the others, because a failing write takes time that other nodes may need.
    """
    due = [status.stale for status in statuses if _is_due(status) and status.stale is not None]
    if not due:
        return list(statuses), []
    budget = _budget(statuses, fleet, memory, now)
    in_turn = sorted(due, key=lambda stale: _turn(stale, memory))
    chosen = {(stale.node, stale.daemonset_uid): stale for stale in in_turn if budget.take(up=stale.pod.up)}
    shown = [
        _queued(status, budget) if _is_due(status) and (status.node, status.daemonset_uid) not in chosen else status
        for status in statuses
    ]
    return shown, list(chosen.values())


def _is_due(status: NodeStatus) -> bool:
    """Return whether a stale pod may be restarted now, if the disruption budget allows."""
    return status.reason in (Reason.PLUGIN_STALE, Reason.RESTART_FAILING)


def _turn(stale: StalePlugin, memory: Memory) -> tuple[float, bool, float]:
    """Return the rank of a stale plugin: by its last failed request, then down before up, then by its time of waiting.

    One that is down may be down because of this program, whose limit it would exceed next to another one. In order of
    names, the last ones would starve where writes are slow.
    """
    trouble, ready = memory.of(stale.node, stale.daemonset_uid).trouble, stale.driver_ready
    troubled = trouble.at.timestamp() if trouble is not None and trouble.pod == stale.pod.uid else 0.0
    return troubled, stale.pod.up, ready.timestamp() if ready is not None else 0.0


def _queued(status: NodeStatus, budget: DisruptionBudget) -> NodeStatus:
    message = f"{status.message}; waits for its turn ({budget.why_full})"
    return replace(status, state=NodeState.STALE, reason=Reason.PLUGIN_QUEUED, message=message, patience=None)


def _budget(statuses: Sequence[NodeStatus], fleet: Fleet, memory: Memory, now: datetime) -> DisruptionBudget:
    """Return the budget that is left by the plugins that are down now."""
    settings = fleet.context.settings
    limit = settings.max_parallel_restarts
    # A Job refreshes each node as soon as it is settled.
    bound = settings.controller.max_unavailable if settings.is_controller else None
    down = [status for status in statuses if _is_down(status) or _is_awaited(status, memory, fleet, now)]
    # A stale plugin that is not up waits for its restart. The number must not keep it from that.
    away = [status for status in down if status.stale is None or _is_awaited(status, memory, fleet, now)]
    number = limit - len(away) + _given_back(away, memory) if limit else UNLIMITED
    if bound is None:
        return DisruptionBudget(number, UNLIMITED, f"max {limit} plugins down at once")
    total = sum(_counts(status, fleet) for status in statuses)
    both = f"max {limit} and " if limit else ""
    named = f": {some([status.node for status in down])}" if down else ""
    why = f"{both}max {bound} of {total} plugins down at once, {len(down)} are{named}"
    return DisruptionBudget(number, bound.of(total) - len(down) + min(_failed(down), 1), why)


def _given_back(away: Sequence[NodeStatus], memory: Memory) -> int:
    """Return how much budget is free again, of that of plugins that did not come up in their time.

    Of those that this process restarted, one at most: where a second one fails, restarts do harm, and the run ends with
    the reason.
    """
    restarted = {node for (node, _plugin), record in memory.records.items() if record.pod and not record.refused}
    ours = [status for status in away if status.node in restarted]
    return _failed(away) - _failed(ours) + min(_failed(ours), 1)


def _failed(statuses: Iterable[NodeStatus]) -> int:
    return sum(status.state is NodeState.FAILED for status in statuses)


def _counts(status: NodeStatus, fleet: Fleet) -> bool:
    """Return whether a status stands for a plugin that the share is of."""
    if status.state is NodeState.EXCLUDED or status.reason is Reason.NOTHING_TO_REFRESH:
        return False
    view = fleet.nodes[status.node]
    # A status without a plugin is about the driver.
    return bool(status.plugin) or any(map(view.is_wanted_by, fleet.context.plugins.named))


def _is_down(status: NodeStatus) -> bool:
    if status.stale is not None and status.state is not NodeState.RESTARTING:
        return not status.stale.pod.up
    return Trait.PLUGIN_DOWN in status.reason.traits


def _is_awaited(status: NodeStatus, memory: Memory, fleet: Fleet, now: datetime) -> bool:
    """Return whether a restarted plugin is not back. The status may be about the node or its driver."""
    if _is_due(status) or status.state in TERMINAL:
        return False
    timeout, view = fleet.context.settings.plugin_timeout, fleet.nodes[status.node]
    plugins = (ds.uid for ds in fleet.context.plugins.named if status.daemonset_uid in ("", ds.uid))
    records = ((memory.of(status.node, uid), view.plugins.get(uid, ())) for uid in plugins)
    return any(
        record.awaited
        and now - record.at < timeout
        # Neither the deleted pod, which the cache may still show, nor another one that was there is its successor.
        and not any(pod.live and pod.up and pod.uid not in record.before for pod in pods)
        for record, pods in records
    )


# The phase of a run.


def _phase(
    blockers: Sequence[Blocker], statuses: Sequence[NodeStatus], memory: Memory, fleet: Fleet, timers: Timers
) -> tuple[Phase, Blocker]:
    settings = fleet.context.settings
    if not blockers:
        return Phase.DONE, end.success(statuses, memory, fleet.context)
    if timers.now >= deadline(settings, memory.started):
        return Phase.DEADLINE, (Reason.TIME_UP, f"the time is up with work left: {blockers[0][1]}")
    if failure := _failure(blockers, statuses, settings, timers):
        return Phase.FAIL, failure
    return Phase.WAIT, blockers[0]


def _failure(
    blockers: Iterable[Blocker], statuses: Sequence[NodeStatus], settings: Settings, timers: Timers
) -> Blocker | None:
    """Return the failure to report, once no other node can make progress."""
    unnamed = next((blocker for blocker in blockers if blocker[0] is Reason.UNNAMED_PLUGIN), None)
    if unnamed is not None:
        return unnamed
    if any(Trait.UPGRADE_TO_COME in reason.traits for reason, _message in blockers):
        return None
    failed = [status for status in statuses if status.state is NodeState.FAILED]
    if not failed:
        return None
    others = [status for status in statuses if status.state not in (*TERMINAL, NodeState.FAILED)]
    moving = [status for status in others if Trait.BLOCKED not in status.reason.traits]
    if all(status.reason is Reason.NODE_NOT_READY_BRIEFLY for status in moving):
        # In a large fleet some node is always NotReady for a moment. That does not restart the grace period.
        timers.keep("no-node-moves")
    if moving or (others and timers.held("no-node-moves") < settings.node_timeout):
        return None
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return failed[0].reason, f"node {failed[0].node} needs manual action{more}: {failed[0].message}"
