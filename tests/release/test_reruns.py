"""How the test suite runs: which tests it tries once more, and which it names."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.chart.rendering import ROOT
from tests.conftest import LONGEST_FIRST, ON_A_CLUSTER, ONE_PER_PARAMETER

if TYPE_CHECKING:
    from pathlib import Path

FAILS_ONCE = """
from pathlib import Path
from tests.promises import promised

def test_fails_once():
    tries = Path("tries")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    {assertion}
"""
LATE = "assert len(tries.read_text()) > 1"
BROKEN = f"with promised():\n        {LATE}"


def test_a_second_try(tmp_path: Path) -> None:
    """A test on a cluster has a second try; a broken promise and pure code have none."""
    for number, (folder, assertion, tries, code) in enumerate((
        ("e2e", LATE, 2, 0),
        ("e2e", BROKEN, 1, 1),
        ("unit", LATE, 1, 1),
    )):  # fmt: skip
        place = tmp_path / str(number)
        test = place / "tests" / folder / "test_it.py"
        test.parent.mkdir(parents=True)
        test.write_text(FAILS_ONCE.format(assertion=assertion))
        (place / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-o", f"pythonpath={ROOT}", str(test)]
        environment = {"PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, cwd=place, env=environment, check=False, capture_output=True, text=True)
        found = (ended.returncode, len((place / "tries").read_text()))
        assert found == (code, tries), f"{folder}, {assertion}: {ended.stdout}{ended.stderr}"


def test_what_is_treated_specially_exists() -> None:
    """A renamed test would silently lose its second try or its place."""
    for name in {*LONGEST_FIRST, *ON_A_CLUSTER, *ONE_PER_PARAMETER}:
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name
