"""The benchmark: its accounts by hand-made journals, and one comparison on a small fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from devcluster.bench.ledger import Entry, Ran, account, percentile, table
from devcluster.bench.peers import PEERS
from devcluster.layout import CHECKOUT
from devcluster.patience import TooSlowError
from devcluster.truth import Truth
from tests.simulation.test_truth import MIGRATION, UNLOADED, deleted, loaded, started

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = Ran("ours", "dra/plugin", 0, 12.0)
STALE = [*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2)]


def entry(lines: list[str], since: float = 15, until: float = 100) -> Entry:
    """Draw up an account of a journal."""
    return account(Truth.of(lines), PLUGIN, since, until)


def test_a_node_is_lost_until_its_plugin_runs_on_the_new_driver() -> None:
    """From the load of the new one at 30 to the start of the next plugin at 37, its absence included."""
    found = entry(MIGRATION)
    assert (7.0, 0, 1, 0, 0) == (found.lost_node_seconds, found.stale_left, found.restarts, found.early, found.needless)


def test_reaction_is_from_ready_to_the_deletion() -> None:
    """Ready at 31, deleted at 34."""
    assert (3.0, 3.0) == ((found := entry(MIGRATION)).reaction_median, found.reaction_p99)


def test_what_is_left_stale_is_lost_to_the_end_of_the_account() -> None:
    """The same end for every way."""
    found = entry(STALE)
    assert (70.0, 1, None) == (found.lost_node_seconds, found.stale_left, found.reaction_median)


def test_only_what_is_lost_within_the_account_counts() -> None:
    """What was stale before the upgrade is not its doing."""
    assert 60.0 == entry(STALE, since=40).lost_node_seconds
    assert 0.0 == entry(STALE, since=15, until=20).lost_node_seconds


def test_restarts_that_did_no_good_are_told() -> None:
    """Too early, and of a plugin that was fresh."""
    found = entry([*loaded(10, 1), *started(12, "a", 1), *deleted(34, "a", stale=False, ready=False)])
    assert (1, 1, 1, None) == (found.restarts, found.early, found.needless, found.reaction_median)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([3], 0.99, 3), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.99, 99)],
)
def test_percentiles_are_values_that_were_measured(values: list[float], share: float, expected: float | None) -> None:
    """By nearest rank."""
    assert expected == percentile(values, share)


def test_the_table_compares_with_the_first() -> None:
    """How many times as much each loses."""
    rows = table([entry(MIGRATION), entry(STALE)], nodes=1)
    assert [" 1 ", " 10 "] == [row.split("|")[5] for row in rows[2:]]


@pytest.mark.parametrize("peer", PEERS, ids=[peer.name for peer in PEERS])
def test_a_script_is_one_that_a_shell_understands(peer: object) -> None:
    """Before anybody waits for a fleet."""
    script = getattr(peer, "script", "")
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False, capture_output=True).returncode == 0


@pytest.mark.e2e
def test_all_ways_side_by_side(tmp_path: Path) -> None:
    """Ours and both label scripts leave nothing stale, doing nothing leaves all; ours restarts nothing in vain."""
    figures = tmp_path / "figures.jsonl"
    try:
        done = subprocess.run(
            [sys.executable, "-m", "devcluster.bench", "--nodes=2", "--requeue=4", "--install=1", f"--json={figures}"],
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TooSlowError(f"the comparison did not end: {error.stderr!r}") from error
    if "TooSlowError" in done.stderr:
        raise TooSlowError(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = {one["name"]: one for one in json.loads(figures.read_text())["entries"]}
    ours = entries["gpu-operator-post"]
    assert (0, 0, 2, 0, 0) == tuple(ours[key] for key in ("exit_code", "stale_left", "restarts", "early", "needless"))
    assert [0, 0, 2] == [entries[name]["stale_left"] for name in ("labels", "labels-pods", "nothing")]
    assert entries["nothing"]["lost_node_seconds"] > ours["lost_node_seconds"]
