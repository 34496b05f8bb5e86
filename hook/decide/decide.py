"""Decide: a snapshot and the memory in, a decision and a memory out.

The functions here are pure, so a run that is killed loses nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from hook.config import OnDeadline
from hook.decide import done, moments, quiet, restarts, warnings
from hook.decide.evaluation import evaluate
from hook.decide.explain import Trait
from hook.decide.reasons import Reason
from hook.decide.result import (
    Decision,
    NodeState,
    NodeStatus,
    Patience,
    Phase,
    eligible_nodes,
    except_verified,
)
from hook.decide.state import Memory, Timers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime, timedelta

    from hook.config import Settings
    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.result import Blocker
    from hook.decide.state import Evaluation
    from hook.objects.views import Snapshot


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
    operator = quiet.blocker(fleet, timers)
    evaluated = list(chain.from_iterable(evaluation.statuses.values()))
    evaluated = _without_joined_nodes(_with_lost_nodes(evaluated, fleet, memory), fleet, memory)
    statuses = _patient(evaluated, settings, timers)
    withdrawn = done.policy_withdrawn(context, statuses, timers)
    skip = withdrawn or done.nothing_to_protect(context) or done.no_eligible_node(fleet, evaluated, operator)
    if skip is None:
        decision, after = _of_nodes(statuses, operator, memory, fleet, timers)
        return decision, after.with_fresh(evaluated, {pod.uid for pod in fleet.snapshot.plugin_pods})
    # Otherwise the missing object may be replaced, or the labels may come back.
    reloads = context.deployed and any(status.state not in done.TERMINAL for status in statuses)
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
    plan = restarts.plan(statuses, fleet, memory, timers.now)
    shown = tuple(_patient(plan.statuses, settings, timers))
    others = except_verified(shown)
    blockers, texts = done.blockers(fleet, shown, operator, timers)
    phase, reason = _phase(blockers, shown, memory, fleet.context, timers)
    release_pending = any(Trait.RELEASE_PENDING in blocker.traits for blocker, _message in blockers)
    too_early = release_pending or done.blind_to_intent(fleet.context)
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
        return Phase.DONE, done.success(statuses, memory, context)
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
    others = [status for status in open_ if not _has_failed(status) and status.state not in done.TERMINAL]
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
