"""Deliberately broken rules: each must break a promise, or the promises are not really watched."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest
from hypothesis import find
from hypothesis import settings as budget
from hypothesis.errors import NoSuchExample

from hook.decide import breaker, fleet, nodes, plugins, restarts
from hook.objects import views
from hook.plan import pools, timing
from tests.properties.breaking import Binding, Mutant, bindings, broken
from tests.properties.budget import MUTANTS as BUDGET
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.mutants import MUTANTS, always
from tests.properties.promises import BrokenPromiseError
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")

SEED: Final = 7
"""Of the histories; any will do."""
EVERY: Final = {**FAMILIES, **ENDLESS}
DOCS: Final = Path(__file__).parents[2] / "docs"
SOME: Final = budget(BUDGET, max_examples=20)
"""More histories than most mutants need."""


def is_noticed(mutant: Mutant, most: budget = BUDGET) -> bool:
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
            find(EVERY[mutant.family], shows, settings=most, random=Random(SEED))  # noqa: S311 - no secret
        except NoSuchExample:
            return False
    return True


def changed(before: list[Binding]) -> set[tuple[object, str]]:
    """Return the names that are bound to something else now."""
    now = {(one.owner, one.name): one.member for one in bindings()}
    return {(one.owner, one.name) for one in before if now[one.owner, one.name] is not one.member}


@pytest.mark.parametrize("mutant", [pytest.param(one, id=one.name) for one in MUTANTS])
def test_a_broken_rule_breaks_its_promise(mutant: Mutant) -> None:
    """A history of its family shows it, within the budget."""
    assert is_noticed(mutant), f"no history of {mutant.family} breaks a promise while {mutant.name}"


def test_a_mutant_that_changes_nothing_is_not_noticed() -> None:
    """It would fail the test above, as would one whose function nothing calls any more."""
    mutant = next(one for one in MUTANTS if one.name == "generation-is-ignored")
    assert is_noticed(mutant, SOME)
    same = Mutant("same", mutant.breaks, mutant.family, mutant.target, lambda original, *args: original(*args))
    assert not is_noticed(same, SOME)


def test_a_function_that_the_program_does_not_bind_is_refused() -> None:
    """Nothing is broken by what the program cannot call."""
    uncalled = Mutant("uncalled", BrokenPromiseError, "anything", is_noticed, always(None))
    with pytest.raises(LookupError, match="uncalled: no module of the program binds is_noticed"), broken(uncalled):
        pass


@pytest.mark.parametrize(
    ("target", "names"),
    [
        pytest.param(
            fleet.live_pods,
            {(module, "live_pods") for module in (fleet, breaker, nodes, plugins, pools, timing)},
            id="imported-elsewhere",
        ),
        pytest.param(views.Pod.live, {(views.Pod, "live")}, id="property"),
        pytest.param(restarts.DisruptionBudget.allows, {(restarts.DisruptionBudget, "allows")}, id="method"),
        pytest.param(restarts.DisruptionBudget.left, {(restarts.DisruptionBudget, "left")}, id="class-method"),
    ],
)
def test_a_function_is_replaced_wherever_it_is_bound(target: object, names: set[tuple[object, str]]) -> None:
    """The modules that imported it run the broken rule, too; afterwards all is as it was, also after an error."""
    before = list(bindings())
    within = None
    with suppress(KeyError), broken(Mutant("any", BrokenPromiseError, "anything", target, always(None))):
        within = changed(before)
        raise KeyError
    assert (names, set()) == (within, changed(before))


def test_every_family_and_every_mutant_is_documented() -> None:
    """People read there what was tried."""
    told = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("reliability.md"))
    names = [*EVERY, *(mutant.name for mutant in MUTANTS)]
    assert [] == [name for name in names if f"`{name}`" not in told]
