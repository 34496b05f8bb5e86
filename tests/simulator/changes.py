"""Whether the simulator's tests run: where it changed, where that cannot be known, and where you ask for them."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import Final

from devcluster.layout import CHECKOUT

SOURCES: Final = ("devcluster", "tests/simulator")
UPSTREAM: Final = "origin/main"
FORCE: Final = "SIMULATOR"
"""Set this environment variable to run the tests in any case, as every night."""


@cache
def why_skip(*more: str) -> str:
    """Return why tests of the simulator, and of more sources, need not run, or nothing where they run."""
    # On a checkout of the upstream branch itself, as after a push to it, the last commit counts.
    base = _git("merge-base", "HEAD", UPSTREAM)
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
