"""Put the tables of docs/performance.csv into the pages: ``python -m devcluster.bench.tables [--check]``.

A page has each between ``<!-- figures: MEASUREMENT ... -->`` and ``<!-- /figures -->``.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from devcluster.bench import figures
from devcluster.boot.layout import CHECKOUT

PUBLISHED: Final = CHECKOUT / "docs/performance.csv"
PAGES: Final = tuple(CHECKOUT / name for name in ("README.md", "docs/performance.md", "docs/alternatives.md"))
PLACE: Final = re.compile(r"(<!-- figures: ([^>]+) -->\n).*?(<!-- /figures -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return a page with the tables of the published figures."""
    published = figures.read(PUBLISHED)

    def filled(place: re.Match[str]) -> str:
        return "\n".join([f"{place[1]}", *figures.table(published, place[2].split()), "", place[3]])

    return PLACE.sub(filled, page)


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
