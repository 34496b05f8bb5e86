"""Figures as rows of a CSV file.

A row is one figure of one approach: what was measured, on which date, of which commit, on how many cores.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE: Final = Path("build/bench/figures.csv")
"""Where figures are written by default."""
OURS: Final = "gpu-operator-post"
"""What tables call this program."""
MIB: Final = 2**20
LARGE: Final = 100
"""A figure of this size is shown without decimals."""

Found = Mapping[str, Mapping[str, float]]
"""The figures of each approach, by the names that a reader sees; a name carries the unit."""


class Row(NamedTuple):
    """One figure."""

    measurement: str
    """`make bench BENCH=<measurement>` measures it again."""
    approach: str
    figure: str
    value: str
    date: str
    commit: str
    cores: str


def rows(measurement: str, found: Found) -> list[Row]:
    """Return the rows of a measurement that ends now."""
    source = (datetime.now(UTC).date().isoformat(), _commit(), str(len(os.sched_getaffinity(0))))
    return [
        Row(measurement, approach, figure, f"{value:g}" if value < LARGE else f"{value:.0f}", *source)
        for approach, figures in found.items()
        for figure, value in figures.items()
    ]


def _commit() -> str:
    """Return the commit that is measured, marked as dirty if files differ from it; empty outside a repository."""
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def read(file: Path) -> list[Row]:
    """Read a file; one that is missing has no rows."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as source:
        return [Row(**each) for each in csv.DictReader(source)]


def write(file: Path, new: Iterable[Row]) -> None:
    """Put new rows in the place of earlier ones of the same measurement."""
    added = list(new)
    measured = {row.measurement for row in added}
    kept = [row for row in read(file) if row.measurement not in measured]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as target:
        csv.writer(target, lineterminator="\n").writerows([Row._fields, *kept, *added])
