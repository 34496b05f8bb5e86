"""Decide: a snapshot and the memory in, a decision and a memory out.

The functions here are pure, so a run that is killed loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from hook.decide import end, moments, warnings
from hook.decide.fleet import Fleet, context_of, views_of
from hook.decide.node import STEADY_AFTER_CRASHES, evaluate_node, is_up
from hook.decide.reasons import Reason, Trait
from hook.decide.record import Evaluation, Memory, Timers, matched
from hook.decide.result import (
    Decision,
    DeletePod,
    NodeState,
    NodeStatus,
    Patience,
    Phase,
    eligible_nodes,
    except_verified,
)
from hook.format import some
from hook.settings import OnDeadline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime, timedelta

    from hook.decide.fleet import Context, NodeView
    from hook.decide.record import RestartRecord
    from hook.decide.result import Blocker
    from hook.objects import Snapshot
    from hook.settings import Settings


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
    evaluation = evaluate(snapshot, memory, settings, now, changed)
    decision, after = _decided(evaluation, memory, Timers(memory, now))
    return decision, replace(after, evaluation=evaluation)


def _decided(evaluation: Evaluation, memory: Memory, timers: Timers) -> tuple[Decision, Memory]:
    fleet = evaluation.fleet
    context, settings = fleet.context, fleet.context.settings
    # Evaluated in every decision, so that the quiet time of the operator runs while other conditions hold.
    operator = end.operator_blocker(fleet, timers)
    evaluated = list(chain.from_iterable(evaluation.statuses.values()))
    evaluated = _without_joined_nodes(_with_lost_nodes(evaluated, fleet, memory), fleet, memory)
    statuses = _patient(evaluated, settings, timers)
    withdrawn = end.policy_withdrawn(context, statuses, timers)
    skip = withdrawn or end.nothing_to_protect(context) or end.no_eligible_node(fleet, evaluated, operator)
    if skip is None:
        decision, after = _of_nodes(statuses, operator, memory, fleet, timers)
        return decision, after.with_fresh(evaluated, {pod.uid for pod in fleet.snapshot.plugin_pods})
    # Otherwise the missing object may be replaced, or the labels may come back.
    reloads = context.deployed and any(status.state not in end.TERMINAL for status in statuses)
    sure = withdrawn is not None or not (memory.saw_fleet or reloads)
    if timers.held(f"skip/{skip[0]}") >= settings.node_timeout or sure:
        return _skip(skip, evaluated, memory, fleet, timers)
    return _wait_to_skip(skip, evaluated, memory, context, timers)


def _with_lost_nodes(statuses: list[NodeStatus], fleet: Fleet, memory: Memory) -> list[NodeStatus]:
    """Let nodes wait that were eligible earlier in this run and have since lost their labels and driver pods.

    If the whole fleet lost them, the skip of the run waits instead (see ``_wait_to_skip``).
    """
    label, nodes = fleet.context.stack.nodes.present, fleet.snapshot.nodes
    excluded = {status.node for status in except_verified(statuses) if status.state is NodeState.EXCLUDED}
    away = (memory.eligible - fleet.nodes.keys()) | (memory.eligible & excluded)
    lost = {
        name for name in away & nodes.keys() if nodes[name].labels.get(label) != "true" and not fleet.drivers_on(name)
    }
    if not lost or all(status.state is NodeState.EXCLUDED for status in statuses):
        return statuses
    lost -= {status.node for status in statuses if status.state is not NodeState.EXCLUDED}
    message = f"it was eligible earlier in this run, and lost {label}=true and its driver pod (is NFD down?)"
    waiting = [
        NodeStatus(name, NodeState.WAITING, Reason.LABELS_MISSING, message, patience=Patience.NODE) for name in lost
    ]
    remaining = (status for status in statuses if status.node not in lost)
    return sorted([*remaining, *waiting], key=lambda status: status.node)


def _without_joined_nodes(statuses: list[NodeStatus], fleet: Fleet, memory: Memory) -> list[NodeStatus]:
    """Exclude nodes that joined after the run began, and on which no plugin has started yet.

    Nothing there can be stale, and a fleet may get a new node each minute. Their first driver is still being loaded.
    """
    if fleet.context.settings.is_controller:
        return statuses
    return [
        replace(status, state=NodeState.EXCLUDED, reason=Reason.NODE_JOINED, patience=None)
        if Trait.FIRST_LOAD in status.reason.traits and _has_joined(fleet.nodes[status.node], memory)
        else status
        for status in statuses
    ]


def _has_joined(view: NodeView, memory: Memory) -> bool:
    """Return whether a node joined after the run began, and no plugin has started there."""
    started = any(container.started_at for pod in view.plugin_pods for container in pod.containers)
    created = view.node.created if view.node is not None else None
    return created is not None and created > memory.started and not started


def _patient(statuses: Iterable[NodeStatus], settings: Settings, timers: Timers) -> list[NodeStatus]:
    """Return the statuses with those that have outlasted their grace periods."""
    return [status if status.patience is None else _out_of_patience(status, settings, timers) for status in statuses]


def _out_of_patience(status: NodeStatus, settings: Settings, timers: Timers) -> NodeStatus:
    """Return a status that has outlasted its grace period as failed, or as excluded if its node is away.

    A grace period continues when another reason follows, but the message gives the time of the current reason alone.
    """
    of_status = f"{status.node}/{status.plugin}"
    held = timers.held(f"{status.patience}/{of_status}")
    seconds = int(timers.held(f"{status.reason}/{of_status}").total_seconds())
    graces: dict[Patience | None, timedelta] = {
        Patience.DRIVER: settings.node_timeout,
        Patience.PLUGIN: settings.plugin_timeout,
        Patience.NODE: settings.node_timeout,
    }
    if held < graces[status.patience]:
        return status
    if status.patience is Patience.NODE and status.reason is Reason.LABELS_MISSING:
        return replace(status, state=NodeState.EXCLUDED)
    if status.patience is Patience.NODE:
        again = "" if settings.is_controller else " and you run the release again"
        message = (
            f"it was NotReady for {int(held.total_seconds() // 60)} min; its plugin is evaluated when it is back{again}"
        )
        return replace(status, state=NodeState.EXCLUDED, reason=Reason.NODE_NOT_READY, message=message)
    return status.failed(message=f"{status.message} (for {seconds} s)" if seconds else status.message)


def _of_nodes(
    statuses: Sequence[NodeStatus], operator: Blocker | None, memory: Memory, fleet: Fleet, timers: Timers
) -> tuple[Decision, Memory]:
    """Choose the restarts for now, and return the phase of the run."""
    settings = fleet.context.settings
    plan = plan_restarts(statuses, fleet, memory, timers.now)
    shown = tuple(_patient(plan.statuses, settings, timers))
    others = except_verified(shown)
    blockers, texts = end.blockers(fleet, shown, operator, timers)
    phase, reason = _phase(blockers, shown, memory, fleet.context, timers)
    release_pending = any(Trait.RELEASE_PENDING in blocker.traits for blocker, _message in blockers)
    too_early = release_pending or end.blind_to_intent(fleet.context)
    may_act = (phase is Phase.WAIT or settings.is_controller) and not too_early
    decision = Decision(
        phase,
        *reason,
        statuses=shown,
        actions=plan.actions if may_act else (),
        warnings=tuple(texts),
        cause=blockers[0][0] if blockers and phase is Phase.DEADLINE else None,
    )
    return decision, _remembered(memory, shown, others, fleet, timers)


def _skip(
    skip: Blocker, statuses: Sequence[NodeStatus], memory: Memory, fleet: Fleet, timers: Timers
) -> tuple[Decision, Memory]:
    """Return that there is nothing to protect."""
    context = fleet.context
    texts = tuple(warnings.about_names(context))
    after = replace(memory, first_seen=timers.first_seen)
    if context.settings.is_controller:
        after = _forgotten(after.with_fresh((), {pod.uid for pod in fleet.snapshot.plugin_pods}), fleet)
    return Decision(Phase.SKIP, *skip, statuses=tuple(statuses), warnings=texts), after


def _wait_to_skip(
    skip: Blocker, statuses: Sequence[NodeStatus], memory: Memory, context: Context, timers: Timers
) -> tuple[Decision, Memory]:
    """Wait for a grace period before a skip, because this run saw an eligible node, or a driver reloads."""
    after = replace(memory, first_seen=timers.first_seen)
    shown = tuple(statuses)
    message = f"{skip[1]} (that may change in a moment)"
    if timers.now < context.settings.deadline(memory.started):
        return Decision(Phase.WAIT, skip[0], message, statuses=shown), after
    late = (Reason.TIME_UP, f"the time is up with work left: {message}")
    return Decision(Phase.DEADLINE, *late, statuses=shown, cause=skip[0]), after


# The phase of a run.


def _phase(
    blockers: Sequence[Blocker], statuses: Sequence[NodeStatus], memory: Memory, context: Context, timers: Timers
) -> tuple[Phase, Blocker]:
    settings = context.settings
    if not blockers:
        return Phase.DONE, end.success(statuses, memory, context)
    if timers.now >= settings.deadline(memory.started):
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
    open_ = except_verified(statuses)
    failed = [status for status in open_ if _has_failed(status)]
    if not failed:
        return None
    others = [status for status in open_ if not _has_failed(status) and status.state not in end.TERMINAL]
    moving = [status for status in others if Trait.BLOCKED not in status.reason.traits]
    if moving and all(status.reason is Reason.NODE_NOT_READY_BRIEFLY for status in moving):
        # In a large fleet some node is always NotReady for a moment. That does not restart the grace period.
        timers.keep("no-node-moves")
    if moving or (others and timers.held("no-node-moves") < settings.node_timeout):
        return None
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return failed[0].reason, f"node {failed[0].node} needs manual action{more}: {failed[0].message}"


def _has_failed(status: NodeStatus) -> bool:
    """Return whether only an administrator can help, as with a stale plugin that is not in plugin.names."""
    return status.state is NodeState.FAILED or status.reason is Reason.UNNAMED_PLUGIN


# The next memory.


def _remembered(
    memory: Memory, statuses: Sequence[NodeStatus], others: Sequence[NodeStatus], fleet: Fleet, timers: Timers
) -> Memory:
    """Return the memory for the next decision."""
    verified = Reason.VERIFIED
    eligible = eligible_nodes(fleet.nodes, others)
    after = replace(
        memory,
        first_seen=timers.first_seen,
        saw_fleet=memory.saw_fleet or bool(eligible),
        eligible=memory.eligible if eligible <= memory.eligible else memory.eligible | eligible,
    )
    # A node that waits for an administrator to replace its driver has one status, and no plugin in it.
    manual = [status for status in others if status.reason is Reason.MANUAL_UPGRADE and status.fresh]
    after = after.with_verified(chain(manual, (status for status in statuses if status.reason is verified)))
    if fleet.context.prerequisites:
        after = after.changing(name for name, view in fleet.nodes.items() if moments.is_changing(view, fleet.context))
    return _forgotten(after, fleet) if fleet.context.settings.is_controller else after


def _forgotten(memory: Memory, fleet: Fleet) -> Memory:
    """Forget nodes, plugins and pods that no longer exist: the memory of a run without an end must not grow."""
    nodes = fleet.snapshot.nodes.keys() | fleet.nodes.keys()
    live = {pod.uid for pod in fleet.snapshot.plugin_pods if pod.live} if memory.troubles else set()
    return memory.about({ds.uid for ds in fleet.context.plugins.named}, nodes, live)


# Which nodes are evaluated.


Value = TypeVar("Value")


def evaluate(
    snapshot: Snapshot, memory: Memory, settings: Settings, now: datetime, changed: Collection[str] | None
) -> Evaluation:
    """Evaluate the nodes about which something changed since the decision that the memory is of.

    `changed` are the nodes whose objects changed; None if they are not known. Then all nodes are evaluated, as they are
    if something changed that applies to all of them, or if the clock went back.
    """
    context, before = context_of(snapshot, settings), memory.evaluation
    names: set[str] | None = None
    if before is not None and changed is not None and before.holds(context, now):
        names = {*changed, *before.passing, *_restarted_on(before.restarts, memory.restarts)}
    views = views_of(snapshot, context, names)
    statuses = {name: evaluate_node(view, context, memory, now) for name, view in views.items()}
    passing = frozenset(name for name, view in views.items() if _is_passing(view, now))
    if before is not None and names is not None:
        views = _replaced(before.fleet.nodes, views, names)
        statuses = _replaced(before.statuses, statuses, names)
    return Evaluation(Fleet(context, views, snapshot), statuses, passing, now, memory.restarts)


def _replaced(before: Mapping[str, Value], again: Mapping[str, Value], names: AbstractSet[str]) -> dict[str, Value]:
    """Return the values of all nodes by name, where some nodes have other values, or none any more."""
    merged = {**before, **again}
    for name in names - again.keys():
        merged.pop(name, None)
    return merged if merged.keys() == before.keys() else dict(sorted(merged.items()))


def _restarted_on(before: Mapping[str, RestartRecord], after: Mapping[str, RestartRecord]) -> set[str]:
    """Return the nodes whose records of restarts differ.

    A proof that was recorded makes no difference at once, because it rests on the objects that were evaluated.
    """
    if before is after:
        return set()
    keys = (key for key in before.keys() | after.keys() if before.get(key) is not after.get(key))
    return {key.partition("/")[2] for key in keys}


def _is_passing(view: NodeView, now: datetime) -> bool:
    """Return whether the status of a node may change with the time alone: a plugin crashed a moment ago.

    Nothing else in the evaluation of a node depends on the time.
    """
    restarted = (container for pod in view.plugin_pods for container in pod.containers if container.restarts)
    return any(each.started_at is not None and now - each.started_at < STEADY_AFTER_CRASHES for each in restarted)


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


def plan_restarts(statuses: Sequence[NodeStatus], fleet: Fleet, memory: Memory, now: datetime) -> Plan:
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
