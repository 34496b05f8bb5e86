"""Decide about one driver stack: a snapshot in, a decision and the next memory out.

Pure; killing a run loses nothing. Several stacks are put together in ``together.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hook.core import breaker, by_policy, cautions, gates, operator, restarts
from hook.core import fleet as fleets
from hook.core.memory import Memory, Timers
from hook.core.nodes import judge_node
from hook.core.progress import advanced
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.stacks import GPU_OPERATOR, STACKS
from hook.core.verdicts import Decision, Judgement, NodeState, Patience, Verdict
from hook.settings import OnDeadline, WaitFor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.operator import Hold
    from hook.core.stack import Stack
    from hook.objects.views import Snapshot
    from hook.settings import Settings


def decide(  # noqa: PLR0913 - a pure function of everything that it depends on
    seen: Snapshot,
    memory: Memory,
    settings: Settings,
    now: datetime,
    *,
    stack: Stack = GPU_OPERATOR,
    prior: Snapshot | None = None,
) -> tuple[Decision, Memory]:
    """Judge every node, choose what to do now, and say how the run stands.

    `prior` is what is seen of the stack whose driver must settle first, if it is looked at.
    """
    fleet = index(seen, settings, stack, prior, memory)
    timers = Timers(memory, now)
    judged, noisy = _judged(fleet, memory, timers)
    memory = replace(memory, breaker=breaker.watched(memory.breaker, judged, fleet, now))
    patient = [_out_of_patience(one, settings, timers) for one in judged]
    if gone := gates.policy_gone(fleet, patient, timers):
        return _skip(gone, judged, memory, fleet, timers, sure=True)
    if skip := _pointless(fleet, judged, noisy):
        return _skip(skip, judged, memory, fleet, timers, sure=skip[0] is Reason.DRIVER_DISABLED)
    return _of_nodes(patient, noisy, memory, fleet, timers)


def _of_nodes(
    patient: Sequence[Judgement], noisy: Hold | None, memory: Memory, fleet: Fleet, timers: Timers
) -> tuple[Decision, Memory]:
    """Choose what to do about the nodes now, and say how the run stands."""
    settings, stack, now = fleet.settings, fleet.stack.name, timers.now
    plan = restarts.plan(patient, fleet, memory, now)
    shown = tuple(replace(_out_of_patience(one, settings, timers), stack=stack) for one in plan.judgements)
    holds, warnings = gates.before_done(fleet, shown, noisy, timers)
    stopped = breaker.held_open(memory.breaker, settings)
    progress = advanced(memory, fleet, shown, now)
    verdict, hold = (Verdict.WAIT, stopped) if stopped else _verdict(holds, shown, progress, fleet, timers)
    release_pending = any(Trait.RELEASE_PENDING in reason.traits for reason, _message in holds)
    too_early = release_pending or gates.blind_to_intent(fleet)
    may_act = (verdict is Verdict.WAIT or settings.follow) and not too_early and not stopped
    decision = Decision(
        verdict,
        *hold,
        judgements=shown,
        actions=tuple(replace(action, stack=stack) for action in plan.actions) if may_act else (),
        warnings=tuple(warnings),
        cause=holds[0][0] if holds and verdict is Verdict.DEADLINE else None,
        stack=stack,
    )
    return decision, _remembered(progress, shown, fleet, timers)


def _remembered(memory: Memory, shown: Sequence[Judgement], fleet: Fleet, timers: Timers) -> Memory:
    """Note what this decision has seen, for the next one."""
    eligible = {one.node for one in shown if one.state is not NodeState.EXCLUDED}
    after = replace(
        memory,
        first_seen=timers.first_seen,
        saw_fleet=memory.saw_fleet or bool(eligible),
        eligible=memory.eligible | eligible,
    )
    # A node whose outdated driver only an administrator replaces is reported as a whole, once all is fresh on it.
    by_hand = [one for one in shown if one.reason is Reason.MANUAL_UPGRADE and one.fresh]
    verified = [*by_hand, *(one for one in shown if one.reason is Reason.VERIFIED)]
    after = after.with_verified(verified).with_fresh(shown, fleet)
    return after.without_gone(fleet) if fleet.settings.follow else after


def _pointless(fleet: Fleet, judged: Sequence[Judgement], noisy: Hold | None) -> Hold | None:
    """Say why there is nothing to protect. Without nodes to look at, none can be called without a driver."""
    if skip := gates.nothing_to_protect(fleet):
        return skip
    sees_nodes = fleet.settings.wait_for is WaitFor.NODES
    return gates.no_eligible_node(fleet, judged, noisy) if sees_nodes else None


def index(
    seen: Snapshot, settings: Settings, stack: Stack, prior: Snapshot | None = None, memory: Memory | None = None
) -> Fleet:
    """Index a snapshot, and that of the stack that comes first."""
    # Whether a node is Ready is asked of both stacks; unless the first one is chosen, its own nodes are not read.
    both = replace(prior, nodes={**seen.nodes, **prior.nodes}) if prior is not None else None
    before = fleets.index(both, STACKS[stack.after], settings) if both is not None else None
    return fleets.index(seen, stack, settings, before, memory)


def _judged(fleet: Fleet, memory: Memory, timers: Timers) -> tuple[list[Judgement], Hold | None]:
    """Judge the nodes, and say whether the operator may still render again."""
    if fleet.settings.wait_for is WaitFor.POLICY_READY:
        return by_policy.judge(fleet, timers.now), None
    # Asked about in every decision, so that the operator's quiet time runs beside all other holds.
    noisy = operator.unsettled(fleet, timers, timers.now)
    judged = [one for name in fleet.node_names for one in judge_node(name, fleet, timers.now)]
    return _remembering(judged, fleet, memory), noisy


def _remembering(judged: Sequence[Judgement], fleet: Fleet, memory: Memory) -> list[Judgement]:
    """Wait a while for nodes that were served in this run and lost their labels, and with them their pods.

    Where that befalls the whole fleet, the run is about to be skipped, and waits for that instead.
    """
    if all(one.state is NodeState.EXCLUDED for one in judged):
        return list(judged)
    label = fleet.stack.nodes.present
    bare = {name for name, node in fleet.seen.nodes.items() if node.labels.get(label) != "true"}
    gone = {name for name in memory.eligible & bare if not fleet.driver_pods.get(name)}
    gone -= {one.node for one in judged if one.state is not NodeState.EXCLUDED}
    message = f"it was served in this run, and lost {label}=true and its driver pod (is NFD down?)"
    lost = [Judgement(name, NodeState.WAITING, Reason.LABELS_MISSING, message, patience=Patience.NODE) for name in gone]
    return sorted([*(one for one in judged if one.node not in gone), *lost], key=lambda one: one.node)


def _skip(  # noqa: PLR0913 - a decision's own parts
    skip: Hold, judged: Sequence[Judgement], memory: Memory, fleet: Fleet, timers: Timers, *, sure: bool
) -> tuple[Decision, Memory]:
    """Skip at once if that is sure, or if this run has seen no fleet.

    What vanished since may only be replaced, or have lost its labels for a moment.
    """
    settings, stack = fleet.settings, fleet.stack.name
    sure = sure or not memory.saw_fleet
    lasting = timers.held(f"skip/{skip[0]}") >= settings.not_ready_grace
    remembering = replace(memory, first_seen=timers.first_seen)
    shown = tuple(replace(one, stack=stack) for one in judged)
    if sure or lasting:
        warnings = tuple(cautions.about_names(fleet))
        after = remembering.without_gone(fleet) if settings.follow else remembering
        return Decision(Verdict.SKIP, *skip, judgements=shown, warnings=warnings, stack=stack), after
    message = f"{skip[1]} (but there was, a moment ago: it may come back)"
    if timers.now >= settings.deadline(memory.started):
        late = (Reason.TIME_UP, f"the time is up with work left: {message}")
        return Decision(Verdict.DEADLINE, *late, judgements=shown, cause=skip[0], stack=stack), remembering
    return Decision(Verdict.WAIT, skip[0], message, judgements=shown, stack=stack), remembering


def first_look(seen: Snapshot, settings: Settings, stack: Stack = GPU_OPERATOR) -> Decision | None:
    """Decide from policies and DaemonSets alone whether the rest of the cluster need not be read."""
    fleet = index(seen, settings, stack)
    skip = gates.nothing_to_protect(fleet)
    if skip is None:
        return None
    return Decision(Verdict.SKIP, *skip, warnings=tuple(cautions.about_names(fleet)), stack=stack.name)


def succeeded(decision: Decision, settings: Settings) -> bool:
    """Whether the deployer hears success."""
    if decision.verdict is Verdict.DEADLINE:
        return settings.on_deadline is OnDeadline.REPORT
    return decision.verdict in (Verdict.DONE, Verdict.SKIP)


def _out_of_patience(judged: Judgement, settings: Settings, timers: Timers) -> Judgement:
    """Turn a state that lasts beyond its grace into one that needs a person."""
    if judged.patience is None:
        return judged
    held = timers.held(f"{judged.patience}/{judged.patience_with or f'{judged.node}/{judged.consumer}'}")
    grace = {
        Patience.DRIVER: settings.failed_grace,
        Patience.PLUGIN: settings.plugin_timeout,
        Patience.NODE: settings.not_ready_grace,
    }[judged.patience]
    if held < grace:
        return judged
    if judged.patience is Patience.NODE:
        reason = judged.reason if judged.reason is Reason.LABELS_MISSING else Reason.NODE_NOT_READY
        return replace(judged, state=NodeState.EXCLUDED, reason=reason)
    return judged.failed(message=f"{judged.message} (for {int(held.total_seconds())} s)")


def _verdict(
    holds: list[Hold], judgements: Sequence[Judgement], progress: Memory, fleet: Fleet, timers: Timers
) -> tuple[Verdict, Hold]:
    now, settings = timers.now, fleet.settings
    if not holds:
        return Verdict.DONE, _success(judgements, progress, fleet)
    if now >= settings.deadline(progress.started):
        return Verdict.DEADLINE, (Reason.TIME_UP, f"the time is up with work left: {holds[0][1]}")
    if failure := _failure(holds, judgements, settings, timers):
        return Verdict.FAIL, failure
    since = progress.advanced_at or now
    if settings.stall_timeout and not settings.follow and now - since >= settings.stall_timeout:
        minutes = int((now - since).total_seconds() // 60)
        return Verdict.DEADLINE, (Reason.STALLED, f"no node advanced for {minutes} min: {holds[0][1]}")
    return Verdict.WAIT, holds[0]


def _success(judgements: Sequence[Judgement], memory: Memory, fleet: Fleet) -> Hold:
    noun = fleet.stack.consumer.noun
    served = sum(one.reason is Reason.VERIFIED for one in judgements)
    excluded = sum(one.state is NodeState.EXCLUDED for one in judgements)
    left_out = f"; {excluded} nodes were left alone" if excluded else ""
    if not fleet.consumers.named:
        sees_nodes = fleet.settings.wait_for is WaitFor.NODES
        settled = "the driver is settled on every node" if sees_nodes else f"{fleet.policy} says that it is ready"
        return Reason.DRIVER_SETTLED, f"no {noun} is installed yet; {settled}{left_out}"
    if memory.restarted:
        message = f"{memory.restarted} {noun}s were restarted, {served} run on the loaded driver{left_out}"
        return Reason.REFRESHED, message
    evicted = next((key for ds in fleet.consumers.named if (key := cautions.evicted_by_driver_manager(ds, fleet))), "")
    by_itself = f" (the driver manager takes them away before a reload, by {evicted})" if evicted else ""
    return Reason.NOTHING_STALE, f"no {noun} needed a restart, {served} run on the loaded driver{by_itself}{left_out}"


def _failure(holds: list[Hold], judgements: Sequence[Judgement], settings: Settings, timers: Timers) -> Hold | None:
    """Say what needs a person, once no other node can still progress: they are served first."""
    unnamed = next((hold for hold in holds if hold[0] is Reason.UNNAMED_CONSUMER), None)
    if unnamed is not None:
        return unnamed
    failed = [one for one in judgements if _has_failed(one)]
    if not failed:
        return None
    others = [one for one in judgements if not _has_failed(one) and one.state not in gates.TERMINAL]
    moving = [one for one in others if Trait.BLOCKED not in one.reason.traits]
    if moving and all(one.reason is Reason.NODE_BLIP for one in moving):
        # In a large fleet one of them is always away for a moment; that does not begin the grace anew.
        timers.keep("no-node-moves")
    if moving or (others and timers.held("no-node-moves") < settings.failed_grace):
        return None
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return failed[0].reason, f"node {failed[0].node} needs a person{more}: {failed[0].message}"


def _has_failed(judged: Judgement) -> bool:
    """Return whether only an administrator can help: also a stale plugin that may not be restarted."""
    return judged.state is NodeState.FAILED or judged.reason is Reason.UNNAMED_CONSUMER
