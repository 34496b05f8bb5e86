"""How many histories are told: few and always the same in the tests, as many and as new as one likes by hand."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

ASKED: Final = os.environ.get("MODEL_EXAMPLES", "")
"""``make model EXAMPLES=2000`` sets it: so many new histories of each family."""
PROMISES: Final = settings(
    max_examples=int(ASKED or 60),
    derandomize=not ASKED,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
"""Sixty of each family take about a second and a half of a core."""
MUTANTS: Final = settings(
    max_examples=400, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
"""Until a broken rule must have shown. Measured over 20 seeds, the most that any of them took is in the table of
docs/reliability.md: a tenth of this."""
