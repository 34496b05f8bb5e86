"""Progress in the log and in Events, and the report at the end of a run."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.decide.reasons import EventReason, Reason, Trait, explained
from hook.decide.result import TERMINAL, NodeState, Phase, headline, in_need
from hook.format import aligned, as_text, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from hook.decide.reasons import Explanation
    from hook.decide.result import Decision, NodeStatus
    from hook.kube.events import EventRecorder, ObjectReference
    from hook.kube.informer import OutOfSync
    from hook.objects.stacks import Stack
    from hook.run.restarts import RestartResult

log = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 30.0
ONE_BY_ONE: Final = 3
"""Up to this many nodes that change alike get a line each; more share one line."""
NAMED: Final = 8
"""Nodes that a shared line names."""
PASSING: Final = frozenset({NodeState.RESTARTING, NodeState.VERIFYING})
"""States that last seconds. They are logged at debug level; the restart and the verified plugin at info level."""
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


@dataclass(frozen=True, slots=True)
class Advice:
    """What one kind of trouble means, where to look and what may fix it."""

    about: str
    """The reason, and the nodes that have it."""
    text: Explanation

    @property
    def lines(self) -> list[str]:
        """Return the lines for a terminal."""
        meaning, *steps = self.text.lines
        return [printable(line) for line in (f"{self.about}: {meaning}", *steps)]

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


class ProgressReporter:
    """Remembers what was reported, so that nothing is reported twice in a row."""

    def __init__(
        self,
        recorder: EventRecorder,
        owner: ObjectReference | None,
        on_restart: Callable[[RestartResult, ObjectReference | None], None] | None = None,
    ) -> None:
        self.recorder, self.owner, self._on_restart = recorder, owner, on_restart
        self._statuses: tuple[NodeStatus, ...] = ()
        """Those of the last decision. A status that is still the same object was reported."""
        self._reported: dict[tuple[str, str], tuple[NodeState, Reason]] = {}
        self._reason: Reason | None = None
        self.last_summary = time.monotonic()
        self._lost_since: float | None = None

    def report_sync(self, lost: OutOfSync | None) -> None:
        """Log once when the cache is out of sync, and once when it has recovered."""
        if lost is not None and lost.lasting and self._lost_since is None:
            self._lost_since = lost.last_synced
            log.warning("%s; nothing is restarted until it can be read again", lost)
        elif lost is None and self._lost_since is not None:
            log.info("the cluster can be read again, after %.0f s", time.monotonic() - self._lost_since)
            self._lost_since = None

    def report_restart(self, result: RestartResult, plugin: ObjectReference | None) -> None:
        """Record a restart as one Event on the plugin's DaemonSet. Our own Job or Deployment gets summaries."""
        if self._on_restart:
            self._on_restart(result, plugin)
        subject = plugin or self.owner
        if subject is not None and result.note:
            self.recorder.event(subject, EventReason.STALE_PLUGIN_RESTARTED, result.note, about=result.action.pod.uid)

    def report(self, decision: Decision, left: timedelta) -> None:
        """Log what changed since the last decision, and from time to time a summary."""
        self.report_changes(decision)
        if not decision.final and self._reason != decision.reason:
            self._reason = decision.reason
            log.info("waiting (%s): %s", decision.reason, decision.message)
        if not decision.final and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision, f", timeout in {as_text(left)}")

    def report_changes(self, decision: Decision) -> None:
        """Log the nodes whose state or reason changed."""
        changed: dict[tuple[NodeState, Reason], list[NodeStatus]] = {}
        before = set(map(id, self._statuses))
        self._statuses = decision.statuses
        for status in [status for status in decision.statuses if id(status) not in before]:
            state_and_reason = (status.state, status.reason)
            if self._reported.get((status.node, status.plugin)) != state_and_reason:
                self._reported[status.node, status.plugin] = state_and_reason
                changed.setdefault(state_and_reason, []).append(status)
        for alike in changed.values():
            _log_change(alike)
            if alike[0].state is NodeState.FAILED and self.owner is not None:
                about, line = alike[0].node, _line(alike[0])
                self.recorder.event(self.owner, EventReason.NODE_FAILED, line, about=about, warning=True)

    def forget_all_but(self, decision: Decision) -> None:
        """Forget nodes that are gone, so that memory does not grow."""
        if len(self._reported) <= len(decision.statuses):
            return
        known = {(status.node, status.plugin) for status in decision.statuses}
        self._reported = {key: state_and_reason for key, state_and_reason in self._reported.items() if key in known}

    def summarise(self, decision: Decision, timeout: str = "") -> None:
        """Log a summary, and record it on our own Job or Deployment."""
        self.last_summary = time.monotonic()
        why = decision.message.removeprefix(f"{progress(decision)}; ")
        log.info("waiting: %s%s; %s (%s)", progress(decision), timeout, why, counts_line(decision))
        if self.owner:
            reason = EventReason.WAITING_FOR_DRIVER if _waits_for_driver(decision) else decision.reason
            self.recorder.event(self.owner, reason, decision.message)


def _waits_for_driver(decision: Decision) -> bool:
    """Return whether a driver is not settled, or its upgrade has failed. Otherwise the run waits for other things."""
    waiting = (status for status in decision.statuses if status.state is NodeState.WAITING)
    return any(not status.plugin or status.reason is Reason.UPGRADE_FAILED for status in waiting)


def _line(status: NodeStatus) -> str:
    return f"node {status.node}: {status.state} ({status.reason}): {status.message}"


def _log_change(alike: list[NodeStatus]) -> None:
    first = alike[0]
    passing = first.state in PASSING or Trait.PASSING in first.reason.traits
    level = logging.WARNING if first.state is NodeState.FAILED else logging.DEBUG if passing else logging.INFO
    if len(alike) > ONE_BY_ONE:
        nodes = ", ".join(status.node for status in alike[:NAMED]) + (", …" if len(alike) > NAMED else "")
        facts = {"nodes": [status.node for status in alike], "state": first.state, "reason": first.reason}
        log.log(
            level,
            "%d nodes: %s (%s), such as: %s [%s]",
            len(alike), first.state, first.reason, first.message, nodes,
            extra={"facts": facts},
        )  # fmt: skip
        return
    for status in alike:
        facts = {"node": status.node, "state": status.state, "reason": status.reason}
        log.log(level, "%s", _line(status), extra={"facts": facts})


def progress(decision: Decision) -> str:
    """Return how many eligible nodes are verified."""
    eligible = {status.node for status in decision.statuses if status.state is not NodeState.EXCLUDED}
    remaining = {status.node for status in decision.statuses if status.state not in TERMINAL}
    return f"{len(eligible) - len(remaining)} of {len(eligible)} nodes verified"


def table(decision: Decision) -> str:
    """Return one row per node; for a large fleet only those that are not verified."""
    selected = _selected(decision.statuses)
    rows = [(status.node, status.state, status.reason, status.message) for status in selected]
    left_out = len(decision.statuses) - len(rows)
    lines = aligned([HEADINGS, *rows]) if rows else []
    if left_out:
        lines.append(f"({left_out} more nodes: {counts_line(decision)})")
    return "\n".join(lines)


def counts_line(decision: Decision) -> str:
    """Return the number of nodes in each state as text."""
    return ", ".join(f"{count} {state.lower()}" for state, count in counts(decision).items()) or "no nodes"


def counts(decision: Decision) -> dict[str, int]:
    """Count the nodes by state; states without nodes are left out."""
    found = {state.value: decision.count(state) for state in NodeState}
    return {state: count for state, count in found.items() if count}


def advice(decision: Decision, stack: Stack) -> list[Advice]:
    """Return the advice on each kind of trouble, once each."""
    of_nodes = advice_on(in_need(decision), stack)
    general = [reason for reason in (decision.reason, decision.cause) if reason and reason not in of_nodes]
    return [*(Advice(reason, explained(reason, stack)) for reason in general), *of_nodes.values()]


def next_step(decision: Decision, stack: Stack) -> str:
    """Return the most important advice: on the reason why the run failed, otherwise on the worst node."""
    of_nodes = advice_on(in_need(decision), stack)
    if decision.phase is Phase.FAIL:
        return str(of_nodes.get(decision.reason) or advice(decision, stack)[0])
    return str(next(iter(of_nodes.values()), advice(decision, stack)[-1]))


def advice_on(statuses: Iterable[NodeStatus], stack: Stack) -> dict[Reason, Advice]:
    """Return the advice for each reason, with the first node that has it."""
    found: dict[Reason, Advice] = {}
    for status in statuses:
        text = explained(status.reason, stack, status.node, status.subject)
        found.setdefault(status.reason, Advice(f"{status.reason} ({status.node})", text))
    return found


def needs_action(status: NodeStatus) -> bool:
    """Return whether a status shows a stale plugin or a failure, by its state or by its reason."""
    return status.state in (NodeState.STALE, NodeState.FAILED) or Trait.FAILING in status.reason.traits


def ending(decision: Decision, advised: Sequence[Advice]) -> list[str]:
    """Return warnings, verdict and advice, fit for a terminal."""
    warnings = [f"WARNING {warning}" for warning in decision.warnings]
    verdict = [printable(line) for line in (*warnings, headline(decision))]
    return [*verdict, *(line for each in advised for line in each.lines)]


def as_json(decision: Decision) -> dict[str, Any]:
    """Return everything, for programs."""
    return {
        "version": __version__,
        "phase": decision.phase,
        "reason": decision.reason,
        "message": decision.message,
        "counts": counts(decision),
        "warnings": list(decision.warnings),
        "nodes": [_node(status) for status in decision.statuses],
    }


def termination_message(decision: Decision, exit_code: int, restarted: int, stack: Stack) -> str:
    """Return the outcome in at most 4 KiB of JSON, with as many nodes as fit. Nodes that need action come first."""
    message: dict[str, Any] = {
        "phase": decision.phase,
        "reason": decision.reason,
        "message": _brief(decision.message),
        "exitCode": exit_code,
        "restarted": restarted,
        "counts": counts(decision),
        "warnings": [_brief(warning) for warning in decision.warnings[:3]],
        "next": _brief(next_step(decision, stack), ADVICE) if decision.unhappy else "",
        "nodes": [],
        "version": __version__,
    }
    excluded = [status for status in decision.statuses if status.state is NodeState.EXCLUDED]
    for status in in_need(decision) or excluded:
        message["nodes"].append(
            {"node": _brief(status.node), "reason": status.reason, "message": _brief(status.message)}
        )
        if len(json.dumps(message)) > TERMINATION_LIMIT:
            message["nodes"].pop()
            break
    return json.dumps(message)


def _selected(statuses: Sequence[NodeStatus]) -> Sequence[NodeStatus]:
    if len(statuses) <= ROWS_WHOLE:
        return statuses
    return [status for status in statuses if status.state is not NodeState.VERIFIED][:ROWS_MOST]


def _node(status: NodeStatus) -> dict[str, Any]:
    return {
        "node": status.node,
        "state": status.state,
        "reason": status.reason,
        "message": status.message,
        "plugin": status.plugin,
        "pod": status.subject,
        "upgradeLabelPending": status.label_pending,
    }


def _brief(text: str, most: int = BRIEF) -> str:
    """Shorten a text to so many bytes of JSON, which encodes each character outside ASCII with six bytes."""
    brief = printable(text, most)
    while len(json.dumps(brief)) > most + len('""\\u2026'):
        brief = f"{brief[: len(brief) * 7 // 8]}…"
    return brief
