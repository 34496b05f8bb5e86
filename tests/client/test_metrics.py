"""Metrics: what the controller shows to Prometheus after each reconcile."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from hook import __version__
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import ApiError
from hook.kube.client import Counters
from hook.kube.informer import OutOfSync
from hook.run.metrics import Telemetry
from hook.run.report import RestartResult
from hook.run.status import ControllerState
from tests.client.controller import (
    NOW,
    decision,
    later,
    restart,
    stale,
    stale_pod,
    standing,
    state,
    verified,
    waiting,
)

OLDEST, COUNT, SUM = "oldest_stale_timestamp_seconds", "stale_seconds_count", "stale_seconds_sum"
PAGE: Final = Path(__file__).parents[2] / "docs/reference/metrics.md"


class Shown:
    """The telemetry of a leader, and what it shows."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.telemetry = Telemetry(self.counters, clock=lambda: 0.0)
        self.telemetry.leading(leading=True)

    def look(self, *statuses: NodeStatus, at: float = 0) -> None:
        """Finish a reconcile, so many seconds after the beginning."""
        state = ControllerState(decision(statuses), later(at), affected=Affected())
        self.telemetry.reconciled(state)

    def executed(self, at: datetime, *results: RestartResult) -> None:
        """Execute these restarts."""
        for result in results:
            self.telemetry.executed(result, at)

    def of(self, *metrics: str) -> tuple[float | None, ...]:
        """Return samples without labels."""
        return tuple(self.value(name) for name in metrics)

    def value(self, name: str, **labels: str) -> float | None:
        """Return a sample; None where there is none."""
        return self.telemetry.registry.get_sample_value(f"gpu_operator_post_{name}", labels)

    def restarts(self, result: str) -> float | None:
        """Return how many restarts had this result."""
        return self.value("restarts_total", reason="Driver", result=result)

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
    """Nodes count as they stand now, by the plugin that is worst off."""
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
    # A plugin that holds an old driver is stale, whatever is being done about it; and none is a number, too.
    untolerated = standing(NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, "gpu-2")
    restarting = replace(stale("gpu-3"), state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING)
    shown.look(stale("gpu-1"), untolerated, restarting, verified("gpu-4"), waiting("gpu-5"))
    assert shown.of("stale_plugins", "plugins") == (3, 4)
    shown.look(verified("gpu-1"))
    assert shown.of("stale_plugins", "plugins") == (0, 1)
    for number in range(200):  # nodes that come and go leave nothing behind
        shown.look(stale(f"gpu-{number}"), at=number)
    assert len(shown.telemetry._staleness._since) == len(shown.nodes()) == 1


def test_how_long_a_plugin_was_stale() -> None:
    """From the driver's ready time until the plugin is verified, once, whatever comes in between."""
    for name, status in (
        ("plugin starts", standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING)),
        ("driver reloads again", waiting()),
        ("no pod yet", standing(NodeState.WAITING, Reason.PLUGIN_MISSING)),
        ("times unknown", stale(ready=None)),
        ("another load", stale(ready=later(60))),
    ):
        shown = Shown()
        shown.look(stale(ready=later(-5)))
        shown.look(status, at=60)
        assert shown.of(OLDEST) == (later(-5).timestamp(),), name
        for seconds in (90, 91):
            shown.look(verified(), at=seconds)
        assert shown.of(COUNT, SUM, OLDEST) == (1, 95, None), name


def test_the_reaction_time(shown: Shown) -> None:
    """From the driver's ready time to the first restart; leftovers count from when this replica could see them."""
    shown.look(verified())
    shown.executed(later(101.5), restart(stale_pod(ready=later(100))))
    assert shown.of("reaction_seconds_sum") == (1.5,)
    others = (restart(stale_pod(), refused="no"), restart(stale_pod(), trouble="no answer"))
    shown.executed(later(200), restart(stale_pod(again=True)), restart(stale_pod(ready=None)), *others)
    assert shown.of("reaction_seconds_count") == (1,)
    new = Shown()
    new.look(stale(ready=later(-1_000_000)))
    new.executed(later(3), restart(stale_pod(ready=later(-1_000_000))))
    assert new.of("reaction_seconds_sum") == (3,)


def test_restarts_by_cause_and_result(shown: Shown) -> None:
    """From zero on."""
    shown.look(stale())
    assert shown.restarts("restarted") == 0
    failed = (restart(stale_pod(), refused="no"), restart(stale_pod(), trouble="no answer"))
    shown.executed(NOW, restart(stale_pod()), restart(stale_pod()), *failed)
    assert [shown.restarts(result) for result in ("restarted", "refused", "failed")] == [2, 1, 1]


def test_the_time_out_of_sync(shown: Shown) -> None:
    """It shows while it lasts."""
    shown.telemetry.reconciled(state(OutOfSync("pods", time.monotonic() - 120, "refused")))
    first, second = (shown.value("cache_out_of_sync_seconds") or 0.0 for _look in range(2))
    assert 120 <= first < second
    shown.look()
    assert shown.value("cache_out_of_sync_seconds") == 0


def test_the_number_of_affected_pods(shown: Shown) -> None:
    """From zero on; nothing while they are not known, because 0 would resolve an alert."""
    pod = AffectedPod("team", "train", "uid", "gpu-1", NOW, ("claim",))
    for affected, expected in ((Affected(), 0), (Affected((pod, pod)), 2), (Affected(unknown="no permission"), None)):
        shown.telemetry.reconciled(replace(state(), affected=affected))
        assert shown.value("affected_pods") == expected


def test_a_standby_shows_no_fleet(shown: Shown) -> None:
    """What it knew may be long past. When it leads again, what was stale then is no recovery of its own."""
    shown.look(stale())
    assert shown.value("leader") == 1
    shown.telemetry.leading(leading=False)
    assert (shown.value("leader"), shown.nodes(), shown.of(OLDEST)) == (0, {}, (None,))
    shown.telemetry.leading(leading=True)
    shown.look(verified(), at=600)
    shown.executed(later(603), restart(stale_pod()))
    assert shown.of(COUNT, "reaction_seconds_sum") == (0, 3)


def test_each_metric_is_documented(shown: Shown) -> None:
    """The table in docs/reference has every metric with its labels, and no other."""
    shown.look(stale())
    shown.counters.failed(ApiError(404, "no"), "list", "nodes")
    shown.counters.watch_ended("pods", "Ended")
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if "`gpu_oper" in line]
    documented = {
        cells[1].strip(" `"): {label.strip(" `") for label in cells[3].split(",") if label.strip()} for cells in rows
    }
    families = [each for each in shown.telemetry.registry.collect() if each.name.startswith("gpu_operator_post_")]
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in families
    }
    assert exposed == documented
    assert shown.value("build_info", version=__version__) == 1
    assert (shown.telemetry.registry.get_sample_value("process_resident_memory_bytes") or 0) > 1_000_000
