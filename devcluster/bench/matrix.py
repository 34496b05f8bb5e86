"""Everything that the page shows, one measure after the other; those that ask little of a machine go side by side."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from devcluster.bench.cost import DECISION, FOLLOWING, NO_OP, START_UP, WAITING
from devcluster.bench.results import EVERYTHING, Result
from devcluster.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PHASES: Final = (
    (
        ("lost-500-1",),
        ("lost-8-1", "lost-8-10", "lost-100-1", "lost-100-10", "api-server"),
        (WAITING, FOLLOWING),
    ),
    (("lost-500-10", *NO_OP, START_UP, DECISION, "reaction"),),
)
"""Lanes of one phase go side by side. Five hundred nodes, one after the other, keep a core busy for half an hour; what
is measured to the millisecond has the machine for itself, and so has what would starve the others."""


def run(out: Path) -> int:
    """Run all; the exit code shows whether each succeeded. A failure does not affect the others."""
    began = time.monotonic()
    failed: list[str] = []
    for lanes in PHASES:
        with ThreadPoolExecutor(len(lanes)) as pool:
            failed += [name for lane in pool.map(lambda lane: _lane(lane, out), lanes) for name in lane]
    everything = sum(len(lane) for lanes in PHASES for lane in lanes)
    seconds = round(time.monotonic() - began)
    Result(EVERYTHING, EVERYTHING, "make bench", seconds, {}, {"failed": failed}).write(out)
    _say(f"{everything - len(failed)} of {everything} measures in {seconds / 60:.0f} minutes, in {out}")
    for name in failed:
        _say(f"failed: {name}")
    return 1 if failed else 0


def _lane(names: Sequence[str], out: Path) -> list[str]:
    """Play plots one after the other; gives those that failed."""
    return [name for name in names if _play(name, out) != 0]


def _play(name: str, out: Path) -> int:
    """Play one in a process of its own, with the command that the page names."""
    command = [sys.executable, "-m", "devcluster.bench", name, "--out", str(out.resolve())]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False)
    _say(f"{name}\n{done.stdout}")
    return done.returncode


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - these are the command's results
