"""How the test suite runs: what it tries once more, never a broken promise, and what it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONGEST_FIRST, ON_A_CLUSTER, ONE_PER_PARAMETER

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.mark.parametrize(
    ("folder", "assertion", "tries", "code"),
    [
        ("e2e", LATE, 2, 0),
        ("e2e", BROKEN, 1, 1),
        ("unit", LATE, 1, 1),
    ],
    ids=["on-a-cluster", "a-broken-promise", "pure-code"],
)
def test_tried_once_more(tmp_path: Path, folder: str, assertion: str, tries: int, code: int) -> None:
    """A test on a cluster has a second try; a broken promise and pure code have none."""
    test = tmp_path / "tests" / folder / "test_it.py"
    test.parent.mkdir(parents=True)
    test.write_text(FAILS_ONCE.format(assertion=assertion))
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-o", f"pythonpath={ROOT}", str(test)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, len((tmp_path / "tries").read_text())) == (code, tries), ended.stdout + ended.stderr


@pytest.mark.parametrize("name", sorted({*LONGEST_FIRST, *ON_A_CLUSTER, *ONE_PER_PARAMETER}))
def test_what_is_treated_specially_is_there(name: str) -> None:
    """A renamed test would silently lose its second try or its place."""
    path, _, test = name.partition("::")
    assert (ROOT / path).exists()
    assert not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")
