"""The performance page: nothing in it but what the figures say, and the README has the same."""

from __future__ import annotations

from devcluster.bench import tables
from devcluster.bench.computed import Times
from devcluster.bench.cost import NAMES
from devcluster.bench.page import PAGE, README, Files
from devcluster.bench.peers import OURS
from devcluster.bench.plots import PLOTS


def test_the_page_the_picture_and_the_readme_are_what_the_figures_make_of_them() -> None:
    """Those in this checkout: run `make docs` after `--take`. Each figure stands with the command that measures it."""
    files = Files()
    assert [] == files.outdated()
    results = files.results()
    wanted = {*(name for name in PLOTS if name.startswith("lost")), "reaction", "api-server", *NAMES}
    assert wanted <= {one.name for one in results}
    page, readme = (files.rendered()[name] for name in (PAGE, README))
    assert [] == [one.command for one in results if f"`{one.command}`" not in page]
    (headline,) = (one for one in results if one.name == tables.HEADLINE)
    (ours,) = (one for one in headline.figures["entries"] if one["name"] == OURS)
    assert f"{ours['lost_node_seconds']:,.0f}" in readme


def test_what_waiting_for_the_last_node_costs() -> None:
    """Each group waits for those after it, then for the last label: the square. An immediate restart costs its own."""
    for name, times, at_the_end in (
        ("serial", Times(3, 1, turn=10, lag=4, own=1), 20 + 10 + 0 + 3 * 5),
        ("two and one", Times(3, 2, turn=10, lag=4, own=1), 10 + 10 + 0 + 3 * 5),
        ("all at once", Times(3, 9, turn=10, lag=4, own=1), 3 * 5),
    ):
        found = (times.served_at_the_end, times.served_by_label, times.served_at_once)
        assert found == (at_the_end, 15, 3), name
