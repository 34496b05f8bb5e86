"""Metrics of the controller after each reconcile, and its health by its progress."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import ApiError
from hook.kube.client import Counters
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.run.telemetry import ALIVE_SECONDS, UNREADY_SECONDS, Health, Telemetry
from tests.fixtures.statuses import NOW, later, restart, stale, stale_plugin, standing, state, verified, waiting

ROOT: Final = Path(__file__).parents[3]
CHART: Final = ROOT / "charts/gpu-operator-post/files"
OLDEST: Final = "oldest_stale_timestamp_seconds"
NAME: Final = re.compile(r"gpu_operator_post_[a-z_]+")
NOT_READ: Final = "the cluster has not been read yet"
EXPORTER: Final = ObjectReference("apps/v1", "DaemonSet", "monitoring", "exporter", "uid")


class Shown:
    """The telemetry of a leader, and what it shows."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.telemetry = Telemetry(self.counters, clock=lambda: 0.0)
        self.telemetry.leading(leading=True)

    def look(self, *statuses: NodeStatus, at: float = 0) -> None:
        """Finish a reconcile, so many seconds after the beginning."""
        self.telemetry.reconciled(state(*statuses, now=later(at)))

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample; None where there is none."""
        return self.telemetry.registry.get_sample_value(f"gpu_operator_post_{name}", labels)

    def nodes(self) -> dict[tuple[str, str], float]:
        """Return the counts of nodes, by state and reason."""
        families = {family.name: family for family in self.telemetry.registry.collect()}
        samples = families["gpu_operator_post_nodes"].samples
        return {(each.labels["state"], each.labels["reason"]): each.value for each in samples}


@pytest.fixture
def shown() -> Shown:
    """Show nothing yet."""
    return Shown()


def test_nodes_by_state_and_reason(shown: Shown) -> None:
    """Nodes count as they stand now, by the plugin that is worst off; those that are gone leave nothing behind."""
    shown.look(stale("gpu-1"), verified("gpu-2"), verified("gpu-3"), waiting("gpu-4"))
    expected = {("Stale", "PluginStale"): 1, ("Verified", "Verified"): 2, ("Waiting", "DriverNotReady"): 1}
    assert shown.nodes() == expected
    others = (
        standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING, plugin="dra/exporter"),
        standing(NodeState.FAILED, Reason.PLUGIN_NOT_READY, plugin="dra/profiler"),
        standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, "gpu-2", plugin=""),
    )
    shown.look(verified(), *others)
    assert shown.nodes() == {("Failed", "PluginNotReady"): 1, ("Excluded", "NodeSkipped"): 1}


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING), id="plugin starts"),
        pytest.param(waiting(), id="driver reloads again"),
        pytest.param(standing(NodeState.WAITING, Reason.PLUGIN_MISSING), id="no pod yet"),
        pytest.param(stale(ready=None), id="times unknown"),
        pytest.param(stale(ready=later(60)), id="another load"),
        pytest.param(standing(NodeState.WAITING, Reason.TAINT_NOT_TOLERATED), id="taint not tolerated"),
    ],
)
def test_a_plugin_is_stale_until_its_successor_is_verified(shown: Shown, between: NodeStatus) -> None:
    """Since its driver was ready, whatever comes in between."""
    shown.look(stale(ready=later(-5)))
    shown.look(between, verified("gpu-2"), at=60)
    assert shown.value(OLDEST) == later(-5).timestamp()
    shown.look(verified(), at=90)
    assert shown.value(OLDEST) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(stale(ready=None), 0, id="driver without a time"),
        pytest.param(stale(ready=later(5)), 0, id="clock of its kubelet ahead"),
        pytest.param(standing(NodeState.WAITING, Reason.TAINT_NOT_TOLERATED), 0, id="taint not tolerated"),
        pytest.param(replace(stale(), state=NodeState.EXCLUDED), None, id="excluded"),
        pytest.param(standing(NodeState.FAILED, Reason.PLUGIN_NOT_READY), None, id="fresh"),
        pytest.param(waiting(), None, id="driver reloads"),
    ],
)
def test_since_when_a_plugin_is_stale(shown: Shown, status: NodeStatus, expected: float | None) -> None:
    """It is stale from the first reconcile at the latest; a plugin that is not stale has no such time."""
    shown.look(status)
    assert shown.value(OLDEST) == (None if expected is None else later(expected).timestamp())


@pytest.mark.parametrize(
    "after",
    [
        pytest.param((), id="node gone"),
        pytest.param((waiting("gpu-2"),), id="another node"),
        pytest.param((standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, plugin=""),), id="excluded"),
        pytest.param((standing(NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH),), id="no plugin wanted"),
    ],
)
def test_a_plugin_that_nothing_is_going_to_refresh_is_no_longer_stale(
    shown: Shown, after: tuple[NodeStatus, ...]
) -> None:
    """No alert stays for it."""
    shown.look(stale())
    assert shown.value(OLDEST) is not None
    shown.look(*after)
    assert shown.value(OLDEST) is None


def test_restarts_by_plugin_and_result(shown: Shown) -> None:
    """Each plugin that is seen has counters from zero on: Prometheus would not see the first restart otherwise."""

    def restarts(plugin: str, result: str) -> float | None:
        return shown.value("restarts_total", plugin=plugin, result=result)

    shown.look(stale(), waiting("gpu-2"))
    results = ("restarted", "refused", "failed")
    assert [restarts("dra/plugin", result) for result in results] == [0, 0, 0]
    for how in ({"note": "n"}, {"note": "n"}, {"refused": "no"}, {"trouble": "no answer"}):
        shown.telemetry.executed(restart(stale_plugin(), **how), EXPORTER)
    shown.look(stale())
    assert [restarts("monitoring/exporter", result) for result in results] == [2, 1, 1]
    assert [restarts("dra/plugin", result) for result in results] == [0, 0, 0]
    assert restarts("", "restarted") is None
    shown.telemetry.executed(restart(stale_plugin()), None)
    assert restarts("", "restarted") == 1


def test_the_time_out_of_sync(shown: Shown) -> None:
    """It shows while it lasts, after a reconcile and while the cache is not synced."""
    lost = OutOfSync("pods", time.monotonic() - 120, "refused")
    telemetry, reconciled = shown.telemetry, replace(state(), lost=lost)
    for record in (partial(telemetry.reconciled, reconciled), partial(telemetry.health.wait, lost)):
        record()
        first, second = (shown.value("cache_out_of_sync_seconds") or 0.0 for _look in range(2))
        assert 120 <= first < second
        shown.look()
        assert shown.value("cache_out_of_sync_seconds") == 0


def test_the_time_of_the_last_reconcile(shown: Shown) -> None:
    """0 before the first one. A standby keeps it, and the cache that is not synced does not move it."""
    assert shown.value("last_reconcile_timestamp_seconds") == 0
    before = time.time()
    shown.look()
    reconciled = shown.value("last_reconcile_timestamp_seconds")
    assert reconciled is not None
    assert before <= reconciled <= time.time()
    shown.telemetry.health.wait(None)
    shown.telemetry.leading(leading=False)
    assert shown.value("last_reconcile_timestamp_seconds") == reconciled


def test_the_number_of_affected_pods(shown: Shown) -> None:
    """From zero on; nothing while they are not known, because 0 would resolve an alert."""
    pod = AffectedPod("team", "train", "uid", "gpu-1", NOW, ("claim",))
    for affected, expected in ((Affected(), 0), (Affected((pod, pod)), 2), (Affected(unknown="no permission"), None)):
        shown.telemetry.reconciled(replace(state(), affected=affected))
        assert shown.value("affected_pods") == expected


def test_a_standby_shows_no_fleet(shown: Shown) -> None:
    """What it knew may be long past, also when it leads again."""
    shown.look(stale())
    assert shown.value("leader") == 1
    for leading in (False, True):
        shown.telemetry.leading(leading=leading)
        found = shown.value("leader"), shown.nodes(), shown.value(OLDEST), shown.value("affected_pods")
        assert found == (leading, {}, None, None)


def test_each_metric_is_documented_and_used(shown: Shown) -> None:
    """The table has every metric with its type and labels, and no other; an alert or a panel uses each one."""
    shown.look(stale())
    shown.counters.failed(ApiError(404, "no"), "list", "nodes")
    page = (ROOT / "docs/reference/metrics.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if "`gpu_oper" in line]
    documented = {
        cells[1].strip(" `"): (cells[2].strip(), {label.strip(" `") for label in cells[3].split(",") if label.strip()})
        for cells in rows
    }
    families = [each for each in shown.telemetry.registry.collect() if each.name.startswith("gpu_operator_post_")]
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: (
            family.type,
            {label for sample in family.samples for label in sample.labels},
        )
        for family in families
    }
    assert exposed == documented
    assert (shown.telemetry.registry.get_sample_value("process_resident_memory_bytes") or 0) > 1_000_000
    assert exposed.keys() == {name for file in CHART.iterdir() for name in NAME.findall(file.read_text())}


# Health.


@pytest.fixture
def clock() -> list[float]:
    """Return a clock that a test advances: its only element."""
    return [1000.0]


@pytest.fixture
def health(clock: list[float]) -> Health:
    """Return the health of a controller that has just started."""
    return Health(lambda: clock[0])


def _lost(seconds: float) -> OutOfSync:
    return OutOfSync("pods", time.monotonic() - seconds, "connection refused")


def test_a_standby(health: Health, clock: list[float]) -> None:
    """It lives while its tries continue. One that cannot have the Lease could never take over: it is not ready."""
    assert health.unready == "no Lease request was sent yet"
    for _try in range(5):
        clock[0] += ALIVE_SECONDS - 1
        health.try_for_the_lease()
    assert (health.dead, health.unready, health.role) == ("", "", "standby")
    clock[0] += ALIVE_SECONDS + 1
    assert health.unready == health.dead == "no Lease request was sent for 121 s"
    for trouble in ("permission missing: get leases", "connection refused"):
        health.try_for_the_lease()
        clock[0] += UNREADY_SECONDS
        health.try_for_the_lease(trouble)
        assert health.unready == ""  # a control plane that restarts
        clock[0] += 1
        assert (health.dead, health.unready) == ("", f"the Lease is not available: {trouble}")


def test_a_leader(health: Health, clock: list[float]) -> None:
    """Reconciles, the first of which makes it ready, and a slow first list are progress; renewals are none."""
    health.lead(leading=True)
    for _tick in range(300):
        clock[0] += 1.0
        health.wait(None)
    assert (health.dead, health.unready) == ("", NOT_READ)
    clock[0] += 112.0  # the longest step without progress
    assert not health.dead
    health.reconciled(None)
    assert (health.dead, health.unready, health.role) == ("", "", "leader")
    clock[0] += ALIVE_SECONDS + 1
    health.try_for_the_lease()
    assert health.dead == health.unready == "no reconcile was finished for 121 s"


def test_a_leader_that_does_not_act(health: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of sync for more than a minute, it is not ready, and still alive."""
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    health.lead(leading=True)
    for found, why in (
        (_lost(UNREADY_SECONDS / 2), ""),
        (_lost(UNREADY_SECONDS + 1), "cannot read pods for 61 s"),
        (None, ""),
    ):
        health.reconciled(found)
        unready = health.unready
        assert (unready.startswith(why), bool(unready), health.dead) == (True, bool(why), ""), why
    health.lead(leading=False)  # a standby forgets what it knew as leader, also for its next term
    health.try_for_the_lease()
    assert health.unready == ""
    health.lead(leading=True)
    assert health.unready == NOT_READ
