"""How much is tried: the same examples each time, a few of them, or many new ones.

``MODEL_EXAMPLES`` is the number of examples of each property. A few (`make test-quick`) are always the same, and loops
over everything become a sample. Of those that are not few, more than usual (``make model EXAMPLES=2000``) are new each
time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Any = TypeVar("Any")

ASKED: Final = int(os.environ.get("MODEL_EXAMPLES") or 0)
FEW: Final = 20
QUICK: Final = 0 < ASKED < FEW
SHARE: Final = 25
"""Of what is tried one by one, a quick run tries the first of so many."""
ALL_PHASES: Final = (Phase.generate, Phase.shrink)
ONCE: Final = (Phase.generate,)
"""A failing example is not made smaller where that would take minutes."""

LONG: Final = ("by_hand_in_place", "rolling_by_hand", "policy_gone", "place_given_back")
PROMISES: Final = {"anything": 75, **dict.fromkeys(LONG, 15)}
"""Histories of a family; the others get 30. Runs of the long ones often last until their time is up."""
ENDLESS: Final = 10
"""Histories of a family for the controller: the Job, which has the same loop, gets the others."""
OBJECTS: Final = 50
"""Mutations of a scene. Thousands were tried while this was written; these are for what changes later."""
MUTANTS: Final = 400
"""Histories until a broken rule must have shown. Over 20 seeds, the most that one took is 40."""

# Hypothesis now and then draws a constant of a module that this process has imported. Which ones those are depends on
# the tests that ran before.
providers._get_local_constants = Constants


def examples(usual: int, phases: Sequence[Phase] = ALL_PHASES) -> settings:
    """Return the budget of a property that usually gets so many examples."""
    return settings(
        max_examples=ASKED or usual, derandomize=QUICK or usual >= ASKED, database=None, deadline=None, phases=phases,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def sample(everything: Iterable[Any]) -> list[Any]:
    """Return everything, or in a quick run a part of it."""
    return list(everything)[:: SHARE if QUICK else 1]
