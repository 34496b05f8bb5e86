"""Everything that the page shows, one measure after the other; serial upgrades run side by side."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from devcluster.bench.cost import DECISION, START_UP
from devcluster.bench.results import EVERYTHING, Result
from devcluster.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Lane = tuple[tuple[str, ...], ...]
"""Commands, one after the other. The measures of one command share a fleet."""

PHASES: Final[tuple[tuple[Lane, ...], ...]] = (
    (
        (("upgrade-100-1",), ("upgrade-8-1",), ("upgrade-8-10",)),
        (("upgrade-100-1-v26.7",), ("upgrade-100-10",)),
    ),
    (
        (
            ("api-server",),
            ("upgrade-500-10",),
            ("reaction",),
            ("no-op-100", "two-hours-100"),
            ("no-op-1000",),
            (
                "no-op-5000",
                "waiting-5000",
                "controller-5000",
                "reaction-5000",
                "reaction-controller-5000",
                "affected-5000",
            ),
            ("no-op-15000", "affected-15000"),
            (DECISION,),
            (START_UP,),
        ),
    ),
)
"""Lanes of one phase run side by side. A serial upgrade mostly waits, so that two of them share two cores. Whatever is
measured to the millisecond, and whatever would delay the others, has the machine for itself."""


def run(out: Path) -> int:
    """Run all; the exit code shows whether each succeeded. A failure does not affect the others."""
    began = time.monotonic()
    failed: list[str] = []
    for lanes in PHASES:
        with ThreadPoolExecutor(len(lanes)) as pool:
            failed += [name for lane in pool.map(lambda lane: _lane(lane, out), lanes) for name in lane]
    everything = sum(len(names) for lanes in PHASES for lane in lanes for names in lane)
    seconds = round(time.monotonic() - began)
    Result(EVERYTHING, EVERYTHING, "make bench", seconds, {}, {"failed": failed}).write(out)
    _say(f"{everything - len(failed)} of {everything} measures in {seconds / 60:.0f} minutes, in {out}")
    for name in failed:
        _say(f"failed: {name}")
    return 1 if failed else 0


def _lane(lane: Lane, out: Path) -> list[str]:
    """Run the commands of a lane; return the measures of those that failed."""
    return [name for names in lane if _play(names, out) != 0 for name in names]


def _play(names: Sequence[str], out: Path) -> int:
    """Run a command in a process of its own."""
    module = "devcluster.bench" if len(names) == 1 else "devcluster.bench.cost"
    command = [sys.executable, "-m", module, *names, "--out", str(out.resolve())]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False)
    _say(f"{' '.join(names)}\n{done.stdout}")
    return done.returncode


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - these are the command's results
