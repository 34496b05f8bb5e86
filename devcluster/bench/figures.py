"""Figures as rows of a CSV file, and as tables in Markdown.

A row is one figure of one approach: what was measured, on which date, of which commit, on how many cores.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE: Final = Path("build/bench/figures.csv")
"""Where figures are written by default."""
OURS: Final = "gpu-operator-post"
"""What tables call this program."""
MIB: Final = 2**20
LARGE: Final = 100
"""A figure of this size is shown without decimals."""

Found = Mapping[str, Mapping[str, float]]
"""The figures of each approach, by the names that a reader sees; a name carries the unit."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    measurement: str
    """`make bench BENCH=<measurement>` measures it again."""
    approach: str
    figure: str
    value: str
    date: str
    commit: str
    cores: str

    @property
    def source(self) -> str:
        """Return what a reader needs to repeat the measurement."""
        command = f"`make bench BENCH={self.measurement}`"
        return f"{command}, {self.date}, commit {self.commit}, {self.cores} cores"


def rows(measurement: str, found: Found) -> list[Row]:
    """Return the rows of a measurement that ends now."""
    date, cores = datetime.now(UTC).date().isoformat(), str(len(os.sched_getaffinity(0)))
    named = commit()
    return [
        Row(measurement, approach, figure, f"{value:g}" if value < LARGE else f"{value:.0f}", date, named, cores)
        for approach, figures in found.items()
        for figure, value in figures.items()
    ]


def commit() -> str:
    """Return the commit that is measured, marked as dirty if files differ from it; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    return done.stdout.strip()


def read(file: Path) -> list[Row]:
    """Read a file; one that is missing has no rows."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as source:
        return [Row(**each) for each in csv.DictReader(source)]


def write(file: Path, new: Sequence[Row]) -> None:
    """Put new rows in the place of earlier ones of the same measurement."""
    measured = {each.measurement for each in new}
    kept = [each for each in read(file) if each.measurement not in measured]
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, [each.name for each in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(each) for each in (*kept, *new))


def table(found: Iterable[Row], measurements: Sequence[str]) -> list[str]:
    """Return a table: a row per approach of one measurement, or per measurement, and a column per figure."""
    wanted = [each for name in measurements for each in found if each.measurement == name]
    approaches = len(measurements) == 1
    columns = list(dict.fromkeys(each.figure for each in wanted))
    lines: dict[str, dict[str, str]] = {}
    for each in wanted:
        lines.setdefault(each.approach if approaches else each.measurement, {})[each.figure] = shown(each.value)
    cells = [(name, *(line.get(column, "") for column in columns)) for name, line in lines.items()]
    sources = list(dict.fromkeys(each.source for each in wanted))
    return [*markdown(("", *columns), cells), "", *(f"- {source}" for source in sources)]


def shown(value: str) -> str:
    """Write a figure with separators of thousands."""
    return f"{float(value):,.0f}" if float(value) >= LARGE else value


def markdown(head: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    """Write a table."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in cells)]
