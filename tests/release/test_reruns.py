"""What the test suite treats specially exists."""

from __future__ import annotations

from tests.chart.rendering import ROOT
from tests.conftest import LONGEST_FIRST, ON_A_CLUSTER, ONE_PER_PARAMETER


def test_what_is_treated_specially_exists() -> None:
    """A renamed test would silently lose its second try or its place."""
    for name in {*LONGEST_FIRST, *ON_A_CLUSTER, *ONE_PER_PARAMETER}:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name
