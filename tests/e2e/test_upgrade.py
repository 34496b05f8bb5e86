"""Driver upgrades, node by node or all at once, with each plugin restarted when its node has settled."""

from __future__ import annotations

import time
from typing import Any

import pytest

from devcluster.boot.cluster import Cluster
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD_CHART, PLUGIN_NAMESPACE, Boot, Lab

NARROW = {"plugin__namespace": PLUGIN_NAMESPACE}
SIX = [f"gpu-{number}" for number in range(6)]


@pytest.mark.parametrize(
    ("helm", "behaviour", "chart", "values"),
    [
        pytest.param(4, "26.3", NEW_CHART, {}, id="chart-bump-26.3-helm-4"),
        pytest.param(3, "26.7", OLD_CHART, NARROW, id="driver-only-26.7-helm-3-plugin-namespace"),
    ],
)
def test_a_serial_upgrade_refreshes_each_plugin_once(
    boot: Boot, helm: int, behaviour: str, chart: str, values: dict[str, Any]
) -> None:
    """Six nodes one at a time: no plugin is stale at the end, and none was restarted early or needlessly.

    No stale plugin was ever exposed: each was fresh before the operator uncordoned its node.
    Where the ClusterPolicy says ready after the first node, the run continues to wait. The right to delete pods in the
    namespace of the plugin is enough.
    """
    lab = boot(6, helm)
    # As in reality, a driver is ready long before the operator looks again and uncordons the node.
    lab.settings(driver_install_seconds=1.0, driver_ready_gap_seconds=0.5)
    operator = {"simulate__behaviour": behaviour, "simulate__requeueSeconds": 7}
    lab.fleet(nodes=6, **operator)
    lab.operator(chart=chart, driver=NEW, **operator)
    hook = lab.start_post(**values)
    lab.until(lambda: lab.policy_state() == "notReady", "the policy is no longer outdated")
    lab.until(lambda: lab.policy_state() == "ready", "the policy says ready", 120)
    unfinished = [node for node, version in lab.truth.loaded_now().items() if version != NEW]
    ready_early = (behaviour, chart) == ("26.3", NEW_CHART)
    assert bool(unfinished) is ready_early
    assert not ready_early or hook.poll() is None
    done = lab.succeeded(hook)
    lab.assert_clean(SIX)
    assert min(lab.truth.stale_seconds(time.time()).values()) > 0
    assert set(lab.truth.exposed_seconds(time.time()).values()) == {0}
    assert ["delete pods"] * 6 == lab.writes()
    assert {NEW} == set(lab.truth.loaded_now().values())
    _assert_reported(lab, done.output)


def _assert_reported(lab: Lab, output: str) -> None:
    """Assert what deployment tools show: Helm's output, the termination message, events on both objects."""
    assert all(line in output for line in lab.log().splitlines())
    story = lab.story()
    assert ("Done", "Refreshed", 0, 6) == (story["phase"], story["reason"], story["exitCode"], story["restarted"])
    assert len(lab.events("Job", "Refreshed")) == 1
    reported = lab.events("DaemonSet", "StalePluginRestarted")
    assert len(reported) == 6
    assert all(any(node in message for message in reported) for node in SIX)
    assert lab.events("Job", "StalePluginRestarted") == []


def test_default_settings(boot: Boot) -> None:
    """With the chart's real values: done only after the operator was quiet for 15 s; the next run restarts nothing."""
    lab = boot(1)
    lab.fleet(nodes=1)
    lab.operator(chart=NEW_CHART, driver=NEW)
    lab.deploy(args=(), timeout="25m")
    lab.assert_clean(["gpu-0"])
    # The program compares whole seconds, as most times of the API have.
    assert lab.seconds_since_last_render() > 14
    lab.deploy(args=(), timeout="25m")
    lab.assert_clean(["gpu-0"])


def test_drivers_that_are_rotated_twice(boot: Boot) -> None:
    """The old operator renders the new release, its successor renders it again: done after the second reload.

    Between the two everything looks done: drivers, plugins, labels and the policy.
    """
    lab = boot(2)
    slow: dict[str, Any] = {"simulate__handoverSeconds": 600, **ALL_AT_ONCE}
    lab.fleet(nodes=2, **slow)
    lab.operator(chart=NEW_CHART, driver=NEW, **slow)
    hook = lab.start_post()
    lab.until(lambda: lab.restarts() == SIX[:2], "the plugins are refreshed on what the old operator rendered", 120)
    end_lingering(lab.cluster)
    lab.succeeded(hook)
    loads = [each.node for each in lab.truth.since(lab.began) if each.event == "driver-loaded"]
    assert ["gpu-0", "gpu-0", "gpu-1", "gpu-1"] == sorted(loads)
    lab.assert_clean(sorted(loads))
    last = max(each.t for each in lab.truth.since(lab.began) if each.event == "driver-ready")
    assert lab.ended_at() > last


def test_precompiled_switch(boot: Boot) -> None:
    """For seconds there is no driver DaemonSet, then all nodes go at once, and no label ever leaves upgrade-done."""
    lab = boot(3)
    lab.fleet(nodes=3)
    lab.operator(driver="580", driver__usePrecompiled=True)
    hook = lab.start_post()
    labels: set[str] = set()

    def ended() -> bool:
        labels.update(lab.label_states())
        return hook.poll() is not None

    lab.until(ended, "the run ends", 200)
    lab.succeeded(hook)
    assert labels == {"upgrade-done"}
    assert lab.story()["phase"] == "Done"
    assert {"580.95.05"} == set(lab.truth.loaded_now().values())
    lab.assert_clean(SIX[:3])


def test_a_bound_on_parallel_restarts(boot: Boot) -> None:
    """With maxParallelRestarts 1 the next plugin goes only when the one before is back.

    Another operand is broken for good, so that the policy is never ready: that delays the end, and is reported.
    """
    lab = boot(4)
    lab.stale_fleet(nodes=4, simulate__brokenOperand=True)
    assert lab.policy_state() == "notReady"
    lab.deploy(args=("advanced.operatorQuiet=2s", "advanced.policyGrace=6s"), maxParallelRestarts=1)
    assert any("notReady" in warning for warning in lab.story()["warnings"])
    lab.assert_clean(SIX[:4])
    story = [each.event for each in lab.truth.since(lab.began) if each.event in ("plugin-deleted", "plugin-ready")]
    assert ["plugin-deleted", "plugin-ready"] * 4 == story


def end_lingering(cluster: Cluster) -> None:
    """End each operator that lingers after its pod was deleted (``simulate.handoverSeconds``)."""
    pods = "/api/v1/namespaces/gpu-operator/pods"
    for pod in cluster.list(pods, labelSelector="app.kubernetes.io/component=gpu-operator"):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.delete(f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 1})
