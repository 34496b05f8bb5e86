"""Deliberately broken rules: each must break a promise, or nothing watches that promise."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import hypothesis
import pytest
from hypothesis.errors import NoSuchExample

from hook.decide import breaker, fleet, nodes, plugins, restarts
from hook.objects import views
from hook.plan import pools, timing
from tests.properties import budget
from tests.properties.breaking import Binding, Mutant, bindings, broken
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutants import MUTANTS, always
from tests.properties.promises import BrokenPromiseError
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")

SEED: Final = 7
"""Of the histories; any would do."""
EVERY: Final = {**FAMILIES, **ENDLESS}
TRIED: Final = budget.sample(MUTANTS)
PAGE: Final = Path(__file__).parents[2] / "docs" / "dev" / "reliability.md"


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


def test_a_mutant_that_changes_nothing_is_not_noticed() -> None:
    """It would fail the test above, as would one whose function nothing calls any more."""
    mutant = next(one for one in MUTANTS if one.name == "generation-is-ignored")
    assert is_noticed(mutant, 20)
    same = Mutant("same", mutant.breaks, mutant.family, mutant.target, lambda original, *args: original(*args))
    assert not is_noticed(same, 20)


def test_a_function_that_the_program_does_not_bind_is_refused() -> None:
    """Nothing is broken by what the program cannot call."""
    uncalled = Mutant("uncalled", BrokenPromiseError, "anything", is_noticed, always(None))
    with pytest.raises(LookupError, match="uncalled: no module of the program binds is_noticed"), broken(uncalled):
        pass


def changed(before: list[Binding]) -> set[tuple[object, str]]:
    """Return the names that are bound to something else now."""
    now = {(one.owner, one.name): one.member for one in bindings()}
    return {(one.owner, one.name) for one in before if now[one.owner, one.name] is not one.member}


def test_a_function_is_replaced_wherever_it_is_bound() -> None:
    """Modules that imported it run the broken rule, too; afterwards all is as it was, also after an error."""
    importers: set[tuple[object, str]] = {
        (module, "live_pods") for module in (fleet, breaker, nodes, plugins, pools, timing)
    }
    targets: tuple[tuple[object, set[tuple[object, str]]], ...] = (
        (fleet.live_pods, importers),
        (views.Pod.live, {(views.Pod, "live")}),
        (restarts.DisruptionBudget.allows, {(restarts.DisruptionBudget, "allows")}),
        (restarts.DisruptionBudget.left, {(restarts.DisruptionBudget, "left")}),
    )
    for target, names in targets:
        before = list(bindings())
        within = None
        with suppress(KeyError), broken(Mutant("any", BrokenPromiseError, "anything", target, always(None))):
            within = changed(before)
            raise KeyError
        assert (names, set()) == (within, changed(before)), target


def test_every_family_and_every_mutant_is_documented() -> None:
    """Users read there what was tried."""
    page = PAGE.read_text(encoding="utf-8")
    assert [] == [name for name in (*EVERY, *(mutant.name for mutant in MUTANTS)) if f"`{name}`" not in page]
