"""The performance page: nothing in it but what the figures say, and the README has the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.bench import tables
from devcluster.bench.computed import Times
from devcluster.bench.cost import NAMES
from devcluster.bench.page import DATA, MARKS, PAGE, PICTURE, README, Files
from devcluster.bench.peers import LABELS, NOTHING, ORIGINAL, OURS, PODS
from devcluster.bench.plots import PLOTS
from devcluster.bench.results import Result

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = {"cores": 4, "memory_gib": 16, "system": "Linux", "python": "3.11.9"}
LOST = {OURS: 100.0, ORIGINAL.name: 9000.0, LABELS.name: 12345.0, PODS.name: 700.0, NOTHING.name: 12000.0}
SERVER = {"cpu_seconds": 1.5, "bytes": 3 * 2**20, "requests": 7, "requests_by_verb": {"GET": 5, "LIST": 2}}


def entry(name: str, lost: float) -> dict[str, Any]:
    """Spell one way's account."""
    times = {"lost_node_seconds": lost, "lost_a_node_median": lost / 100, "lost_a_node_most": lost / 50}
    bad = name in (ORIGINAL.name, NOTHING.name)
    counts = {
        "stale_left": 77 if bad else 0,
        "restarts": 100,
        "early": 0,
        "needless": 33 if name == ORIGINAL.name else 0,
    }
    server = {} if name == NOTHING.name else {"api_server": SERVER}
    return {"name": name, "exit_code": 0, "seconds": 321.0, **times, **counts, **server}


def result(name: str, measure: str, parallel: int = 1) -> Result:
    """Spell the figures of a plot."""
    reaction = {"deletions": 100, **{f"{key}_seconds": 0.25 for key in ("median", "p90", "p99", "most")}}
    figures = {"upgrade_seconds": 300.0, "entries": [entry(*one) for one in LOST.items()], "reaction": reaction}
    given = {"nodes": 100, "parallel": parallel, "requeue": 1.0, "install": 2.0, "unload": 0.5, "gap": 1.0}
    return Result(name, measure, f"make bench BENCH={name}", 400, given, figures, MACHINE, "2026-11-21T20:00:00+00:00")


def checkout(root: Path) -> Files:
    """Make a checkout with a README that has a place for the table, and figures."""
    (root / "docs").mkdir()
    (root / README).write_text(f"before\n{MARKS[0]}old\n{MARKS[1]}after\n", encoding="utf-8")
    for one in (
        result(tables.HEADLINE, "lost"),
        result("lost-100-10", "lost", 10),
        result("reaction", "reaction", 50),
        result("api-server", "api-server", 10),
    ):
        one.write(root / "build")
    plain = {"wall_seconds": 3.5, "peak_bytes": 5 * 2**20, "requests_by_verb": {"GET": 2}, "image_pull_bytes": None}
    Result("no-op-9", "no-op", "make bench BENCH=no-op-9", 5, {"nodes": 9}, plain, MACHINE).write(root / "build")
    found = Files(root)
    found.take(root / "build")
    return found


def test_the_page_the_picture_and_the_readme_are_what_the_figures_make_of_them() -> None:
    """Those in this checkout: run `make docs` after `--take`."""
    files = Files()
    assert [] == files.outdated()
    wanted = {*(name for name in PLOTS if name.startswith("lost")), "reaction", "api-server", *NAMES}
    assert wanted <= {one.name for one in files.results()}


def test_a_change_of_a_figure_or_of_a_file_is_noticed(tmp_path: Path) -> None:
    """Each file by itself."""
    files = checkout(tmp_path)
    assert [PAGE, PICTURE, README] == files.outdated()
    files.write()
    assert [] == files.outdated()
    for name in (PAGE, PICTURE, README):
        changed = (tmp_path / name).read_text(encoding="utf-8").replace("100", "99")
        (tmp_path / name).write_text(changed, encoding="utf-8")
        assert [name] == files.outdated()
        files.write()
    data = (tmp_path / DATA).read_text(encoding="utf-8")
    (tmp_path / DATA).write_text(data.replace("12345.0", "12346.0"), encoding="utf-8")
    assert {PAGE, README} <= set(files.outdated())


def test_every_measure_has_its_figures_and_its_command(tmp_path: Path) -> None:
    """What each way lost and how many times ours, what it left, reactions, costs."""
    files = checkout(tmp_path)
    page = files.rendered()[PAGE]
    times = tables.TIMES
    for text in (
        f"| 100 nodes, one by one | 100 | 9,000 (90 {times}) | 12,345 (123 {times}) | 700 (7 {times})",
        "| 0; 0; 0 | 77; 0; 33 |",
        f"| 500 nodes, one by one | 1,000 min | 12,500 | 37,500 (3 {times}) | 15,007,500 (1,201 {times}) |",
        "| 100 | 50 | 100 | 0.25 s | 0.25 s | 0.25 s | 0.25 s | `make bench BENCH=reaction` |",
        "| 321 s | 1.5 s | 3.0 MiB | 5 GET, 2 LIST |",
        "The goal of 1 s is met by the median, p90, p99, the slowest.",
        "Not measured in this run: 8 nodes, one by one (`make bench BENCH=lost-8-1`)",
        "| 9 | 3.50 s | 5.0 MiB | 2 GET | not measured | `make bench BENCH=no-op-9` |",
    ):
        assert text in page
    commands = {one.command for one in files.results()}
    assert commands == {command for command in commands if f"`{command}`" in page}
    # The README has the headline alone, between its marks.
    shown = files.rendered()[README]
    assert shown.startswith(f"before\n{MARKS[0]}| ")
    assert shown.endswith(f"|\n{MARKS[1]}after\n")
    assert f"| 9,000 | 90 {times} | 77 | 33 |" in shown


def test_what_waiting_for_the_last_node_costs() -> None:
    """Each group waits for those after it, then for the last label: the square. An immediate restart costs its own."""
    for name, times, at_the_end in (
        ("serial", Times(3, 1, turn=10, lag=4, own=1), 20 + 10 + 0 + 3 * 5),
        ("two and one", Times(3, 2, turn=10, lag=4, own=1), 10 + 10 + 0 + 3 * 5),
        ("all at once", Times(3, 9, turn=10, lag=4, own=1), 3 * 5),
    ):
        found = (times.served_at_the_end, times.served_by_label, times.served_at_once)
        assert found == (at_the_end, 15, 3), name
