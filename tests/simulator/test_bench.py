"""The benchmark: its accounts by hand-made journals, and one comparison on a small fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from devcluster.bench.ledger import Entry, Ran, account, over, percentile, table
from devcluster.bench.peers import PEERS
from devcluster.bench.reaction import reactions
from devcluster.bench.usage import Usage
from devcluster.layout import CHECKOUT
from devcluster.patience import TooSlowError
from devcluster.truth import Truth
from tests.simulator.test_truth import MIGRATION, UNLOADED, deleted, loaded, started

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


def test_an_upgrade_is_over_when_the_last_plugin_is_fresh_that_anybody_refreshed() -> None:
    """At 37, although the driver was ready at 31; where nobody refreshes anything, when the driver was ready."""
    assert [37.0, 31.0] == [over(Truth.of(lines), ["plugin"], since=15) for lines in (MIGRATION, STALE)]


def granted(pod: str, second: float, **other: object) -> dict[str, object]:
    """Spell the audit event of a pod's deletion."""
    received = datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    event = {"verb": "delete", "objectRef": {"resource": "pods", "namespace": "dra", "name": pod}}
    return {**event, "responseStatus": {"code": 200}, "requestReceivedTimestamp": received, **other}


def test_a_reaction_ends_when_the_api_server_has_the_deletion() -> None:
    """At 33.25, although the node's kubelet saw it at 34; what was refused or asked of others is no deletion."""
    audit = [
        granted("p", 32, responseStatus={"code": 409}),
        granted("p", 32.5, verb="get"),
        granted("p", 33.25),
    ]
    found = reactions(Truth.of(MIGRATION), audit, PLUGIN.daemonset, since=15)
    assert {"deletions": 1, "median_seconds": 2.25, "p90_seconds": 2.25, "p99_seconds": 2.25, "most_seconds": 2.25} == (
        found.as_json()
    )


def test_a_reaction_begins_when_the_api_server_is_told() -> None:
    """At 31.5 that the driver's pod is Ready, which is so since 31; what it was told before and after is not it."""
    told = {"resource": "pods", "subresource": "status", "namespace": "op", "name": "d"}
    audit = [*(granted("d", second, verb="patch", objectRef=told) for second in (33, 31.5, 30)), granted("p", 33.25)]
    assert (1.75,) == reactions(Truth.of(MIGRATION), audit, PLUGIN.daemonset, since=15).seconds


METRICS = """\
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
process_cpu_seconds_total 12.5
apiserver_request_total{code="200",resource="pods",verb="LIST",version="v1"} 3
apiserver_request_total{code="200",resource="pods",verb="WATCH",version="v1"} 2
apiserver_request_total{code="404",resource="pods",verb="LIST",version="v1"} 1
apiserver_selfrequest_total{resource="pods",subresource="",verb="WATCH"} 2
apiserver_response_sizes_sum{resource="pods",verb="LIST"} 1.5e+06
apiserver_response_sizes_sum{resource="pods",verb="WATCH"} 4e+06
apiserver_watch_events_sizes_sum{group="",resource="pods",version="v1"} 500
apiserver_response_sizes_count{resource="pods",verb="LIST"} 4
"""


def test_what_an_api_server_spent_is_read_from_its_metrics() -> None:
    """A watch's events count once, and what it asked itself does not."""
    found = Usage.of(METRICS)
    assert (12.5, {"pods": 1500500}, {"LIST": 4, "WATCH": 0}) == (found.cpu_seconds, found.bytes, found.requests)


def test_of_what_was_spent_only_what_came_since_counts() -> None:
    """By what was there before, which may know fewer kinds."""
    spent = Usage.of(METRICS).minus(Usage.of("process_cpu_seconds_total 12\n"))
    assert (0.5, 1500500, {"LIST": 4}) == (
        spent.cpu_seconds,
        spent.as_json()["bytes"],
        spent.as_json()["requests_by_verb"],
    )


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
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "devcluster.bench", "--nodes=2", "--requeue=4", "--install=1", "--servers"),
                f"--out={tmp_path}",
            ],
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
    figures = json.loads((tmp_path / "own.json").read_text())["figures"]
    entries = {one["name"]: one for one in figures["entries"]}
    ours = entries["gpu-operator-post"]
    assert (0, 0, 2, 0, 0) == tuple(ours[key] for key in ("exit_code", "stale_left", "restarts", "early", "needless"))
    assert [0, 0, 2] == [entries[name]["stale_left"] for name in ("labels", "labels-pods", "nothing")]
    assert entries["nothing"]["lost_node_seconds"] > ours["lost_node_seconds"]
    assert figures["reaction"]["deletions"] == 2
    assert ours["api_server"]["requests_by_verb"]["DELETE"] == 2
    assert "api_server" not in entries["nothing"]
