"""The performance page: nothing in it but what the figures say, and the README has the same."""

from __future__ import annotations

from devcluster.bench import scale, tables
from devcluster.bench.cost import NAMES
from devcluster.bench.goals import GOALS
from devcluster.bench.page import PAGE, README, Files
from devcluster.bench.peers import OURS
from devcluster.bench.plots import PLOTS
from devcluster.bench.results import Result


def test_the_documents_are_what_the_figures_make_of_them() -> None:
    """Those in this checkout: run `make docs` after `--take`. Each figure stands with the name of its measurement."""
    files = Files()
    assert [] == files.outdated()
    results = files.results()
    page, readme = (files.rendered()[name] for name in (PAGE, README))
    assert [] == [result.name for result in results if f"`{result.name}`" not in page if result.given]
    # What is not measured yet is named, too.
    assert [] == [name for name in (*PLOTS, *NAMES) if name not in page]
    (headline,) = (result for result in results if result.name == tables.HEADLINE)
    assert f"{tables.entries(headline)[OURS]['stale_node_seconds']:,.0f}" in readme


def test_a_goal_is_met_missed_or_not_measured() -> None:
    """By the figures of one measure; a ratio needs both of its figures."""
    for figures, cells in (
        ({"decision-5000": {"incremental_ms": 12.34}}, ("12.3 ms", "at most 15 ms", "met")),
        ({"decision-5000": {"incremental_ms": 25.1}}, ("25.1 ms", "at most 15 ms", "**missed**")),
        ({}, ("not measured yet", "at most 15 ms", "")),
    ):
        assert GOALS[0].row(figures)[1:4] == cells
    (image,) = (goal for goal in GOALS if goal.words == "image to pull")
    assert image.row({"start-up": {"image_pull_bytes": None}})[1] == "not measured yet", "no image could be built"
    (linear,) = (goal for goal in GOALS if goal.name == "no-op-15000" and goal.goal == 1.1)
    runs = {"no-op-5000": {"cpu_seconds": 4.0}, "no-op-15000": {"cpu_seconds": 12.0}}
    assert linear.row({**runs, "no-op-5000": {"cpu_seconds": 4.0, "source": "older"}})[1] == "not measured yet"
    assert linear.row(runs)[1:4] == ("1 \N{MULTIPLICATION SIGN}", "at most 1.1 \N{MULTIPLICATION SIGN}", "met")
    costs = {OURS: 0.1, "labels-pods": 5, "labels": 4, "shell-job": 0.5}
    entries = [{"name": name, "cpu_seconds_a_minute": cost} for name, cost in costs.items()]
    two_hours = {"two-hours-100": {"start": {"cpu_seconds": 12}, "entries": entries}}
    share, usual = (goal for goal in GOALS if "CPU of the API server in an upgrade of 2 hours" in goal.words)
    # 12 s once and 120 times 0.1 s, of 120 times 4 s and 0.5 s.
    assert (share.value(two_hours), usual.value(two_hours)) == (24 / 480, 24 / 60)


def test_larger_fleets_are_computed_from_the_measured_ones() -> None:
    """A line through the runs with nothing to do; per change, what came in a minute by its changes."""
    runs = [
        Result(f"no-op-{nodes}", "no-op", "", 1, {"nodes": nodes}, {"peak_bytes": 30 + 2 * nodes}) for nodes in (1, 5)
    ]
    assert [scale.fitted(runs, "peak_bytes").of(nodes) for nodes in (5, 100)] == [40, 230]
    figures = {"changes_a_second": 2, "received_bytes": 2400, "cpu_seconds_a_minute": 6}
    busy = Result("waiting-9", "waiting", "", 1, {"nodes": 9, "minutes": 2}, figures)
    assert scale.per_change(busy) == (10, 0.05)
