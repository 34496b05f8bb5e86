"""Format a decision: a table for users, JSON for programs, and the termination message of the pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.core.reason import Trait, remedy
from hook.core.reasons import Reason
from hook.core.sentences import aligned, shown
from hook.core.stacks import GPU_OPERATOR, STACKS
from hook.core.verdicts import NodeState, Verdict, headline, in_need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hook.core.verdicts import Decision, Judgement

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
    worthy, detail = _worth_showing(decision.judgements), details(decision)
    rows = [(judged.node, judged.state, judged.reason, detail(judged)) for judged in worthy]
    left_out = len(decision.judgements) - len(rows)
    lines = aligned([HEADINGS, *rows]) if rows else []
    if left_out:
        lines.append(f"({left_out} more nodes: {counts_sentence(decision)})")
    return "\n".join(lines)


def details(decision: Decision) -> Callable[[Judgement], str]:
    """Return a function that formats the message of a judgement, with the driver stack if there are several."""
    several = len({judged.stack for judged in decision.judgements}) > 1
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
    if decision.verdict is Verdict.FAIL:
        return of_nodes.get((decision.stack, decision.reason)) or advice(decision)[0]
    if decision.cause is Reason.FOLLOWER_MISSING:
        # The nodes wait for the controller alone: no advice on one of them helps.
        return f"{decision.cause}: {remedy(decision.cause)}"
    return next(iter(of_nodes.values()), advice(decision)[-1])


def _advice_on_nodes(decision: Decision) -> dict[tuple[str, str], str]:
    """Return the advice for each reason of the nodes that need action, the worst first."""
    return advice_on(in_need(decision))


def advice_on(judgements: Iterable[Judgement]) -> dict[tuple[str, str], str]:
    """Return the advice for each reason, by stack and reason, with the first node that has it."""
    lines: dict[tuple[str, str], str] = {}
    for judged in judgements:
        stack = STACKS.get(judged.stack, GPU_OPERATOR)
        fix = remedy(judged.reason, judged.node, judged.subject, stack)
        lines.setdefault((judged.stack, judged.reason), f"{judged.reason} ({judged.node}): {fix}")
    return lines


def needs_action(judged: Judgement) -> bool:
    """Return whether a judgement shows a stale plugin or a failure, by its state or by its reason."""
    return judged.state in (NodeState.STALE, NodeState.FAILED) or Trait.FAILING in judged.reason.traits


def ending(decision: Decision, advised: Sequence[str] | None = None) -> list[str]:
    """Return warnings, verdict and advice, fit for a terminal."""
    warnings = [f"WARNING {warning}" for warning in decision.warnings]
    if advised is None:
        advised = advice(decision) if decision.verdict is not Verdict.DONE else []
    return [shown(line) for line in (*warnings, headline(decision), *advised)]


def as_json(decision: Decision) -> dict[str, Any]:
    """Return everything, for programs."""
    return {
        "version": __version__,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "message": decision.message,
        "counts": counts(decision),
        "warnings": list(decision.warnings),
        "nodes": [_node(judged) for judged in decision.judgements],
    }


def termination_message(decision: Decision, exit_code: int, restarted: int) -> str:
    """Return the outcome in at most 4 KiB of JSON, with as many nodes as fit. Nodes that need action come first."""
    story: dict[str, Any] = {
        "verdict": decision.verdict,
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
    excluded = [judged for judged in decision.judgements if judged.state is NodeState.EXCLUDED]
    detail = details(decision)
    for judged in in_need(decision) or excluded:
        story["nodes"].append(
            {"node": _briefly(judged.node), "reason": judged.reason, "message": _briefly(detail(judged))}
        )
        if len(json.dumps(story)) > TERMINATION_LIMIT:
            story["nodes"].pop()
            break
    return json.dumps(story)


def _worth_showing(judgements: Sequence[Judgement]) -> Sequence[Judgement]:
    if len(judgements) <= ROWS_WHOLE:
        return judgements
    return [judged for judged in judgements if judged.state is not NodeState.VERIFIED][:ROWS_MOST]


def _node(judged: Judgement) -> dict[str, Any]:
    return {
        "node": judged.node,
        "state": judged.state,
        "reason": judged.reason,
        "message": judged.message,
        "consumer": judged.consumer,
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
