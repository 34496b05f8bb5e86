"""The program's promises, in histories of an abstract cluster: anything at all, and one family after another."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.properties.budget import endless, promises
from tests.properties.families import ENDLESS, FAMILIES
from tests.properties.story import History, Story

pytestmark = pytest.mark.usefixtures("_quiet")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_promises_are_kept(family: str) -> None:
    """Done means done, nothing is restarted early or needlessly, and every run ends rightly and in time."""

    @promises(family)
    @given(FAMILIES[family])
    def tell(history: History) -> None:
        Story(history).tell()

    tell()


@pytest.mark.parametrize("family", [*ENDLESS, *FAMILIES])
def test_the_promises_of_a_run_that_never_ends_are_kept(family: str) -> None:
    """The same histories, and some of its own: nothing early or needless, nothing too often, and all in the end."""

    @endless()
    @given({**ENDLESS, **FAMILIES}[family])
    def tell(history: History) -> None:
        Story(history._replace(follow=True)).tell()

    tell()
