"""The program's promises, in histories of an abstract cluster: anything at all, and one family after another."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.model.budget import promises
from tests.model.families import FAMILIES
from tests.model.story import History, Story


@pytest.mark.parametrize("family", FAMILIES)
def test_the_promises_are_kept(family: str) -> None:
    """Done means done, nothing is restarted early or needlessly, and every run ends rightly and in time."""

    @promises(family)
    @given(FAMILIES[family])
    def tell(history: History) -> None:
        Story(history).tell()

    tell()
