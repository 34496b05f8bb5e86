"""The benchmark's figures: rows of a file, and tables of the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.bench import figures
from devcluster.bench.tables import PAGES, PLACE, rendered, table


def test_new_figures_replace_those_of_their_measurement(tmp_path: Path) -> None:
    """Figures of other measurements stay in the file, and each table names what was measured when."""
    file = tmp_path / "figures" / "all.csv"
    for measurement, found in (
        ("no-op-5000", {"ours": {"CPU (s)": 5.25, "requests": 4.0}}),
        ("upgrade-9", {"ours": {"stale": 1.5}, "theirs": {"stale": 27831.4}}),
        ("no-op-5000", {"ours": {"CPU (s)": 4.5}}),
    ):
        figures.write(file, figures.rows(measurement, found))
    written = figures.read(file)
    assert [row.value for row in written] == ["1.5", "27831", "4.5"]
    *lines, _, source = table(written, ["upgrade-9"])
    assert lines == ["|  | stale |", "|---|---|", "| ours | 1.5 |", "| theirs | 27,831 |"]
    assert source.startswith(f"- `make bench BENCH=upgrade-9`, {written[0].date}, commit ")
    assert "| no-op-5000 | 4.5 |" in table(written, ["no-op-5000", "no-op-9"])[2:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_the_pages_have_the_published_figures(page: Path) -> None:
    """Each table is what the CSV file makes of it; `make docs` writes them."""
    text = page.read_text(encoding="utf-8")
    assert PLACE.search(text)
    assert rendered(text) == text
