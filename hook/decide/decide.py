"""Decide for each driver stack, and merge the decisions: a snapshot and the state in, both anew out.

The functions here are pure, so a run that is killed loses nothing. ``together.py`` merges the decisions of several
stacks.

A stack waits for the nodes of another one only if the policy requires that order. A run continues while any stack may
still make progress. Failures of the other stacks are reported at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.config import OnDeadline
from hook.decide import breaker, done, restarts
from hook.decide import fleet as fleets
from hook.decide import warnings as cautions
from hook.decide.explain import Trait
from hook.decide.fleet import named
from hook.decide.nodes import evaluate_node
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, NodeStatus, Patience, Phase
from hook.decide.state import Memory, Timers, restart_key
from hook.objects.drivers import GPU_OPERATOR, STACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Fleet
    from hook.decide.result import Action, Blocker
    from hook.objects.drivers import Stack
    from hook.objects.views import Snapshot

RANK: Final = {
    NodeState.WAITING: 0,
    NodeState.FAILED: 0,
    NodeState.STALE: 2,
    NodeState.RESTARTING: 3,
    NodeState.VERIFYING: 4,
    NodeState.VERIFIED: 5,
    NodeState.EXCLUDED: 5,
}
"""Progress rank of a state. A run has stalled if no node reaches a higher rank for a long time."""
ROLLING_RANK: Final = 1
"""Progress rank of a node whose new driver is being loaded."""


def advanced(memory: Memory, fleet: Fleet, statuses: Sequence[NodeStatus], now: datetime) -> Memory:
    """Record whether any node reached a higher rank than before, under the current policy and driver revisions."""
    generation = fleet.policy.generation if fleet.policy else 0
    epoch = f"{generation}/{','.join(sorted(revision.hash for revision in fleet.newest.values()))}"
    before = memory.ranks if epoch == memory.epoch else {}
    reached: dict[str, int] = {}
    for status in statuses:
        reached[status.node] = min(_rank(status), reached.get(status.node, _rank(status)))
    ranks = {node: max(rank, before.get(node, -1)) for node, rank in reached.items()}
    if memory.advanced_at is not None and all(rank <= before.get(node, -1) for node, rank in ranks.items()):
        return replace(memory, ranks=ranks)
    return replace(memory, epoch=epoch, ranks=ranks, advanced_at=now)


def with_fresh(memory: Memory, statuses: Iterable[NodeStatus], fleet: Fleet) -> Memory:
    """Note which pods were proven to be fresh, and forget pods that are gone."""
    known = {**memory.fresh, **dict(pair for judged in statuses for pair in judged.fresh)}
    found = (*fleet.plugin_pods.values(), *fleet.unnamed_pods.values())
    there = {pod.uid for pods in found for pod in pods}
    return replace(memory, fresh={uid: run for uid, run in known.items() if uid in there})


def without_gone(memory: Memory, fleet: Fleet) -> Memory:
    """Forget nodes, plugins and pods that are gone: the memory of a run without an end must not grow."""
    nodes = fleet.seen.nodes.keys() | fleet.plugin_pods.keys()
    pods = {pod.uid for found in fleet.plugin_pods.values() for pod in found if pod.live}
    keys = {restart_key(ds.uid, node) for ds in fleet.plugins.named for node in nodes}
    return replace(
        with_fresh(memory, (), fleet),
        restarts={key: asked for key, asked in memory.restarts.items() if key in keys},
        troubles={uid: trouble for uid, trouble in memory.troubles.items() if uid in pods},
        eligible=memory.eligible & nodes,
    )


def _rank(judged: NodeStatus) -> int:
    return ROLLING_RANK if Trait.DRIVER_RELOADING in judged.reason.traits else RANK[judged.state]


def decide(  # noqa: PLR0913 - a pure function of everything that it depends on
    seen: Snapshot,
    memory: Memory,
    settings: Settings,
    now: datetime,
    *,
    stack: Stack = GPU_OPERATOR,
    prior: Snapshot | None = None,
) -> tuple[Decision, Memory]:
    """Evaluate every node, choose the restarts for now, and return the decision with the next memory.

    `prior` is the snapshot of the stack whose driver must settle first, where that stack is read.
    """
    fleet = index(seen, settings, stack, prior, memory)
    timers = Timers(memory, now)
    judged, noisy = _evaluated(fleet, memory, timers)
    memory = replace(memory, breaker=breaker.watched(memory.breaker, judged, fleet, now))
    patient = [_out_of_patience(status, settings, timers) for status in judged]
    if gone := done.policy_gone(fleet, patient, timers):
        return _skip(gone, judged, memory, fleet, timers, sure=True)
    if skip := _pointless(fleet, judged, noisy):
        return _skip(skip, judged, memory, fleet, timers, sure=skip[0] is Reason.DRIVER_DISABLED)
    return _of_nodes(patient, noisy, memory, fleet, timers)


def _of_nodes(
    patient: Sequence[NodeStatus], noisy: Blocker | None, memory: Memory, fleet: Fleet, timers: Timers
) -> tuple[Decision, Memory]:
    """Choose the restarts for now and return the verdict on the run."""
    settings, stack, now = fleet.settings, fleet.stack.name, timers.now
    plan = restarts.plan(patient, fleet, memory, now)
    shown = tuple(replace(_out_of_patience(status, settings, timers), stack=stack) for status in plan.statuses)
    blockers, warnings = done.before_done(fleet, shown, noisy, timers)
    stopped = breaker.held_open(memory.breaker, settings)
    progress = advanced(memory, fleet, shown, now)
    phase, blocker = (Phase.WAIT, stopped) if stopped else _phase(blockers, shown, progress, fleet, timers)
    release_pending = any(Trait.RELEASE_PENDING in reason.traits for reason, _message in blockers)
    too_early = release_pending or done.blind_to_intent(fleet)
    may_act = (phase is Phase.WAIT or settings.follow) and not too_early and not stopped
    decision = Decision(
        phase,
        *blocker,
        statuses=shown,
        actions=tuple(replace(action, stack=stack) for action in plan.actions) if may_act else (),
        warnings=tuple(warnings),
        cause=blockers[0][0] if blockers and phase is Phase.DEADLINE else None,
        stack=stack,
    )
    return decision, _remembered(progress, shown, fleet, timers)


def _remembered(memory: Memory, shown: Sequence[NodeStatus], fleet: Fleet, timers: Timers) -> Memory:
    """Return the memory for the next decision."""
    eligible = {status.node for status in shown if status.state is not NodeState.EXCLUDED}
    after = replace(
        memory,
        first_seen=timers.first_seen,
        saw_fleet=memory.saw_fleet or bool(eligible),
        eligible=memory.eligible | eligible,
    )
    # A node that waits for an administrator to replace its driver has one status, and no plugin in it.
    by_hand = [status for status in shown if status.reason is Reason.MANUAL_UPGRADE and status.fresh]
    verified = [*by_hand, *(status for status in shown if status.reason is Reason.VERIFIED)]
    after = with_fresh(after.with_verified(verified), shown, fleet)
    return without_gone(after, fleet) if fleet.settings.follow else after


def _pointless(fleet: Fleet, judged: Sequence[NodeStatus], noisy: Blocker | None) -> Blocker | None:
    """Return why there is nothing to protect."""
    return done.nothing_to_protect(fleet) or done.no_eligible_node(fleet, judged, noisy)


def index(
    seen: Snapshot, settings: Settings, stack: Stack, prior: Snapshot | None = None, memory: Memory | None = None
) -> Fleet:
    """Index a snapshot, and the snapshot of the stack whose driver must settle first."""
    # The prior stack reads no nodes of its own unless it is chosen, but needs to know whether a node is Ready.
    both = replace(prior, nodes={**seen.nodes, **prior.nodes}) if prior is not None else None
    before = fleets.index(both, STACKS[stack.after], settings) if both is not None else None
    return fleets.index(seen, stack, settings, before, memory)


def _evaluated(fleet: Fleet, memory: Memory, timers: Timers) -> tuple[list[NodeStatus], Blocker | None]:
    """Return the status of each node, and why the operator may still render a second time."""
    # Evaluated in every decision, so that the quiet time of the operator runs while other conditions hold.
    noisy = done.unsettled(fleet, timers, timers.now)
    judged = [status for name in fleet.node_names for status in evaluate_node(name, fleet, timers.now)]
    return _remembering(judged, fleet, memory), noisy


def _remembering(judged: Sequence[NodeStatus], fleet: Fleet, memory: Memory) -> list[NodeStatus]:
    """Let nodes wait that were eligible earlier in this run and have since lost their labels and driver pods.

    If the whole fleet lost them, the skip of the run waits instead (see ``_skip``).
    """
    if all(status.state is NodeState.EXCLUDED for status in judged):
        return list(judged)
    label = fleet.stack.nodes.present
    bare = {name for name, node in fleet.seen.nodes.items() if node.labels.get(label) != "true"}
    gone = {name for name in memory.eligible & bare if not fleet.driver_pods.get(name)}
    gone -= {status.node for status in judged if status.state is not NodeState.EXCLUDED}
    message = f"it was eligible earlier in this run, and lost {label}=true and its driver pod (is NFD down?)"
    lost = [
        NodeStatus(name, NodeState.WAITING, Reason.LABELS_MISSING, message, patience=Patience.NODE) for name in gone
    ]
    return sorted([*(status for status in judged if status.node not in gone), *lost], key=lambda status: status.node)


def _skip(  # noqa: PLR0913 - the parts of a decision
    skip: Blocker, judged: Sequence[NodeStatus], memory: Memory, fleet: Fleet, timers: Timers, *, sure: bool
) -> tuple[Decision, Memory]:
    """Skip at once if the reason is `sure`, or if this run never saw an eligible node.

    Otherwise wait for a grace period: the missing object may be replaced, or the labels may come back.
    """
    settings, stack = fleet.settings, fleet.stack.name
    sure = sure or not memory.saw_fleet
    lasting = timers.held(f"skip/{skip[0]}") >= settings.not_ready_grace
    remembering = replace(memory, first_seen=timers.first_seen)
    shown = tuple(replace(status, stack=stack) for status in judged)
    if sure or lasting:
        warnings = tuple(cautions.about_names(fleet))
        after = without_gone(remembering, fleet) if settings.follow else remembering
        return Decision(Phase.SKIP, *skip, statuses=shown, warnings=warnings, stack=stack), after
    message = f"{skip[1]} (this run saw it before, and it may come back)"
    if timers.now >= settings.deadline(memory.started):
        late = (Reason.TIME_UP, f"the time is up with work left: {message}")
        return Decision(Phase.DEADLINE, *late, statuses=shown, cause=skip[0], stack=stack), remembering
    return Decision(Phase.WAIT, skip[0], message, statuses=shown, stack=stack), remembering


def first_look(seen: Snapshot, settings: Settings, stack: Stack = GPU_OPERATOR) -> Decision | None:
    """Return a skip if policies and DaemonSets alone prove that the run is pointless, else None."""
    fleet = index(seen, settings, stack)
    skip = done.nothing_to_protect(fleet)
    if skip is None:
        return None
    return Decision(Phase.SKIP, *skip, warnings=tuple(cautions.about_names(fleet)), stack=stack.name)


def succeeded(decision: Decision, settings: Settings) -> bool:
    """Return whether the run exits with 0."""
    if decision.phase is Phase.DEADLINE:
        return settings.on_deadline is OnDeadline.REPORT
    return decision.phase in (Phase.DONE, Phase.SKIP)


def _out_of_patience(judged: NodeStatus, settings: Settings, timers: Timers) -> NodeStatus:
    """Return a status that has outlasted its grace period as failed, or as excluded if its node is away."""
    if judged.patience is None:
        return judged
    held = timers.held(f"{judged.patience}/{judged.patience_with or f'{judged.node}/{judged.plugin}'}")
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


def _phase(
    blockers: list[Blocker], statuses: Sequence[NodeStatus], progress: Memory, fleet: Fleet, timers: Timers
) -> tuple[Phase, Blocker]:
    now, settings = timers.now, fleet.settings
    if not blockers:
        return Phase.DONE, _success(statuses, progress, fleet)
    if now >= settings.deadline(progress.started):
        return Phase.DEADLINE, (Reason.TIME_UP, f"the time is up with work left: {blockers[0][1]}")
    if failure := _failure(blockers, statuses, settings, timers):
        return Phase.FAIL, failure
    since = progress.advanced_at or now
    if settings.stall_timeout and not settings.follow and now - since >= settings.stall_timeout:
        minutes = int((now - since).total_seconds() // 60)
        return Phase.DEADLINE, (Reason.STALLED, f"no node advanced for {minutes} min: {blockers[0][1]}")
    return Phase.WAIT, blockers[0]


def _success(statuses: Sequence[NodeStatus], memory: Memory, fleet: Fleet) -> Blocker:
    noun = fleet.stack.plugin.noun
    verified = sum(status.reason is Reason.VERIFIED for status in statuses)
    excluded = sum(status.state is NodeState.EXCLUDED for status in statuses)
    left_out = f"; {excluded} nodes are excluded" if excluded else ""
    if not fleet.plugins.named:
        return Reason.DRIVER_SETTLED, f"no {noun} is installed yet; the driver is settled on every node{left_out}"
    if memory.restarted:
        message = f"{memory.restarted} {noun}s were restarted, {verified} run on the loaded driver{left_out}"
        return Reason.REFRESHED, message
    evicted = next((key for ds in fleet.plugins.named if (key := cautions.evicted_by_driver_manager(ds, fleet))), "")
    by_itself = f" (the driver manager evicts them before it reloads a driver: {evicted})" if evicted else ""
    return Reason.NOTHING_STALE, f"no {noun} needed a restart, {verified} run on the loaded driver{by_itself}{left_out}"


def _failure(
    blockers: list[Blocker], statuses: Sequence[NodeStatus], settings: Settings, timers: Timers
) -> Blocker | None:
    """Return the failure to report, once no other node can make progress."""
    unnamed = next((blocker for blocker in blockers if blocker[0] is Reason.UNNAMED_PLUGIN), None)
    if unnamed is not None:
        return unnamed
    failed = [status for status in statuses if _has_failed(status)]
    if not failed:
        return None
    others = [status for status in statuses if not _has_failed(status) and status.state not in done.TERMINAL]
    moving = [status for status in others if Trait.BLOCKED not in status.reason.traits]
    if moving and all(status.reason is Reason.NODE_NOT_READY_BRIEFLY for status in moving):
        # In a large fleet some node is always NotReady for a moment. That does not restart the grace period.
        timers.keep("no-node-moves")
    if moving or (others and timers.held("no-node-moves") < settings.failed_grace):
        return None
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return failed[0].reason, f"node {failed[0].node} needs manual action{more}: {failed[0].message}"


def _has_failed(judged: NodeStatus) -> bool:
    """Return whether only an administrator can help, as with a stale plugin that is not in consumer.names."""
    return judged.state is NodeState.FAILED or judged.reason is Reason.UNNAMED_PLUGIN


Seen = dict[str, "Snapshot"]
"""Snapshot of each stack that is read, by its name."""
Memories = dict[str, Memory]

TELLING: Final = (Phase.WAIT, Phase.FAIL, Phase.DEADLINE, Phase.DONE, Phase.SKIP)
"""Verdicts by precedence: the first one that a stack has becomes the verdict on the run."""


def chosen(settings: Settings) -> list[Stack]:
    """Return the chosen stacks, in the order of the settings."""
    return [STACKS[name] for name in dict.fromkeys(settings.stacks)]


def indexed(seen: Mapping[str, Snapshot], settings: Settings) -> dict[str, Fleet]:
    """Return the indexed snapshot of each stack, without its restart history."""
    return {stack.name: index(seen[stack.name], settings, stack, seen.get(stack.after)) for stack in chosen(settings)}


def decide_all(
    seen: Mapping[str, Snapshot], memories: Mapping[str, Memory], settings: Settings, now: datetime
) -> tuple[Decision, Memories]:
    """Decide for every stack. A stack without a memory gets that of a run that starts now."""
    decisions: dict[str, Decision] = {}
    after: Memories = {}
    for stack in chosen(settings):
        memory = memories.get(stack.name) or Memory(started=now)
        decided = decide(seen[stack.name], memory, settings, now, stack=stack, prior=seen.get(stack.after))
        decisions[stack.name], after[stack.name] = decided
    return combined(decisions), after


def look_first(seen: Mapping[str, Snapshot], settings: Settings) -> Decision | None:
    """Return a skip if policies and DaemonSets alone prove that the run is pointless, else None."""
    decisions: dict[str, Decision] = {}
    for stack in chosen(settings):
        skip = first_look(seen[stack.name], settings, stack)
        if skip is None or (skip.reason is Reason.NO_POLICY and named(seen[stack.name].daemonsets, stack, settings)):
            # With a plugin, the policy may be missing for a moment. Only a fleet without driver pods has no operator.
            return None
        decisions[stack.name] = skip
    return combined(decisions)


def combined(decisions: Mapping[str, Decision]) -> Decision:
    """Merge decisions. Return a single one as it is."""
    if len(decisions) == 1:
        return next(iter(decisions.values()))
    name, first = min(decisions.items(), key=lambda item: _telling(item[1]))
    others = [f"{other}: {decision.message}" for other, decision in decisions.items() if other != name]
    return Decision(
        first.phase,
        first.reason,
        "; ".join([f"{name}: {first.message}", *others]),
        statuses=tuple(judged for decision in decisions.values() for judged in decision.statuses),
        actions=_once(action for decision in decisions.values() for action in decision.actions),
        warnings=tuple(f"{other}: {text}" for other, decision in decisions.items() for text in decision.warnings),
        cause=first.cause,
        stack=name,
    )


def _telling(decision: Decision) -> tuple[int, bool]:
    """Return the precedence of a decision. Of equal verdicts, one with restarts comes first."""
    return TELLING.index(decision.phase), decision.reason is not Reason.REFRESHED


def _once(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Merge actions of several stacks on the same pod. Each stack records the restart under its own driver run."""
    by_target: dict[str, list[Action]] = {}
    for action in actions:
        by_target.setdefault(action.pod.uid if isinstance(action, DeletePod) else action.uid, []).append(action)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in by_target.values())
