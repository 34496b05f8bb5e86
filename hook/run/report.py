"""Progress in the log and in Events, and the report at the end of a run."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.decide.explain import Trait, remedy
from hook.decide.reasons import EventReason, Reason
from hook.decide.result import NodeState, Phase, headline, in_need
from hook.format import aligned, shown
from hook.objects.drivers import GPU_OPERATOR, STACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from hook.decide.result import Decision, NodeStatus
    from hook.kube.events import EventRecorder, ObjectReference, Target, TargetResolver
    from hook.kube.informer import OutOfSync
    from hook.run.loop import RestartResult

log = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 30.0
ONE_BY_ONE: Final = 3
"""Up to this many nodes that change alike get a line each; more share one line."""
NAMED: Final = 8
"""Nodes that a shared line names."""
TOLD_BESIDE: Final = 10
"""Failed nodes that are recorded on an object of the deployment tool, which shows them next to the final Event."""
LOST_SECONDS: Final = 5.0
"""A shorter loss of contact is not logged: watches break from time to time, and are restored at once."""
PASSING: Final = frozenset({NodeState.RESTARTING, NodeState.VERIFYING})
"""States that last seconds. They are logged at debug level; the restart and the verified plugin at info level."""


class ProgressReporter:
    """Remembers what was reported, so that nothing is reported twice in a row."""

    def __init__(
        self, recorder: EventRecorder, owner: ObjectReference | None, regarding: Sequence[TargetResolver] = ()
    ) -> None:
        self.recorder, self.owner, self.regarding = recorder, owner, regarding
        self._beside = 0
        self._told: dict[tuple[str, str, str], tuple[NodeState, Reason]] = {}
        self._reason: Reason | None = None
        self.last_summary = time.monotonic()
        self._lost_since: float | None = None

    def tell_contact(self, lost: OutOfSync | None) -> None:
        """Log once when the cache is out of sync, and once when it has recovered."""
        if lost is not None and lost.seconds >= LOST_SECONDS and self._lost_since is None:
            self._lost_since = lost.last_synced
            log.warning("%s; nothing is restarted until it can be read again", lost)
        elif lost is None and self._lost_since is not None:
            log.info("the cluster can be read again, after %.0f s", time.monotonic() - self._lost_since)
            self._lost_since = None

    def tell_deed(self, result: RestartResult, plugin: ObjectReference | None) -> None:
        """Record a restart as an Event on the plugin's DaemonSet and on our own Job or Deployment."""
        for subject in filter(None, (plugin, self.owner)):
            self.recorder.event(subject, EventReason.STALE_PLUGIN_RESTARTED, result.note, about=result.about)

    def tell(self, decision: Decision, left: timedelta) -> None:
        """Log what changed since the last decision, and from time to time a summary."""
        self.tell_changes(decision)
        if not decision.final and self._reason != decision.reason:
            self._reason = decision.reason
            log.info("waiting (%s): %s", decision.reason, decision.message)
        if not decision.final and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision, f", {left.total_seconds():.0f} s left")

    def tell_changes(self, decision: Decision) -> None:
        """Log the nodes whose state or reason changed."""
        changed: dict[tuple[str, NodeState, Reason], list[NodeStatus]] = {}
        detail = details(decision)
        for judged in decision.statuses:
            standing = (judged.state, judged.reason)
            if self._told.get((judged.stack, judged.node, judged.plugin)) != standing:
                self._told[judged.stack, judged.node, judged.plugin] = standing
                detailed = replace(judged, message=detail(judged))
                changed.setdefault((judged.stack, *standing), []).append(detailed)
        for alike in changed.values():
            _log_change(alike)
            if alike[0].state is NodeState.FAILED:
                self._tell_of_failure(alike[0])

    def _tell_of_failure(self, judged: NodeStatus) -> None:
        """Record a failure on our own Job or Deployment, and the first few on the objects of the deployment tool."""
        told_on: list[Target] = [self.owner] if self.owner else []
        if self._beside < TOLD_BESIDE:
            self._beside += 1
            told_on += self.regarding
        about = f"{judged.stack}/{judged.node}"
        for subject in told_on:
            self.recorder.event(subject, EventReason.NODE_FAILED, _sentence(judged), about=about, warning=True)

    def forget_all_but(self, decision: Decision) -> None:
        """Forget nodes that are gone, so that memory does not grow."""
        known = {(judged.stack, judged.node, judged.plugin) for judged in decision.statuses}
        self._told = {key: standing for key, standing in self._told.items() if key in known}

    def summarise(self, decision: Decision, left: str = "") -> None:
        """Log a summary, and record it on our own Job or Deployment."""
        self.last_summary = time.monotonic()
        log.info("waiting%s: %s (%s)", left, decision.message, counts_sentence(decision))
        if self.owner:
            self.recorder.event(self.owner, EventReason.WAITING_FOR_DRIVER, decision.message)


def _sentence(judged: NodeStatus) -> str:
    return f"node {judged.node}: {judged.state} ({judged.reason}): {judged.message}"


def _log_change(alike: list[NodeStatus]) -> None:
    first = alike[0]
    level = logging.DEBUG if _passing(first) else logging.INFO
    level = logging.WARNING if first.state is NodeState.FAILED else level
    if len(alike) > ONE_BY_ONE:
        nodes = ", ".join(judged.node for judged in alike[:NAMED]) + (", …" if len(alike) > NAMED else "")
        facts = {"nodes": [judged.node for judged in alike], "state": first.state, "reason": first.reason}
        log.log(
            level,
            "%d nodes: %s (%s), such as: %s [%s]",
            len(alike), first.state, first.reason, first.message, nodes,
            extra={"facts": facts},
        )  # fmt: skip
        return
    for judged in alike:
        facts = {"node": judged.node, "state": judged.state, "reason": judged.reason}
        log.log(level, "%s", _sentence(judged), extra={"facts": facts})


def _passing(judged: NodeStatus) -> bool:
    return judged.state in PASSING or Trait.PASSING in judged.reason.traits


ROWS_WHOLE: Final = 60
"""Up to this many nodes the table shows all of them, above it only those that are not verified."""
ROWS_MOST: Final = 200
TERMINATION_LIMIT: Final = 4096
"""Bytes; the kubelet cuts a longer message (K8S ``pkg/kubelet/container``, MaxContainerTerminationMessageLength)."""
BRIEF: Final = 400
"""Bytes of one sentence in the termination message: six sentences, the advice and the other fields fit."""
ADVICE: Final = 1000
"""Bytes of the advice there: a meaning, where to look, and a fix with its precondition."""
HEADINGS: Final = ("NODE", "STATE", "REASON", "DETAIL")


def table(decision: Decision) -> str:
    """Return one row per node; for a large fleet only those that are not verified."""
    worthy, detail = _worth_showing(decision.statuses), details(decision)
    rows = [(judged.node, judged.state, judged.reason, detail(judged)) for judged in worthy]
    left_out = len(decision.statuses) - len(rows)
    lines = aligned([HEADINGS, *rows]) if rows else []
    if left_out:
        lines.append(f"({left_out} more nodes: {counts_sentence(decision)})")
    return "\n".join(lines)


def details(decision: Decision) -> Callable[[NodeStatus], str]:
    """Return a function that formats the message of a judgement, with the driver stack if there are several."""
    several = len({judged.stack for judged in decision.statuses}) > 1
    return lambda judged: f"[{judged.stack}] {judged.message}" if several else judged.message


def counts_sentence(decision: Decision) -> str:
    """Return the number of nodes in each state as text."""
    return ", ".join(f"{count} {state.lower()}" for state, count in counts(decision).items()) or "no nodes"


def counts(decision: Decision) -> dict[str, int]:
    """Count the nodes by state; states without nodes are left out."""
    found = {state.value: decision.count(state) for state in NodeState}
    return {state: count for state, count in found.items() if count}


def advice(decision: Decision) -> list[str]:
    """Return for each kind of trouble what it means, where to look and what may fix it, once each."""
    of_nodes = _advice_on_nodes(decision)
    general = [
        reason for reason in (decision.reason, decision.cause) if reason and (decision.stack, reason) not in of_nodes
    ]
    stack = STACKS.get(decision.stack, GPU_OPERATOR)
    return [*(f"{reason}: {remedy(reason, stack=stack)}" for reason in general), *of_nodes.values()]


def next_step(decision: Decision) -> str:
    """Return the most important advice: on the reason why the run failed, otherwise on the worst node."""
    of_nodes = _advice_on_nodes(decision)
    if decision.phase is Phase.FAIL:
        return of_nodes.get((decision.stack, decision.reason)) or advice(decision)[0]
    if decision.cause is Reason.CONTROLLER_MISSING:
        # The nodes wait for the controller alone: no advice on one of them helps.
        return f"{decision.cause}: {remedy(decision.cause)}"
    return next(iter(of_nodes.values()), advice(decision)[-1])


def _advice_on_nodes(decision: Decision) -> dict[tuple[str, str], str]:
    """Return the advice for each reason of the nodes that need action, the worst first."""
    return advice_on(in_need(decision))


def advice_on(statuses: Iterable[NodeStatus]) -> dict[tuple[str, str], str]:
    """Return the advice for each reason, by stack and reason, with the first node that has it."""
    lines: dict[tuple[str, str], str] = {}
    for judged in statuses:
        stack = STACKS.get(judged.stack, GPU_OPERATOR)
        fix = remedy(judged.reason, judged.node, judged.subject, stack)
        lines.setdefault((judged.stack, judged.reason), f"{judged.reason} ({judged.node}): {fix}")
    return lines


def needs_action(judged: NodeStatus) -> bool:
    """Return whether a judgement shows a stale plugin or a failure, by its state or by its reason."""
    return judged.state in (NodeState.STALE, NodeState.FAILED) or Trait.FAILING in judged.reason.traits


def ending(decision: Decision, advised: Sequence[str] | None = None) -> list[str]:
    """Return warnings, verdict and advice, fit for a terminal."""
    warnings = [f"WARNING {warning}" for warning in decision.warnings]
    if advised is None:
        advised = advice(decision) if decision.phase is not Phase.DONE else []
    return [shown(line) for line in (*warnings, headline(decision), *advised)]


def as_json(decision: Decision) -> dict[str, Any]:
    """Return everything, for programs."""
    return {
        "version": __version__,
        "verdict": decision.phase,
        "reason": decision.reason,
        "message": decision.message,
        "counts": counts(decision),
        "warnings": list(decision.warnings),
        "nodes": [_node(judged) for judged in decision.statuses],
    }


def termination_message(decision: Decision, exit_code: int, restarted: int) -> str:
    """Return the outcome in at most 4 KiB of JSON, with as many nodes as fit. Nodes that need action come first."""
    story: dict[str, Any] = {
        "verdict": decision.phase,
        "reason": decision.reason,
        "message": _briefly(decision.message),
        "exitCode": exit_code,
        "restarted": restarted,
        "counts": counts(decision),
        "warnings": [_briefly(warning) for warning in decision.warnings[:3]],
        "next": _briefly(next_step(decision), ADVICE) if decision.unhappy else "",
        "nodes": [],
        "version": __version__,
    }
    excluded = [judged for judged in decision.statuses if judged.state is NodeState.EXCLUDED]
    detail = details(decision)
    for judged in in_need(decision) or excluded:
        story["nodes"].append(
            {"node": _briefly(judged.node), "reason": judged.reason, "message": _briefly(detail(judged))}
        )
        if len(json.dumps(story)) > TERMINATION_LIMIT:
            story["nodes"].pop()
            break
    return json.dumps(story)


def _worth_showing(statuses: Sequence[NodeStatus]) -> Sequence[NodeStatus]:
    if len(statuses) <= ROWS_WHOLE:
        return statuses
    return [judged for judged in statuses if judged.state is not NodeState.VERIFIED][:ROWS_MOST]


def _node(judged: NodeStatus) -> dict[str, Any]:
    return {
        "node": judged.node,
        "state": judged.state,
        "reason": judged.reason,
        "message": judged.message,
        "consumer": judged.plugin,
        "stack": judged.stack,
        "pod": judged.subject,
        "upgradeLabelPending": judged.label_pending,
    }


def _briefly(text: str, most: int = BRIEF) -> str:
    """Shorten a text to so many bytes of JSON, which encodes each character outside ASCII with six bytes."""
    brief = shown(text, most)
    while len(json.dumps(brief)) > most + len('""\\u2026'):
        brief = f"{brief[: len(brief) * 7 // 8]}…"
    return brief
