"""Whether the simulator's tests run: where it changed, where that cannot be known, and where you ask for them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devcluster.layout import CHECKOUT

SOURCES: Final = ("devcluster", "tests/simulator")
UPSTREAM: Final = "origin/main"
FORCE: Final = "SIMULATOR"
"""Set this environment variable to run the tests in any case, as every night."""


def why_skip(checkout: Path = CHECKOUT, environment: Mapping[str, str] = os.environ) -> str:
    """Return why the simulator's tests need not run, or nothing where they run."""
    # On a checkout of the upstream branch itself, as after a push to it, the last commit counts.
    base = _git(checkout, "merge-base", "HEAD", UPSTREAM)
    if base == _git(checkout, "rev-parse", "HEAD"):
        base = _git(checkout, "rev-parse", "--quiet", "--verify", "HEAD~1")
    if environment.get(FORCE) or not base:
        return ""
    changed = _git(checkout, "diff", "--name-only", base, "--", *SOURCES)
    if changed or _git(checkout, "ls-files", "--others", "--exclude-standard", "--", *SOURCES):
        return ""
    return f"no change in {' or '.join(SOURCES)} since {base[:12]}; {FORCE}=1 runs it"


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
