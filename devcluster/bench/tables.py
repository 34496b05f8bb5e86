"""Put the tables of docs/performance.csv into the pages: ``python -m devcluster.bench.tables [--check]``.

A page has each between ``<!-- figures: MEASUREMENT ... -->`` and ``<!-- /figures -->``.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from devcluster.bench import figures
from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PUBLISHED: Final = CHECKOUT / "docs/performance.csv"
PAGES: Final = tuple(CHECKOUT / name for name in ("README.md", "docs/performance.md", "docs/alternatives.md"))
PLACE: Final = re.compile(r"(<!-- figures: ([^>]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)


def table(found: Iterable[figures.Row], measurements: Sequence[str]) -> list[str]:
    """Return a table: a row per approach of one measurement, or per measurement, and a column per figure."""
    wanted = [row for name in measurements for row in found if row.measurement == name]
    columns = list(dict.fromkeys(row.figure for row in wanted))
    lines: dict[str, dict[str, str]] = {}
    for row in wanted:
        lines.setdefault(row.approach if len(measurements) == 1 else row.measurement, {})[row.figure] = row.value
    sources = dict.fromkeys(
        f"- `make bench BENCH={row.measurement}`, {row.date}, commit {row.commit}, {row.cores} cores" for row in wanted
    )
    return [
        _line(("", *columns)),
        "|" + "---|" * (len(columns) + 1),
        *(_line((name, *(shown(values[column]) for column in columns))) for name, values in lines.items()),
        "",
        *sources,
    ]


def shown(value: str) -> str:
    """Write a figure with separators of thousands."""
    return f"{float(value):,.0f}" if float(value) >= figures.LARGE else value


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def rendered(page: str) -> str:
    """Return a page with the tables of the published figures."""
    published = figures.read(PUBLISHED)
    return PLACE.sub(lambda place: "\n".join([place[1], *table(published, place[2].split()), "", place[3]]), page)


def main() -> None:
    """Write the tables, or exit with 1 where a page has others."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if rendered(text) == text:
            continue
        if "--check" in sys.argv[1:]:
            sys.exit(f"{page.name} has not the figures of {PUBLISHED.name}: run `make docs`")
        page.write_text(rendered(text), encoding="utf-8")


if __name__ == "__main__":
    main()
