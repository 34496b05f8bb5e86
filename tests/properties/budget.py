"""How many histories are told: few and always the same in the tests, as many and as new as one likes by hand."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

ASKED: Final = os.environ.get("MODEL_EXAMPLES", "")
"""``make model EXAMPLES=2000`` sets it: so many new histories of each family."""

USUAL: Final = 100
FEWER: Final = {"by_hand_in_place": 50, "rolling_by_hand": 50, "policy_gone": 50, "place_given_back": 50}
"""Runs that often last until their time is up, which takes four times as long to tell as any other."""


def promises(family: str) -> settings:
    """Return the budget of a family; all of them together take less than a minute and a half of one core."""
    usual = 250 if family == "anything" else FEWER.get(family, USUAL)
    return settings(
        max_examples=int(ASKED or usual),
        derandomize=not ASKED,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def endless() -> settings:
    """Give that of a family that is told to a run that never ends: its loop is told the same by the others already."""
    return settings(promises("endless"), max_examples=int(ASKED or 20))


MUTANTS: Final = settings(
    max_examples=400, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
"""Until a broken rule must have shown. Measured over 20 seeds, the most that any of them took is in the table of
docs/reliability.md: less than a tenth of this."""
