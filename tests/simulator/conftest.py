"""When the simulator's tests run: where it changed, where that cannot be known, and where you ask for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from devcluster.layout import CHECKOUT

ALWAYS: Final = ("test_cost.py", "test_performance_page.py")
"""Modules about tools that a change of the program or of a page can break; they need no cluster."""
SOURCES: Final = ("devcluster", "tests/simulator")
UPSTREAM: Final = "origin/main"
FORCE: Final = "SIMULATOR"
"""Set this environment variable to run the tests in any case, as every night."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the simulator's tests where it did not change."""
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents and item.path.name not in ALWAYS]
    if mine and (reason := _why_skip()):
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_skip() -> str:
    """Return why the simulator's tests need not run, or nothing where they run."""
    # On a checkout of the upstream branch itself, as after a push to it, the last commit counts.
    base = _git("merge-base", "HEAD", UPSTREAM)
    if base == _git("rev-parse", "HEAD"):
        base = _git("rev-parse", "--quiet", "--verify", "HEAD~1")
    if os.environ.get(FORCE) or not base:
        return ""
    changed = _git("diff", "--name-only", base, "--", *SOURCES)
    if changed or _git("ls-files", "--others", "--exclude-standard", "--", *SOURCES):
        return ""
    return f"no change in {' or '.join(SOURCES)} since {base[:12]}; {FORCE}=1 runs it"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
