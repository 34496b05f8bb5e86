"""The benchmark and the demo: accounts by hand-made journals, and one comparison each on a small fleet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devcluster.bench.burst import times
from devcluster.bench.cost import NAMES
from devcluster.bench.ledger import Entry, Ran, Split, account, over, percentile, table
from devcluster.bench.matrix import PHASES
from devcluster.bench.plots import PLOTS
from devcluster.bench.reaction import reactions
from devcluster.bench.usage import Usage
from devcluster.layout import CHECKOUT
from devcluster.truth import Truth
from tests.simulator.test_truth import MIGRATION, STALE, deleted, loaded, started


def module(name: str, *arguments: str, cwd: Path, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    """Run a module to its end."""
    command = [sys.executable, "-m", name, *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


PLUGIN = Ran("ours", "dra/plugin", 0, 12.0)


def entry(lines: list[str], since: float = 15, until: float = 100) -> Entry:
    """Draw up an account of a journal."""
    return account(Truth.of(lines), PLUGIN, since, until)


def test_an_account_of_a_journal() -> None:
    """A plugin is stale from the load of the new driver to the start of the next plugin, or to the account's end."""
    useless = [*loaded(10, 1), *started(12, "a", 1), *deleted(34, "a", stale=False, ready=False)]
    for name, lines, expected in (
        # Loaded at 30, ready at 31, deleted at 34, started at 37.
        ("refreshed", MIGRATION, (7.0, 0, 1, 0, 0, 3.0, 3.0)),
        ("left stale", STALE, (70.0, 1, 0, 0, 0, None, None)),
        ("too early, and fresh", useless, (0, 0, 1, 1, 1, None, None)),
    ):
        one = entry(lines)
        counts = (one.stale_left, one.restarts, one.early, one.needless)
        assert (one.stale_node_seconds, *counts, one.reaction_median, one.reaction_p99) == expected, name
    # Of the 7 seconds one is the driver's own, 3 are the reaction, and 3 the plugin's start.
    parts = {"driver_ready": 1.0, "reaction": 3.0, "plugin_start": 3.0}
    assert entry(MIGRATION).as_json()["split"] == parts
    assert entry(STALE).split == Split()
    assert entry(STALE, since=40).stale_node_seconds == 60.0
    assert entry(STALE, since=15, until=20).stale_node_seconds == 0.0
    # An upgrade is over when the last plugin is fresh that was refreshed, or when the driver was ready.
    assert [over(Truth.of(lines), ["plugin"], since=15) for lines in (MIGRATION, STALE)] == [37.0, 31.0]
    # Percentiles are values that were measured, by nearest rank.
    for values, share, wanted in (([], 0.5, None), ([3], 0.99, 3), ([1, 2, 3, 4], 0.5, 2), (range(1, 101), 0.99, 99)):
        assert percentile(values, share) == wanted, (values, share)
    rows = table([entry(MIGRATION), entry(STALE)], nodes=1)
    assert [row.split("|")[5] for row in rows[2:]] == [" 1 ", " 10 "]


def granted(pod: str, second: float, **other: object) -> dict[str, object]:
    """Spell the audit event of a pod's deletion."""
    received = datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    event = {"verb": "delete", "objectRef": {"resource": "pods", "namespace": "dra", "name": pod}}
    return {**event, "responseStatus": {"code": 200}, "requestReceivedTimestamp": received, **other}


def test_a_reaction_is_from_ready_to_deletion_as_the_api_server_saw_them() -> None:
    """Not as the kubelet saw them; refused deletions, other requests and other reports do not count."""
    deletion = granted("p", 33.25)
    audit = [granted("p", 32, responseStatus={"code": 409}), granted("p", 32.5, verb="get"), deletion]
    found = reactions(Truth.of(MIGRATION), audit, PLUGIN.daemonset, since=15).as_json()
    assert found == {"deletions": 1, **{f"{key}_seconds": 2.25 for key in ("median", "p90", "p99", "most")}}
    status = {"resource": "pods", "subresource": "status", "namespace": "op", "name": "d"}
    ready = [granted("d", second, verb="patch", objectRef=status) for second in (33, 31.5, 30)]
    assert reactions(Truth.of(MIGRATION), [*ready, deletion], PLUGIN.daemonset, since=15).seconds == (1.75,)


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
    """A watch's events count once, its own requests do not; of all that, only what came since."""
    found = Usage.of(METRICS)
    assert (found.cpu_seconds, found.bytes, found.requests) == (12.5, {"pods": 1500500}, {"LIST": 4, "WATCH": 0})
    spent = found.minus(Usage.of("process_cpu_seconds_total 12\n"))
    assert spent.cpu_seconds == 0.5
    assert {"bytes": 1500500, "requests_by_verb": {"LIST": 4}}.items() <= spent.as_json().items()


def test_a_burst_is_summed_up_from_its_first_write() -> None:
    """The first fifty, the median, p99 and the last; of fewer than fifty, the last of them stands for the first."""
    found = times([float(second) for second in range(500, 0, -1)])
    seconds = {"first_50_seconds": 50, "median_seconds": 250, "p99_seconds": 495, "last_seconds": 500}
    assert found == {"deletions": 500, **seconds}
    assert times([3.0, 1.0])["first_50_seconds"] == 3.0


def test_everything_is_measured_once() -> None:
    """`make bench` measures each part of the page."""
    measured = [name for lanes in PHASES for lane in lanes for names in lane for name in names]
    assert sorted(measured) == sorted({*PLOTS, *NAMES})


@pytest.mark.e2e
def test_all_approaches_side_by_side(tmp_path: Path) -> None:
    """Ours, eviction and both label scripts leave nothing stale, doing nothing leaves all; ours restarts no fresh."""
    plot = ("--nodes=2", "--requeue=4", "--install=1", "--servers")
    done = module("devcluster.bench", *plot, f"--out={tmp_path}", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "own.json").read_text())["figures"]
    entries = {one["name"]: one for one in figures["entries"]}
    ours = entries["gpu-operator-post"]
    assert tuple(ours[key] for key in ("exit_code", "stale_left", "restarts", "early", "needless")) == (0, 0, 2, 0, 0)
    left = [entries[name]["stale_left"] for name in ("eviction-label", "labels", "labels-pods", "nothing")]
    assert left == [0, 0, 0, 2]
    assert [entries[name]["exit_code"] for name in ("labels", "labels-pods", "shell-job")] == [0, 0, 0]
    assert entries["eviction-label"]["restarts"] == 0
    assert entries["nothing"]["stale_node_seconds"] > ours["stale_node_seconds"]
    assert figures["reaction"]["deletions"] == 2
    assert ours["api_server"]["requests_by_verb"]["DELETE"] == 2
    assert "api_server" not in entries["nothing"]


@pytest.mark.e2e
@pytest.mark.parametrize(("nodes", "mode"), [(4, ()), (2, ("--mode=compute-domains",))])
def test_the_demo_proves_its_point(tmp_path: Path, nodes: int, mode: tuple[str, ...]) -> None:
    """Without a terminal: plain lines, a picture, and a last line with every figure from the ground truth."""
    done = module("devcluster.demo", f"--nodes={nodes}", *mode, cwd=tmp_path)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout + done.stderr
    told = f"demo: ok nodes={nodes} stale_after=0 early_restarts=0 needless_restarts=0 restarts={nodes} shell_stale"
    assert last.startswith(told)
    assert (tmp_path / "demo-timeline.svg").read_text().startswith("<svg")
