"""How much of the program one decision runs through: a reader who changes a rule has to know that much."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Final

import hook
from hook.decide.record import Memory
from hook.decide.run import decide
from hook.settings import Settings
from tests.fixtures.cluster import LATER, stale
from tests.unit.decide.runs import deleted

ROOT: Final = Path(hook.__file__).parent
MOST_MODULES: Final = 9


def test_one_decision_about_a_stale_pod_enters_few_modules() -> None:
    """A module counts if the decision calls a function in it, other than one that returns a name."""
    seen, entered = stale("a").seen(), set[str]()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "__str__" and path.is_relative_to(ROOT):
            entered.add(str(path.relative_to(ROOT)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        decision, _memory = decide(seen, Memory(started=LATER), Settings(), LATER)
    finally:
        sys.setprofile(before)
    assert ["a"] == deleted(decision)
    assert "decide/run.py" in entered
    assert len(entered) <= MOST_MODULES, sorted(entered)
