"""Metrics: what the controller shows to Prometheus after each reconcile."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hook import __version__
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, RolloutRestart
from hook.decide.state import Breaker
from hook.errors import NotFoundError, PermissionDeniedError, UnreachableError
from hook.kube.client import Counters
from hook.kube.informer import OutOfSync
from hook.run.metrics import Telemetry
from hook.run.report import RestartResult
from hook.run.status import ControllerState
from hook.run.workloads import Affected
from tests.client.controller import (
    DRIVER,
    NOW,
    decision,
    later,
    memories,
    restart,
    stale,
    stale_pod,
    standing,
    state,
    verified,
    waiting,
)

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.result import NodeStatus


class Shown:
    """The telemetry of a leader, and what it shows."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.telemetry = Telemetry(self.counters, clock=lambda: 0.0)
        self.telemetry.leading(leading=True)

    def look(self, *statuses: NodeStatus, at: datetime = NOW, breaker: Breaker | None = None) -> None:
        """Finish a reconcile."""
        self.telemetry.reconciled(ControllerState(decision(statuses), memories(breaker), at, affected=Affected()))

    def of(self, *metrics: str) -> tuple[float | None, ...]:
        """Return the samples of a driver."""
        return tuple(self.value(name, driver=DRIVER) for name in metrics)

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
    """Nodes count as they stand now, by the plugin that is worst off, for each driver by itself."""
    shown.look(stale("gpu-1"), verified("gpu-2"), verified("gpu-3"), waiting("gpu-4"))
    expected = {("Stale", "PluginStale"): 1, ("Verified", "Verified"): 2, ("Waiting", "DriverNotReady"): 1}
    assert shown.nodes() == expected
    shown.look(verified("gpu-1"), at=later(30))
    assert shown.nodes() == {("Verified", "Verified"): 1}
    others = (
        standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING, plugin="dra/exporter"),
        standing(NodeState.FAILED, Reason.PLUGIN_NOT_READY, plugin="dra/profiler"),
        standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, stack="network"),
    )
    shown.look(verified(), *others)
    assert shown.nodes() == {("Failed", "PluginNotReady"): 1, ("Excluded", "NodeSkipped"): 1}


def test_stale_plugins(shown: Shown) -> None:
    """A plugin that holds an old driver is stale, whatever is being done about it; and none is a number, too."""
    untolerated = standing(NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, "gpu-2")
    restarting = replace(stale("gpu-3"), state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING)
    shown.look(stale("gpu-1"), untolerated, restarting, verified("gpu-4"), waiting("gpu-5"))
    assert shown.of("stale_plugins", "plugins") == (3, 4)
    shown.look(verified("gpu-1"))
    assert shown.of("stale_plugins", "plugins") == (0, 1)


OLDEST, COUNT, SUM = "oldest_stale_timestamp_seconds", "stale_seconds_count", "stale_seconds_sum"


def test_how_long_a_plugin_was_stale(shown: Shown) -> None:
    """From the driver's ready time, though it was seen later, until the plugin is verified; once."""
    shown.look(stale(ready=later(-5)))
    assert shown.of(OLDEST) == (later(-5).timestamp(),)
    shown.look(standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING), at=later(10))
    assert shown.of(OLDEST) == (later(-5).timestamp(),)
    for seconds in (20, 21):
        shown.look(verified(), at=later(seconds))
    assert shown.of(COUNT, SUM, OLDEST) == (1, 25, None)


def test_a_plugin_is_stale_until_it_is_verified() -> None:
    """Whatever comes in between."""
    for name, status in (
        ("driver reloads again", waiting()),
        ("no pod yet", standing(NodeState.WAITING, Reason.PLUGIN_MISSING)),
        ("times unknown", stale(ready=None)),
        ("another driver run", stale(ready=later(60))),
    ):
        shown = Shown()
        shown.look(stale())
        shown.look(status, at=later(60))
        assert shown.of(OLDEST) == (NOW.timestamp(),), name
        shown.look(verified(), at=later(90))
        assert shown.of(SUM) == (90,), name


def test_a_plugin_that_need_not_be_refreshed_is_forgotten() -> None:
    """It counts as no recovery."""
    for name, statuses in (
        ("node is gone", []),
        ("node is excluded", [standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, plugin="")]),
        ("plugin is uninstalled", [standing(NodeState.VERIFIED, Reason.VERIFIED, plugin="dra/other")]),
    ):
        shown = Shown()
        shown.look(stale())
        shown.look(*statuses, at=later(60))
        assert shown.of(OLDEST) == (None,), name
        shown.look(verified(), at=later(90))
        assert shown.of(COUNT) == (0,), name


def test_the_reaction_time(shown: Shown) -> None:
    """From the driver's ready time to the restart; but leftovers count from when this replica could see them."""
    shown.look(verified())
    shown.telemetry.executed(restart(stale_pod(ready=later(100))), later(101.5))
    assert shown.of("reaction_seconds_sum") == (1.5,)
    buckets = [shown.value("reaction_seconds_bucket", driver=DRIVER, le=le) for le in ("1.0", "2.0")]
    assert buckets == [0, 1]
    new = Shown()
    new.look(stale(ready=later(-1_000_000)))
    new.telemetry.executed(restart(stale_pod(ready=later(-1_000_000))), later(3))
    assert new.of("reaction_seconds_sum") == (3,)


def test_only_a_first_restart_that_was_made_has_a_reaction_time(shown: Shown) -> None:
    """Not a second try, nor one whose times are unknown."""
    shown.look(stale())
    for result in (
        restart(stale_pod(again=True)),
        restart(stale_pod(ready=None)),
        restart(stale_pod(), refused="no"),
        restart(stale_pod(), trouble="no answer"),
    ):
        shown.telemetry.executed(result, later(9))
        assert shown.of("reaction_seconds_count") == (0,), result


def test_restarts_by_cause_and_result(shown: Shown) -> None:
    """Each restart counts by why the plugin was stale and what came of it; all of them from zero on."""
    shown.look(stale())
    assert shown.value("restarts_total", driver=DRIVER, reason="Doubt", result="restarted") == 0
    for result in (restart(stale_pod()), restart(stale_pod()), restart(stale_pod(), refused="no")):
        shown.telemetry.executed(result, NOW)
    shown.telemetry.executed(restart(stale_pod(), trouble="no answer"), NOW)
    counted = {
        result: shown.value("restarts_total", driver=DRIVER, reason="Doubt", result=result)
        for result in ("restarted", "refused", "failed")
    }
    assert counted == {"restarted": 2, "refused": 1, "failed": 1}


def test_a_restart_of_several_pods_or_for_several_drivers(shown: Shown) -> None:
    """A rollout of three pods is three restarts. What another driver asked of the same pod is no second one."""
    pods = tuple((f"gpu-{number}", stale_pod(f"plugin-{number}")) for number in range(3))
    shown.telemetry.executed(
        RestartResult(RolloutRestart("dra", "plugin", "ds", NOW, pods, stack=DRIVER), note="x"), NOW
    )
    labels = {"reason": "Doubt", "result": "restarted"}
    assert shown.value("restarts_total", driver=DRIVER, **labels) == 3
    pod = stale_pod()
    action = DeletePod("gpu-1", pod, DRIVER, also=(DeletePod("gpu-1", pod, "network"),))
    shown.telemetry.executed(RestartResult(action, note="restarted"), NOW)
    assert shown.value("restarts_total", driver=DRIVER, **labels) == 4
    assert shown.value("restarts_total", driver="network", **labels) is None


def test_the_breaker(shown: Shown) -> None:
    """An open breaker shows, and so does its closing."""
    for breaker, expected in ((None, 0), (Breaker(NOW, "clocks"), 1), (None, 0)):
        shown.look(stale(), breaker=breaker)
        assert shown.of("breaker_open") == (expected,)


def test_a_standby_shows_no_fleet(shown: Shown) -> None:
    """A replica that lost the Lease shows no nodes: what it knew may be long past."""
    shown.look(stale())
    assert shown.value("leader") == 1
    shown.telemetry.leading(leading=False)
    assert shown.value("leader") == 0
    assert (shown.nodes(), shown.of("breaker_open", OLDEST)) == ({}, (None, None))


def test_a_new_term_begins_anew(shown: Shown) -> None:
    """A replica that leads again has not looked in between: what was stale then is no recovery of its own."""
    shown.look(stale())
    shown.telemetry.leading(leading=False)
    shown.telemetry.leading(leading=True)
    shown.look(verified(), at=later(600))
    shown.telemetry.executed(restart(stale_pod()), later(603))
    assert shown.of(COUNT, "reaction_seconds_sum") == (0, 3)


def test_the_time_out_of_sync(shown: Shown) -> None:
    """It grows while nothing is read, and is zero again once something is."""
    lost = OutOfSync("pods", time.monotonic() - 120, "refused")
    shown.telemetry.reconciled(state(lost))
    first, second = (shown.value("cache_out_of_sync_seconds") or 0.0 for _look in range(2))
    assert 120 <= first < second
    shown.look()
    assert shown.value("cache_out_of_sync_seconds") == 0


def test_errors_by_kind(shown: Shown) -> None:
    """Errors count by kind, verb and resource; watches by why they ended."""
    with pytest.raises(UnreachableError), shown.counters.counting("list", "nodes"):
        raise UnreachableError("refused")
    with pytest.raises(ValueError, match="ours"), shown.counters.counting("list", "nodes"):
        raise ValueError("ours")
    shown.counters.failed(PermissionDeniedError("delete", "pods", ""), "delete", "pods")
    for why in ("Ended", "Ended", "Gone"):
        shown.counters.watch_ended("pods", why)
    assert shown.value("api_errors_total", kind="Unreachable", verb="list", resource="nodes") == 1
    assert shown.value("api_errors_total", kind="PermissionDenied", verb="delete", resource="pods") == 1
    assert shown.value("watch_restarts_total", resource="pods", reason="Ended") == 2
    assert shown.value("watch_restarts_total", resource="pods", reason="Gone") == 1
    shown.counters.failed(NotFoundError("no"), "list", "nodes")
    assert sum(shown.counters.errors.values()) == 3


def test_what_runs(shown: Shown) -> None:
    """The version, and the process itself."""
    assert shown.value("build_info", version=__version__) == 1
    assert (shown.telemetry.registry.get_sample_value("process_resident_memory_bytes") or 0) > 1_000_000


def test_memory_is_bounded_by_the_fleet(shown: Shown) -> None:
    """Nodes that come and go leave nothing behind."""
    for number in range(200):
        shown.look(stale(f"gpu-{number}"), at=later(number))
    assert len(shown.telemetry._staleness._since) == 1
    assert shown.nodes() == {("Stale", "PluginStale"): 1}


def test_each_metric_is_documented(shown: Shown) -> None:
    """The table in docs/operations.md has every metric with its labels, and no other."""
    shown.look(stale())
    shown.counters.failed(NotFoundError("no"), "list", "nodes")
    shown.counters.watch_ended("pods", "Ended")
    rows = [
        line.split("|")
        for line in (Path(__file__).parents[2] / "docs/operations.md").read_text().splitlines()
        if "`gpu_oper" in line
    ]
    documented = {
        cells[1].strip(" `"): {label.strip(" `") for label in cells[2].split(",") if label.strip()} for cells in rows
    }
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in shown.telemetry.registry.collect()
        if family.name.startswith("gpu_operator_post_")
    }
    assert exposed == documented
