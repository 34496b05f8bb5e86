"""Run one of the simulator's programs as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from devcluster.layout import CHECKOUT
from devcluster.patience import TooSlowError

if TYPE_CHECKING:
    from pathlib import Path


def module(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a module to its end."""
    command = [sys.executable, "-m", name, *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    try:
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TooSlowError(f"{name} did not end: {error.stderr!r}") from error
