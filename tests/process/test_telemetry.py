"""What a follower shows to Prometheus, by what its loop told."""

from __future__ import annotations

import time
from dataclasses import replace
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
from tests.client.controller import (
    NOW,
    STACK,
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
from tests.process.program import ROOT

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.result import NodeStatus


class Shown:
    """A follower's telemetry that leads, and what it shows."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.telemetry = Telemetry(self.counters, clock=lambda: 0.0)
        self.telemetry.leading(leading=True)

    def look(self, *statuses: NodeStatus, at: datetime = NOW, breaker: Breaker | None = None) -> None:
        """Finish a round."""
        self.telemetry.reconciled(ControllerState(decision(statuses), memories(breaker), at))

    def value(self, name: str, **labels: str) -> float | None:
        """Give a sample; None where there is none."""
        return self.telemetry.registry.get_sample_value(f"gpu_operator_post_{name}", labels)

    def nodes(self) -> dict[tuple[str, str], float]:
        """Give the counts of nodes, by state and reason."""
        families = {family.name: family for family in self.telemetry.registry.collect()}
        samples = families["gpu_operator_post_nodes"].samples
        return {(one.labels["state"], one.labels["reason"]): one.value for one in samples}


@pytest.fixture
def shown() -> Shown:
    """Show nothing yet."""
    return Shown()


def test_nodes_by_state_and_reason(shown: Shown) -> None:
    """Nodes are counted as they stand now; who is not there any more is not shown any more."""
    shown.look(stale("gpu-1"), verified("gpu-2"), verified("gpu-3"), waiting("gpu-4"))
    assert shown.nodes() == {
        ("Stale", "PluginStale"): 1,
        ("Verified", "Verified"): 2,
        ("Waiting", "DriverNotReady"): 1,
    }
    shown.look(verified("gpu-1"), at=later(30))
    assert shown.nodes() == {("Verified", "Verified"): 1}


def test_a_node_counts_once(shown: Shown) -> None:
    """A node with several plugins counts by the one that is worst off, in each stack by itself."""
    others = (
        standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING, plugin="dra/exporter"),
        standing(NodeState.FAILED, Reason.PLUGIN_NOT_READY, plugin="dra/profiler"),
        standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, stack="network"),
    )
    shown.look(verified(), *others)
    assert shown.nodes() == {("Failed", "PluginNotReady"): 1, ("Excluded", "NodeSkipped"): 1}


def test_stale_plugins(shown: Shown) -> None:
    """What holds an old driver is stale, whatever is being done about it; and none is a number, too."""
    unwelcome = standing(NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, "gpu-2")
    restarting = replace(stale("gpu-3"), state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING)
    shown.look(stale("gpu-1"), unwelcome, restarting, verified("gpu-4"), waiting("gpu-5"))
    assert shown.value("stale_plugins", driver=STACK) == 3
    assert shown.value("plugins", driver=STACK) == 4
    shown.look(verified("gpu-1"))
    assert shown.value("stale_plugins", driver=STACK) == 0
    assert shown.value("plugins", driver=STACK) == 1


def test_how_long_a_plugin_was_stale(shown: Shown) -> None:
    """From the driver's ready time, though it was seen later, until the plugin is verified; once."""
    shown.look(stale(ready=later(-5)))
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) == later(-5).timestamp()
    shown.look(standing(NodeState.VERIFYING, Reason.PLUGIN_STARTING), at=later(10))
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) == later(-5).timestamp()
    for seconds in (20, 21):
        shown.look(verified(), at=later(seconds))
    assert shown.value("stale_seconds_count", driver=STACK) == 1
    assert shown.value("stale_seconds_sum", driver=STACK) == 25
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) is None


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([waiting()], id="driver-reloads-again"),
        pytest.param([standing(NodeState.WAITING, Reason.PLUGIN_MISSING)], id="no-pod-yet"),
        pytest.param([stale(ready=None)], id="times-unknown"),
        pytest.param([stale(ready=later(60))], id="another-driver-run"),
    ],
)
def test_stale_until_it_is_served(shown: Shown, between: list[NodeStatus]) -> None:
    """A plugin that was stale is not back before it is verified, whatever comes in between."""
    shown.look(stale())
    shown.look(*between, at=later(60))
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) == NOW.timestamp()
    shown.look(verified(), at=later(90))
    assert shown.value("stale_seconds_sum", driver=STACK) == 90


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([], id="node-is-gone"),
        pytest.param([standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, plugin="")], id="node-is-left-alone"),
        pytest.param([standing(NodeState.VERIFIED, Reason.VERIFIED, plugin="dra/other")], id="plugin-is-uninstalled"),
    ],
)
def test_stale_no_more_without_being_served(shown: Shown, after: list[NodeStatus]) -> None:
    """What need not be served any more is forgotten, and counts as no recovery."""
    shown.look(stale())
    shown.look(*after, at=later(60))
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) is None
    shown.look(verified(), at=later(90))
    assert shown.value("stale_seconds_count", driver=STACK) == 0


def test_reaction_from_a_ready_driver(shown: Shown) -> None:
    """The time from the driver's readiness to the restart."""
    shown.look(verified())
    shown.telemetry.executed(restart(stale_pod(ready=later(100))), later(101.5))
    assert shown.value("reaction_seconds_sum", driver=STACK) == 1.5
    assert shown.value("reaction_seconds_bucket", driver=STACK, le="1.0") == 0
    assert shown.value("reaction_seconds_bucket", driver=STACK, le="2.0") == 1


def test_reaction_of_who_came_later(shown: Shown) -> None:
    """Leftovers of weeks are no slow reaction: it counts from when this replica could see them."""
    shown.look(stale(ready=later(-1_000_000)))
    shown.telemetry.executed(restart(stale_pod(ready=later(-1_000_000))), later(3))
    assert shown.value("reaction_seconds_sum", driver=STACK) == 3


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(restart(stale_pod(again=True)), id="second-try"),
        pytest.param(restart(stale_pod(ready=None)), id="times-unknown"),
        pytest.param(restart(stale_pod(), refused="no"), id="refused"),
        pytest.param(restart(stale_pod(), trouble="no answer"), id="failed"),
    ],
)
def test_no_reaction(shown: Shown, result: RestartResult) -> None:
    """Only a first restart that was made tells how fast it came."""
    shown.look(stale())
    shown.telemetry.executed(result, later(9))
    assert shown.value("reaction_seconds_count", driver=STACK) == 0


def test_restarts_by_cause_and_result(shown: Shown) -> None:
    """Each restart counts by why the plugin was stale and what came of it; all of them from zero on."""
    shown.look(stale())
    assert shown.value("restarts_total", driver=STACK, reason="Doubt", result="restarted") == 0
    for result in (restart(stale_pod()), restart(stale_pod()), restart(stale_pod(), refused="no")):
        shown.telemetry.executed(result, NOW)
    shown.telemetry.executed(restart(stale_pod(), trouble="no answer"), NOW)
    counted = {
        result: shown.value("restarts_total", driver=STACK, reason="Doubt", result=result)
        for result in ("restarted", "refused", "failed")
    }
    assert counted == {"restarted": 2, "refused": 1, "failed": 1}


def test_a_rollout_restarts_each_of_its_pods(shown: Shown) -> None:
    """One write that restarts three plugins counts as three."""
    pods = tuple((f"gpu-{number}", stale_pod(f"plugin-{number}")) for number in range(3))
    rollout = RolloutRestart("dra", "plugin", "ds", NOW, pods, stack=STACK)
    shown.telemetry.executed(RestartResult(rollout, note="restarted"), NOW)
    assert shown.value("restarts_total", driver=STACK, reason="Doubt", result="restarted") == 3


def test_one_pod_for_two_stacks_is_one_restart(shown: Shown) -> None:
    """What another stack asked of the same pod is no second restart."""
    pod = stale_pod()
    action = DeletePod("gpu-1", pod, STACK, also=(DeletePod("gpu-1", pod, "network"),))
    shown.telemetry.executed(RestartResult(action, note="restarted"), NOW)
    assert shown.value("restarts_total", driver=STACK, reason="Doubt", result="restarted") == 1
    assert shown.value("restarts_total", driver="network", reason="Doubt", result="restarted") is None


def test_the_breaker(shown: Shown) -> None:
    """An open breaker shows, and so does its closing."""
    shown.look(stale())
    assert shown.value("breaker_open", driver=STACK) == 0
    shown.look(stale(), breaker=Breaker(NOW, "clocks"))
    assert shown.value("breaker_open", driver=STACK) == 1
    shown.look(stale())
    assert shown.value("breaker_open", driver=STACK) == 0


def test_who_stands_by_shows_no_fleet(shown: Shown) -> None:
    """A replica that lost the Lease says nothing of nodes: what it knew may be long past."""
    shown.look(stale())
    assert shown.value("leader") == 1
    shown.telemetry.leading(leading=False)
    assert shown.value("leader") == 0
    assert shown.nodes() == {}
    assert shown.value("breaker_open", driver=STACK) is None
    assert shown.value("oldest_stale_timestamp_seconds", driver=STACK) is None


def test_a_new_term_begins_anew(shown: Shown) -> None:
    """Whoever leads again has not looked in between: what was stale then is no recovery of ours."""
    shown.look(stale())
    shown.telemetry.leading(leading=False)
    shown.telemetry.leading(leading=True)
    shown.look(verified(), at=later(600))
    assert shown.value("stale_seconds_count", driver=STACK) == 0
    shown.telemetry.executed(restart(stale_pod()), later(603))
    assert shown.value("reaction_seconds_sum", driver=STACK) == 3


def test_lost_contact(shown: Shown) -> None:
    """The time without contact grows while nothing is heard, and is zero again with it."""
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
    rows = [line.split("|") for line in (ROOT / "docs/operations.md").read_text().splitlines() if "`gpu_oper" in line]
    documented = {
        cells[1].strip(" `"): {one.strip(" `") for one in cells[2].split(",") if one.strip()} for cells in rows
    }
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in shown.telemetry.registry.collect()
        if family.name.startswith("gpu_operator_post_")
    }
    assert exposed == documented
