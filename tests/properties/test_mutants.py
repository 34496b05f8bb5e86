"""Deliberately broken rules: each must break a promise, or nothing watches that promise."""

from __future__ import annotations

from random import Random
from typing import Final

import hypothesis
import pytest
from hypothesis.errors import NoSuchExample

from tests.properties import budget
from tests.properties.breaking import Mutant, broken
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutants import MUTANTS
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")

SEED: Final = 5
"""Of the histories; any would do."""
EVERY: Final = {**FAMILIES, **ENDLESS}
TRIED: Final = budget.sample(MUTANTS)


def is_noticed(mutant: Mutant, most: int = budget.MUTANTS) -> bool:
    """Return whether one of so many histories of its family breaks the promise while the rule is broken."""

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
            settings = hypothesis.settings(budget.examples(most, budget.ONCE), max_examples=most, derandomize=False)
            hypothesis.find(EVERY[mutant.family], shows, settings=settings, random=Random(SEED))  # noqa: S311 - no secret
        except NoSuchExample:
            return False
    return True


@pytest.mark.parametrize("family", sorted({mutant.family for mutant in TRIED}))
def test_a_broken_rule_breaks_its_promise(family: str, subtests: pytest.Subtests) -> None:
    """A history of its family shows it, within the budget."""
    for mutant in TRIED:
        if mutant.family == family:
            with subtests.test(mutant.name):
                assert is_noticed(mutant), f"no history of {family} breaks a promise while {mutant.name}"
