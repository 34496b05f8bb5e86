"""Deliberately broken rules: each must break a promise, or the promises are not really watched."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import find
from hypothesis.errors import NoSuchExample

from hook.core import freshness
from tests.model.budget import MUTANTS as BUDGET
from tests.model.families import ENDLESS, FAMILIES
from tests.model.mutants import MUTANTS, Mutant, broken
from tests.model.promises import DoneTooEarlyError
from tests.model.story import History, Story

SEED: Final = 7
"""Of the histories; any will do."""
EVERY: Final = {**FAMILIES, **ENDLESS}
DOCS: Final = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("mutant", [pytest.param(one, id=one.name) for one in MUTANTS])
def test_a_broken_rule_breaks_its_promise(mutant: Mutant) -> None:
    """A history of its family shows it, within the budget."""

    def shows(history: History) -> bool:
        try:
            Story(history).tell()
        except mutant.breaks:
            return True
        except AssertionError:
            return False  # Another promise breaks as well; this one must.
        return False

    with broken(mutant):
        try:
            find(EVERY[mutant.family], shows, settings=BUDGET, random=Random(SEED))  # noqa: S311 - no secret
        except NoSuchExample:
            pytest.fail(f"no history of {mutant.family} breaks a promise while {mutant.name}")


def test_a_mutant_leaves_no_trace() -> None:
    """What is tested next is the program as it is."""
    mutant = next(one for one in MUTANTS if one.module is freshness)
    before = {name: code.__code__ for name, code in vars(freshness).items() if hasattr(code, "__code__")}
    with broken(mutant):
        within = {name: code.__code__ for name, code in vars(freshness).items() if hasattr(code, "__code__")}
    after = {name: code.__code__ for name, code in vars(freshness).items() if hasattr(code, "__code__")}
    assert (True, before) == (before != within, after)


def test_a_rule_that_is_written_differently_is_no_mutant() -> None:
    """Then the line to break must be found anew: nothing is broken by what is not there."""
    gone = Mutant("gone", DoneTooEarlyError, "anything", freshness, "no such line", "")
    with pytest.raises(LookupError, match="no such line"), broken(gone):
        pass


def test_every_family_and_every_mutant_is_documented() -> None:
    """People read there what was tried."""
    told = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("reliability.md"))
    names = [*EVERY, *(mutant.name for mutant in MUTANTS)]
    assert [] == [name for name in names if f"`{name}`" not in told]
