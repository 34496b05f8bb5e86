"""The benchmark and the demo: accounts by hand-made journals, and one comparison each on a small fleet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from devcluster.bench import exposed, figures
from devcluster.bench.ledger import EARLY, FRESH, LEFT, STALE, account, over
from devcluster.bench.peers import PEERS
from devcluster.bench.reaction import deletions, times
from devcluster.bench.scene import Scene
from devcluster.bench.usage import Usage
from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from devcluster.demo.timeline import CORDONED
from devcluster.truth import Truth
from tests.simulator.test_truth import MIGRATION, deleted, loaded, started
from tests.simulator.test_truth import STALE as LEFT_STALE

PLUGIN: Final = "dra/plugin"
USELESS: Final = [*loaded(10, 1), *started(12, "a", 1), *deleted(34, "a", stale=False, ready=False)]
"""The restart of a fresh plugin, before the driver is ready."""


def module(name: str, *arguments: str, cwd: Path, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    """Run a module to its end."""
    command = [sys.executable, "-m", name, *arguments]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.parametrize(
    ("lines", "since", "until", "expected"),
    [
        # Loaded at 30, ready at 31, deleted at 34, started at 37.
        pytest.param(MIGRATION, 15, 100, (7, 0, 0, 0), id="refreshed"),
        pytest.param(LEFT_STALE, 40, 100, (60, 1, 0, 0), id="left-stale-and-begins-later"),
        pytest.param(USELESS, 15, 100, (0, 0, 1, 1), id="early-and-fresh"),
    ],
)
def test_an_account_of_a_journal(lines: list[str], since: float, until: float, expected: tuple[float, ...]) -> None:
    """A plugin is stale from the load of the new driver to the start of the next plugin, or to the account's end."""
    found = account(Truth.of(lines), PLUGIN, since, until)
    assert tuple(found[figure] for figure in (STALE, LEFT, EARLY, FRESH)) == expected


@pytest.mark.parametrize(("lines", "end"), [(MIGRATION, 37.0), (LEFT_STALE, 31.0)], ids=["refreshed", "left-stale"])
def test_an_upgrade_is_over_when_all_that_was_refreshed_is_fresh(lines: list[str], end: float) -> None:
    """Where nothing is refreshed, it is over when the driver is ready."""
    assert over(Truth.of(lines), ["plugin"], since=15) == end


def audited(second: float, verb: str = "delete", code: int = 200, resource: str = "pods") -> dict[str, object]:
    """Spell an event of the audit log."""
    received = f"1970-01-01T00:00:{second:09.6f}Z"
    return {
        "verb": verb,
        "objectRef": {"resource": resource},
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": received,
    }


def test_only_granted_deletions_of_pods_count() -> None:
    """Each counts at the moment when the API server received it."""
    others = [audited(1, code=409), audited(2, "get"), audited(3, resource="leases")]
    assert deletions([*others, audited(33.25), audited(34)]) == [33.25, 34]


def test_a_burst_is_summed_up_from_its_first_write() -> None:
    """The first fifty, the median, p99 and the last; of fewer than fifty, the last of them stands for the first."""
    found = times([float(second) for second in range(500, 0, -1)])
    assert list(found.values()) == [500, 50, 250, 495, 500]
    assert times([3.0, 1.0])["first 50 (s)"] == 3.0


METRICS: Final = """\
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
    assert Usage.of(METRICS) == Usage(cpu_seconds=12.5, bytes=1500500, requests=4)
    assert Usage.of(METRICS) - Usage(12, 500, 1) == Usage(0.5, 1500000, 3)


@pytest.mark.e2e
def test_all_approaches_side_by_side(tmp_path: Path) -> None:
    """Ours, eviction and the label script leave nothing stale, and ours restarts no fresh plugin."""
    done = module("devcluster.bench", "upgrade-2", "--out=figures.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(row.approach, row.figure): float(row.value) for row in figures.read(tmp_path / "figures.csv")}
    approaches = (figures.OURS, "NVIDIA's eviction label", "best label script")
    assert [found[approach, LEFT] for approach in approaches] == [0, 0, 0]
    assert [found[figures.OURS, figure] for figure in (EARLY, FRESH)] == [0, 0]
    assert found[figures.OURS, STALE] > 0
    # It restarts before the last node's reload, for the policy says *ready* before.
    assert found["shell Job", LEFT] > 0


@pytest.mark.e2e
def test_costs_of_a_small_fleet(tmp_path: Path) -> None:
    """A run that finds nothing to do reads everything; one that finds stale plugins deletes each."""
    done = module("devcluster.bench", "no-op-20", "reaction-20", "--out=figures.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {(row.measurement, row.figure): float(row.value) for row in figures.read(tmp_path / "figures.csv")}
    assert found.pop(("reaction-20", "ready at once")) == 2
    assert len(found) == 10
    assert min(found.values()) > 0
    # Python alone takes more than 20; the fleet is 1.5 MiB of JSON, which is sent compressed.
    assert 20 < found["no-op-20", "peak memory (MiB)"] < 100
    assert 0.1 < found["no-op-20", "received (MiB)"] < 3


@pytest.mark.e2e
@pytest.mark.parametrize(("name", "share"), [("auto", 0), ("precompiled", 1)])
def test_what_users_feel(tmp_path: Path, name: str, share: int) -> None:
    """Where the operator cordons, ours exposes no stale plugin; where it does not, all of the time is exposed."""
    situation = next(each for each in exposed.SITUATIONS if each.name == name)
    with Cluster(tmp_path / "cluster") as cluster:
        scene = Scene(cluster, 2, PEERS, exposed.REQUEUE_SECONDS, exposed.AT_ONCE)
        found = exposed.run(scene, situation, {})
    stale, felt = f"{name}: stale", f"{name}: exposed"
    assert found[figures.OURS][felt] == share * found[figures.OURS][stale]
    assert found[figures.OURS][stale] > 0
    # It waits for a label that comes with the end of the cordon, or never.
    assert found["best label script"][felt] > 0
    assert found["NVIDIA's eviction label"][stale] == 0


@pytest.mark.e2e
@pytest.mark.parametrize(("nodes", "mode"), [(4, ()), (2, ("--mode=compute-domains",))])
def test_the_demo_proves_its_point(tmp_path: Path, nodes: int, mode: tuple[str, ...]) -> None:
    """Without a terminal: plain lines, a picture, and a last line with every figure from the ground truth."""
    done = module("devcluster.demo", f"--nodes={nodes}", *mode, cwd=tmp_path)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout + done.stderr
    told = f"demo: ok nodes={nodes} stale_after=0 early_restarts=0 needless_restarts=0 restarts={nodes} shell_stale"
    assert last.startswith(told)
    assert " exposed_seconds=0 " in last
    picture = (tmp_path / "demo-timeline.svg").read_text()
    assert picture.startswith("<svg")
    # A background for each node that was cordoned, in both panels and once in the legend.
    assert picture.count(CORDONED) == 2 * nodes + 1
