"""docs/reasons.md lists every reason that the program can print, as the code explains it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hook.decide.explain import explained
from hook.decide.reasons import EventReason, Reason
from hook.objects.drivers import STACKS
from tools import reasons

if TYPE_CHECKING:
    from hook.objects.drivers import Stack

ROOT = Path(__file__).parents[2]


def row(reason: Reason) -> str:
    """Give the line of a reason."""
    lines = reasons.PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [one for one in lines if one.startswith(f"| `{reason}` |")]
    return line


def test_the_page_is_what_the_code_says() -> None:
    """``make docs`` writes it; a change of words without that is found here."""
    assert reasons.rendered() == reasons.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_one_line_with_a_meaning(reason: Reason) -> None:
    """The source need not be read; nothing is left to fill in."""
    meaning, *commands = row(reason).removeprefix(f"| `{reason}` | ").removesuffix(" |").split(" | ")
    assert meaning.endswith(".")
    assert len(commands) == 2
    assert "{" not in row(reason)


@pytest.mark.parametrize("reason", EventReason)
def test_every_event_is_listed(reason: EventReason) -> None:
    """What only Events carry is explained as well."""
    assert f"| `{reason}` | {reason.explanation.meaning} |" in reasons.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_a_failed_upgrade_is_told_for_each_stack(stack: Stack) -> None:
    """As that operator's documentation has it."""
    line = row(Reason.UPGRADE_FAILED)
    assert f"*{stack.name}*: " in line
    assert explained(Reason.UPGRADE_FAILED, stack=stack).fix in line


@pytest.mark.parametrize(
    ("reason", "several"),
    [
        pytest.param(Reason.NODE_SKIPPED, True, id="another-label"),
        pytest.param(Reason.NODE_NOT_READY, False, id="the-same-for-all"),
        pytest.param(Reason.PREREQUISITE_NOT_READY, False, id="only-one-stack-has-it"),
    ],
)
def test_a_stack_is_named_only_where_stacks_differ(reason: Reason, several: bool) -> None:
    """What is the same for all is said once, and nothing is said of a stack that cannot have the reason."""
    assert several == ("*network*: " in row(reason))


def test_every_reason_belongs_to_a_chapter() -> None:
    """In the order of the code."""
    assert next(iter(Reason)) in reasons.CHAPTERS
    assert [one for one in Reason if one in reasons.CHAPTERS] == list(reasons.CHAPTERS)


def test_the_check_fails_where_the_page_is_old(tmp_path: Path) -> None:
    """As CI calls it, on a page that somebody edited."""
    old = tmp_path / "reasons.md"
    old.write_text(reasons.rendered() + "edited", encoding="utf-8")
    script = f"import pathlib, tools.reasons as r; r.PAGE = pathlib.Path({str(old)!r}); r.main()"
    done = [
        subprocess.run([sys.executable, "-c", script, *flags], cwd=ROOT, check=False, capture_output=True, text=True)
        for flags in (["--check"], [], ["--check"])
    ]
    assert [1, 0, 0] == [one.returncode for one in done]
    assert "make docs" in done[0].stderr


@pytest.mark.parametrize("page", ["README.md", "docs/operations.md"])
def test_the_page_can_be_found(page: str) -> None:
    """From where people start."""
    assert "reasons.md" in (ROOT / page).read_text(encoding="utf-8")
