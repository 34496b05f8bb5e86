"""The program's promises, in histories of an abstract cluster: anything at all, and one family after another."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given

from tests.properties.budget import ENDLESS as ENDLESS_EXAMPLES
from tests.properties.budget import PROMISES, examples
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.pods import Pace
from tests.properties.story import History, Step, Story

pytestmark = pytest.mark.usefixtures("_quiet")

VERIFIED_BY_HAND: Final = History(
    (
        Step("time", 1), Step("takes_driver"), Step("work", 300), Step("edits_version"), Step("time", 20),
        Step("operator_renders"), Step("policy_vanishes"), Step("look"), Step("time", 200), Step("look"),
        Step("policy_returns"), Step("turns_upgrades", 3), Step("watch", 100),
    ),
    nodes=1, runs=2, at_once=1, controller=True,
    pace=Pace(goes=30, unload=20, install=4, notice=30, poll=5, begin=1, rises=10, renders=100),
)  # fmt: skip
"""A plugin is verified on an outdated driver after its restart, before the upgrade makes it stale once more."""


@pytest.mark.parametrize("family", [*FAMILIES, *ENDLESS])
def test_the_promises_are_kept(family: str) -> None:
    """A Job reports success only when true, restarts nothing early or needlessly, and ends rightly and in time."""
    # The controller restarts nothing too often in addition, and refreshes everything in the end.

    @examples(ENDLESS_EXAMPLES)
    @given({**ENDLESS, **FAMILIES}[family])
    def controller(history: History) -> None:
        Story(history._replace(controller=True)).tell()

    @examples(PROMISES.get(family, 30))
    @given({**ENDLESS, **FAMILIES}[family])
    def job(history: History) -> None:
        Story(history).tell()

    controller()
    if family in FAMILIES:
        job()


def test_a_plugin_that_was_verified_by_hand_needs_no_pause() -> None:
    """The pause between two restarts ends once a plugin is verified, also on a driver that is upgraded by hand."""
    Story(VERIFIED_BY_HAND).tell()
