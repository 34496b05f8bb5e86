"""What the test suite names exists, and what is tried once more is no broken promise."""

from __future__ import annotations

from typing import Final

import pytest

from tests.chart.rendering import ROOT
from tests.conftest import LONGEST_FIRST, ON_A_CLUSTER, ONE_PER_PARAMETER

pytest_plugins = ("pytester",)
FAILING: Final = """
from contextlib import nullcontext
import pytest
from tests.promises import promised
@pytest.mark.parametrize("kind", ["promise", "other"])
@pytest.mark.parametrize("where", ["alone", "inside"])
def test(subtests, where, kind):
    with subtests.test() if where == "inside" else nullcontext(), promised() if kind == "promise" else nullcontext():
        assert False
    with subtests.test():
        pass
"""


def test_what_is_treated_specially_exists() -> None:
    """A renamed test would silently lose its second try or its place."""
    for name in {*LONGEST_FIRST, *ON_A_CLUSTER, *ONE_PER_PARAMETER}:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_a_broken_promise_is_never_tried_again(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tests on a cluster, all others are, also if only a subtest failed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(**{"tests/e2e/test_failing": FAILING})
    done = pytester.runpytest_subprocess("-p", "tests.conftest", "-rR", "tests")
    tried_again = {line.rpartition("::")[2] for line in done.outlines if line.startswith("RERUN ")}
    assert tried_again == {"test[alone-other]", "test[inside-other]"}
