"""The table of reasons: each has a meaning, a command that only looks, and a fix only with its precondition."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import hook
from hook.decide.reasons import EventReason, Explanation, Reason, Row, Trait, explained, remedy, row
from hook.objects.stacks import GPU_OPERATOR, STACKS
from tests.unit.decide import messages
from tools import reasons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.objects.stacks import Stack

LEFTOVER: Final = re.compile(r"\{(?!NAME|[a-z]+,)[a-z_]*\}|\{\{|\}\}")
"""A placeholder. ``{NAME}`` is a list in Helm's own syntax, and stays."""
LOOKS: Final = frozenset({"get", "describe", "logs", "top", "events", "gpu-operator-post"})
"""Verbs of kubectl, and our own plugin of it, that change nothing, whatever their arguments are."""
ASKS: Final = frozenset({("auth", "can-i"), ("auth", "whoami")})
SHELL: Final = re.compile(r"[;&|<>`$()\n\\]")
"""What makes a shell run or write something else."""
NOTHING_LEFT: Final = {
    Reason.VERIFIED, Reason.NOTHING_TO_REFRESH, Reason.HOST_DRIVER, Reason.DRIVER_NOT_DEPLOYED,
    Reason.VIRTUAL_MACHINE_NODE, Reason.DRIVER_DISABLED, Reason.REFRESHED, Reason.NOTHING_STALE,
    Reason.CONTROLLER_STOPPED,
}  # fmt: skip
"""Reasons after which neither a node nor a run has work left."""
EVERYWHERE: Final = [(reason, stack) for reason in Reason for stack in STACKS.values()]


def only_looks(command: str) -> bool:
    """Return whether a command changes nothing, wherever it is pasted."""
    if SHELL.search(command):
        return False
    program, *rest = shlex.split(command)
    rest = rest[2:] if rest[:1] == ["-n"] else rest
    return program == "kubectl" and (rest[0] in LOOKS or tuple(rest[:2]) in ASKS)


def test_every_explanation_is_complete() -> None:
    """For each reason and stack, with the pod that it is about and without: no placeholder is left."""
    for reason, stack in EVERYWHERE:
        for subject in ("ns/pod", ""):
            text = remedy(reason, stack, "node-0", subject)
            assert LEFTOVER.search(text) is None, text
            assert re.search(r"[.a-z0-9AET/-]$", text), text
        meaning = explained(reason, stack).meaning
        assert meaning.endswith("."), meaning
        assert "kubectl" not in meaning, f"a command without its precondition: {meaning}"
    # A remedy can be pasted. Unknown names are in capitals, and a name is never taken for a placeholder.
    for about, expected in (
        (("gpu-0", "ns/pod"), "kubectl -n ns describe pod pod"),
        ((), "kubectl -n NAMESPACE describe pod NAME"),
        (("gpu-0", "{node}/{odd"), "kubectl -n {node} describe pod {odd"),
    ):
        assert remedy(Reason.DRIVER_FAILING, GPU_OPERATOR, *about).endswith(expected), about
    assert ("Code", Explanation("It is done."), frozenset()) == row("Code", "It is done."), "only the meaning is needed"
    assert Reason.REFRESHED.explanation.meaning == remedy(Reason.REFRESHED, GPU_OPERATOR, "gpu-0", "ns/pod"), (
        "no work is left"
    )


def identifiers(stack: Stack) -> set[str]:
    """Return what only the operator of one stack has: its name, kinds, labels and annotations."""
    labels = (stack.driver.label.selector, stack.upgrade.state, stack.upgrade.skip, stack.nodes.present)
    named = {stack.operator.title, stack.policy.kind, stack.policy.plural, *labels, stack.nodes.safe_load}
    return {*named, stack.plugin.tolerations} - {""}


def test_a_text_names_nothing_of_another_stack() -> None:
    """A cluster that has only one operator has no label or annotation of the other one to look for."""
    for reason, stack in EVERYWHERE:
        others = {each for other in STACKS.values() if other is not stack for each in identifiers(other)}
        text = remedy(reason, stack, "node-0", "ns/pod")
        found = {each for each in others if re.search(rf"(?<![a-z]){re.escape(each)}", text)}
        assert not found, f"{stack.name}: {text}"
    for stack in STACKS.values():
        failed = remedy(Reason.UPGRADE_FAILED, stack)
        assert (stack.nodes.safe_load in failed, "annotation" in failed) == (True, bool(stack.nodes.safe_load)), failed
        limited = stack.upgrade.counts_unavailable
        assert ("maxUnavailable" in remedy(Reason.DRIVER_OUTDATED, stack)) is limited, stack.name
        assert stack.plugin.tolerations in remedy(Reason.TAINT_NOT_TOLERATED, stack), stack.name


def test_a_look_changes_nothing() -> None:
    """It can be pasted at night, for every reason and every stack."""
    for reason, stack in EVERYWHERE:
        look = explained(reason, stack, "gpu-0", "ns/pod").look
        assert not look or only_looks(look), look
        assert not look.startswith("kubectl gpu-operator-post") or look.endswith(f" --stack {stack.name}"), look
    # A new reason with work left needs such a command, or a line in the list above.
    for stack in STACKS.values():
        assert {reason for reason in Reason if not explained(reason, stack).look} == NOTHING_LEFT, stack.name


def test_a_fix_has_a_precondition() -> None:
    """A command that changes something comes last, after the precondition, on its own line of a terminal.

    A driver is replaced after a drain.
    """
    with pytest.raises(ValueError, match="precondition"):
        Explanation("It is broken.", fix="kubectl delete pod x")
    for reason, stack in EVERYWHERE:
        found = explained(reason, stack, "gpu-0", "ns/pod")
        text = str(found)
        assert not found.fix or text.endswith(f"To fix, {found.precondition}: {found.fix}"), text
        assert not found.fix or not only_looks(found.fix), found.fix
        assert not found.fix or text.index(found.look) < text.index(found.fix), text
        assert "kubectl" not in found.precondition, text
        commands = [command for command in (found.look, found.fix) if command]
        assert [line.strip() for line in found.lines if line.startswith("    ")] == commands, text
        if reason in (Reason.MANUAL_UPGRADE, Reason.DRIVER_ORPHANED, Reason.UPGRADE_FAILED):
            assert found.fix.startswith("kubectl drain gpu-0 --ignore-daemonsets --delete-emptydir-data && "), text
            assert "pods of node gpu-0 may be evicted" in found.precondition, text


def having(trait: Trait) -> set[Reason]:
    """Return the reasons that have a trait."""
    return {reason for reason in Reason if trait in reason.traits}


def test_a_reason_is_its_code() -> None:
    """It is written into Events, metrics and JSON as it is, in CamelCase. A code without a row fails on import."""
    codes = [f"{reason}" for reason in (*Reason, *EventReason)]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", code) for code in codes)
    assert "PluginStale" == str(Reason.PLUGIN_STALE)
    with pytest.raises(TypeError, match="explanation"):

        class Bare(Row):
            NEW = "New"


def test_traits_do_not_contradict_each_other() -> None:
    """Else two parts of the program would act against each other. A trait without a reason would hide a dead branch."""
    for trait in Trait:
        assert having(trait), trait
    for one, other in (
        (Trait.BLOCKED, Trait.PLUGIN_DOWN),
        (Trait.BLOCKED, Trait.PASSING),
        (Trait.FAILING, Trait.PASSING),  # a failure is logged
    ):
        assert not having(one) & having(other), (one, other)
    assert having(Trait.WAITS_FOR_TURN) | having(Trait.FAILING) <= having(Trait.BLOCKED)


def test_the_page_explains_every_reason_as_the_code_does() -> None:
    """``make docs`` writes it. Each reason is a heading, and belongs to a chapter."""
    page = reasons.PAGE.read_text(encoding="utf-8")
    assert reasons.rendered() == page
    for reason in Reason:
        assert f"\n### `{reason}`\n" in page, reason
    for stack in STACKS.values():
        assert explained(Reason.UPGRADE_FAILED, stack).fix.rpartition(" && ")[2] in page, stack.name
    for event in EventReason:
        assert f"| `{event}` | {event.explanation.meaning} |" in page, event
    assert next(iter(Reason)) in reasons.CHAPTERS
    assert [reason for reason in Reason if reason in reasons.CHAPTERS] == list(reasons.CHAPTERS)


def test_the_messages_are_those_that_were_reviewed() -> None:
    """Every sentence that users read. ``python -m tests.unit.decide.messages`` writes them; review the difference."""
    assert messages.FILE.read_text(encoding="utf-8").splitlines() == messages.rendered().splitlines()


def given(source: str) -> Iterator[Row]:
    """Yield the reasons that some code gives, not those that it only compares with."""
    tree = ast.parse(source)
    compared = {part for each in ast.walk(tree) if isinstance(each, ast.Compare) for part in ast.walk(each)}
    for part in ast.walk(tree):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part not in compared:
            kind = {"Reason": Reason, "EventReason": EventReason}.get(part.value.id)
            if kind is not None:
                yield kind[part.attr]


def test_a_reason_that_nothing_produces_is_deleted() -> None:
    """A decision on a state of messages.txt has it, or a command whose run ends early gives it. So do Events."""
    package = Path(*hook.__path__)
    found: set[Row | None] = {*given((package / "cli.py").read_text(encoding="utf-8"))}
    for path in (package / "run").glob("*.py"):
        found |= {*given(path.read_text(encoding="utf-8"))} & {*EventReason}
    for _name, decision in messages.decisions():
        found |= {decision.reason, *(status.reason for status in decision.statuses)}
    assert set() == {*Reason, *EventReason} - found, "add a state to tests/unit/decide/messages.py, or delete the row"
