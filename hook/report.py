"""Show a decision: a table for people, JSON for programs, and the pod's termination message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.core import messages
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.stacks import GPU_OPERATOR, STACKS
from hook.core.verdicts import NodeState, Verdict
from hook.logs import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hook.core.verdicts import Decision, Judgement

ROWS_WHOLE: Final = 60
"""A fleet of up to so many nodes is shown whole; of a larger one, what is not verified."""
ROWS_MOST: Final = 200
CELL_MOST: Final = 2048
"""Characters of one cell: no name comes near it, and what a driver says of its failure is cut before."""
TERMINATION_LIMIT: Final = 4096
"""Bytes; the kubelet cuts a longer message (K8S ``pkg/kubelet/container``, MaxContainerTerminationMessageLength)."""
BRIEF: Final = 400
"""Bytes of one sentence in the termination message: six of them, the advice and the rest of the story fit."""
ADVICE: Final = 1000
"""Bytes of the advice there: a meaning, where to look, and a fix with its precondition."""
HEADINGS: Final = ("NODE", "STATE", "REASON", "DETAIL")


def table(decision: Decision) -> str:
    """Give one row a node; of a large fleet only those that are not verified."""
    worthy, detail = _worth_showing(decision.judgements), details(decision)
    rows = [(one.node, one.state, one.reason, detail(one)) for one in worthy]
    left_out = len(decision.judgements) - len(rows)
    lines = aligned([HEADINGS, *rows]) if rows else []
    if left_out:
        lines.append(f"({left_out} more nodes: {counts_sentence(decision)})")
    return "\n".join(lines)


def details(decision: Decision) -> Callable[[Judgement], str]:
    """Give how to put a judgement into words: with its driver stack, where several are served."""
    several = len({one.stack for one in decision.judgements}) > 1
    return lambda judged: f"[{judged.stack}] {judged.message}" if several else judged.message


def counts_sentence(decision: Decision) -> str:
    """Say how many nodes are in which state."""
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
    return [*(f"{reason}: {messages.remedy(reason, stack=stack)}" for reason in general), *of_nodes.values()]


def next_step(decision: Decision) -> str:
    """Return the one advice for where there is room for one: on what the run failed for, else on the worst node."""
    of_nodes = _advice_on_nodes(decision)
    if decision.verdict is Verdict.FAIL:
        return of_nodes.get((decision.stack, decision.reason)) or advice(decision)[0]
    if decision.cause is Reason.FOLLOWER_MISSING:
        # The nodes wait for the controller alone: no advice on one of them helps.
        return f"{decision.cause}: {messages.remedy(decision.cause)}"
    return next(iter(of_nodes.values()), advice(decision)[-1])


def _advice_on_nodes(decision: Decision) -> dict[tuple[str, str], str]:
    """Return the advice for each reason that a node in need has; the worst come first."""
    return advice_on(messages.in_need(decision))


def advice_on(judgements: Iterable[Judgement]) -> dict[tuple[str, str], str]:
    """Return the advice for each reason, by stack and reason, with the first node that has it."""
    lines: dict[tuple[str, str], str] = {}
    for judged in judgements:
        stack = STACKS.get(judged.stack, GPU_OPERATOR)
        remedy = messages.remedy(judged.reason, judged.node, judged.subject, stack)
        lines.setdefault((judged.stack, judged.reason), f"{judged.reason} ({judged.node}): {remedy}")
    return lines


def needs_action(judged: Judgement) -> bool:
    """Whether one look shows a stale plugin, or a failure: by its state, or by a reason that a run waits with first."""
    return judged.state in (NodeState.STALE, NodeState.FAILED) or Trait.FAILING in judged.reason.traits


def ending(decision: Decision, advised: Sequence[str] | None = None) -> list[str]:
    """Return warnings, verdict and advice, fit for a terminal; the verdict where eyes land after a table."""
    warnings = [f"WARNING {warning}" for warning in decision.warnings]
    if advised is None:
        advised = advice(decision) if decision.verdict is not Verdict.DONE else []
    return [shown(line) for line in (*warnings, messages.headline(decision), *advised)]


def as_json(decision: Decision) -> dict[str, Any]:
    """Give everything, for programs."""
    return {
        "version": __version__,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "message": decision.message,
        "counts": counts(decision),
        "warnings": list(decision.warnings),
        "nodes": [_node(one) for one in decision.judgements],
    }


def termination_message(decision: Decision, exit_code: int, restarted: int) -> str:
    """Give the story in at most 4 KiB of JSON; nodes that need somebody first, as many as fit."""
    story: dict[str, Any] = {
        "verdict": decision.verdict,
        "reason": decision.reason,
        "message": _briefly(decision.message),
        "exitCode": exit_code,
        "restarted": restarted,
        "counts": counts(decision),
        "warnings": [_briefly(one) for one in decision.warnings[:3]],
        "next": _briefly(next_step(decision), ADVICE) if decision.unhappy else "",
        "nodes": [],
        "version": __version__,
    }
    worst = messages.in_need(decision) or [one for one in decision.judgements if one.state is NodeState.EXCLUDED]
    detail = details(decision)
    for one in worst:
        story["nodes"].append({"node": _briefly(one.node), "reason": one.reason, "message": _briefly(detail(one))})
        if len(json.dumps(story)) > TERMINATION_LIMIT:
            story["nodes"].pop()
            break
    return json.dumps(story)


def _worth_showing(judgements: Sequence[Judgement]) -> Sequence[Judgement]:
    if len(judgements) <= ROWS_WHOLE:
        return judgements
    return [one for one in judgements if one.state is not NodeState.VERIFIED][:ROWS_MOST]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows of four cells in columns."""
    cleaned = [[shown(cell, CELL_MOST) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cleaned) for column in range(len(HEADINGS) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cleaned
    ]


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
    """Return at most so many characters, and as many bytes: JSON spells each one that is not ASCII with six."""
    brief = shown(text, most)
    while len(json.dumps(brief)) > most + len('""\\u2026'):
        brief = f"{brief[: len(brief) * 7 // 8]}…"
    return brief
