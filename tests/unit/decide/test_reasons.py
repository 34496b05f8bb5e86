"""The table of reasons: one row per reason without contradictions; docs/troubleshooting.md explains each of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hook.decide.explain import Row, Trait, explained
from hook.decide.reasons import EventReason, Reason
from hook.objects.drivers import STACKS
from tools import reasons

ROOT = Path(__file__).parents[3]


def having(trait: Trait) -> set[Reason]:
    """Return the reasons that have a trait."""
    return {reason for reason in Reason if trait in reason.traits}


def section_of(reason: Reason) -> str:
    """Return the section of a reason in the page."""
    _, _, rest = reasons.PAGE.read_text(encoding="utf-8").partition(f"\n### `{reason}`\n")
    return rest.partition("\n#")[0]


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
        (Trait.STALE, Trait.FRESH),
        (Trait.STALE, Trait.PLUGIN_DOWN),  # a stale plugin counts as down only if its pod is not ready
        (Trait.BLOCKED, Trait.DRIVER_RELOADING),
        (Trait.BLOCKED, Trait.PLUGIN_DOWN),
        (Trait.BLOCKED, Trait.PASSING),
        (Trait.FAILING, Trait.PASSING),  # a failure is logged
    ):
        assert not having(one) & having(other), (one, other)
    assert having(Trait.WAITS_FOR_TURN) | having(Trait.FAILING) <= having(Trait.BLOCKED)
    assert having(Trait.FRESH) - {Reason.VERIFIED} <= having(Trait.PLUGIN_DOWN)


def test_the_page_explains_every_reason_as_the_code_does() -> None:
    """``make docs`` writes it. Each reason is a heading with its meaning, and belongs to a chapter."""
    page = reasons.PAGE.read_text(encoding="utf-8")
    assert reasons.rendered() == page
    for reason in Reason:
        _, meaning, *_ = section_of(reason).split("\n")
        assert (True, False) == (meaning.endswith("."), "{" in section_of(reason)), reason
        stacks = filter(reasons.NEEDED.get(reason, bool), STACKS.values())
        assert all(explained(reason, stack=stack).look in section_of(reason) for stack in stacks), reason
    for event in EventReason:
        assert f"| `{event}` | {event.explanation.meaning} |" in page, event
    assert next(iter(Reason)) in reasons.CHAPTERS
    assert [reason for reason in Reason if reason in reasons.CHAPTERS] == list(reasons.CHAPTERS)


def test_the_page_names_a_stack_only_where_stacks_differ() -> None:
    """A failed upgrade has the command of each operator's documentation."""
    for reason, several in (
        (Reason.NODE_SKIPPED, True),  # another label
        (Reason.NODE_NOT_READY, False),
        (Reason.PREREQUISITE_NOT_READY, False),  # only one stack can have it
    ):
        assert several == ("*network*: " in section_of(reason)), reason
    for stack in STACKS.values():
        assert f"*{stack.name}*: " in section_of(Reason.UPGRADE_FAILED)
        assert explained(Reason.UPGRADE_FAILED, stack=stack).fix in section_of(Reason.UPGRADE_FAILED), stack.name


def test_the_check_fails_where_the_page_is_old(tmp_path: Path) -> None:
    """As CI runs it, on a page that was edited by hand."""
    old = tmp_path / "troubleshooting.md"
    old.write_text(reasons.rendered() + "edited", encoding="utf-8")
    script = f"import pathlib, tools.reasons as r; r.PAGE = pathlib.Path({str(old)!r}); r.main()"
    runs = [
        subprocess.run([sys.executable, "-c", script, *flags], cwd=ROOT, check=False, capture_output=True, text=True)
        for flags in (["--check"], [], ["--check"])
    ]
    assert [1, 0, 0] == [run.returncode for run in runs]
    assert "make docs" in runs[0].stderr
