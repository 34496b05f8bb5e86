"""When the simulator's tests run: where it changed, or that is not known, or you ask."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from devcluster.boot.layout import CHECKOUT

ALWAYS: Final = ("test_cost.py", "test_figures.py")
"""Modules about tools that a change of the program or of a page can break; they need no cluster."""
DEMO: Final = "test_the_demo_proves_its_point"
PROGRAM: Final = ("hook", "charts")
"""What the demo also shows: the README promises its result, and these can break it."""
SOURCES: Final = ("devcluster", "tests/simulator")
FORCE: Final = "SIMULATOR"
"""Set this environment variable to run the tests in any case, as every night."""


@cache
def _why_skip(*more: str) -> str:
    """Return why tests of the simulator, and of more sources, need not run, or nothing where they run."""
    # On a checkout of the upstream branch itself, as after a push to it, the last commit counts.
    base = _git("merge-base", "HEAD", "origin/main")
    if base == _git("rev-parse", "HEAD"):
        base = _git("rev-parse", "--quiet", "--verify", "HEAD~1")
    if os.environ.get(FORCE) or not base:
        return ""
    sources = (*SOURCES, *more)
    new = ("ls-files", "--others", "--exclude-standard")
    if any(_git(*listed, "--", *sources) for listed in (("diff", "--name-only", base), new)):
        return ""
    return f"no change in {', '.join(sources)} since {base[:12]}; {FORCE}=1 runs it"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the simulator's tests where it did not change, and the demo where the program did not either."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name not in ALWAYS:
            more = PROGRAM if item.name.startswith(DEMO) else ()
            item.add_marker(pytest.mark.skipif(bool(reason := _why_skip(*more)), reason=reason))
