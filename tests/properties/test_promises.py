"""The program's promises, in histories of an abstract cluster: anything at all, and one family after another."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.properties.budget import ENDLESS as ENDLESS_EXAMPLES
from tests.properties.budget import PROMISES, examples
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")


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
