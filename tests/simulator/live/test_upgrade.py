"""What NVIDIA's upgrade library does to the simulated fleet: the order of the states, the limit, and evictions."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any, Final

import pytest

from devcluster.boot.layout import CHECKOUT
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, Lab
from tests.e2e.test_affected_workloads import TEAM, _prepared, _start
from tests.pool import Pool

SERIAL: Final = {**ALL_AT_ONCE["driver__upgradePolicy"], "maxParallelUpgrades": 1, "podDeletion": {"force": True}}
RESTART: Final = ["pod-restart-required", "validation-required", "uncordon-required", "upgrade-done"]
WHOLE: Final = ["upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", *RESTART]
STEP: Final = re.compile(r"Node (\S+): Successfully updated node state label to (\S+)")


def test_the_recorded_operators_passed_the_same_states() -> None:
    """On every node, in the order that the next test asks of the simulated fleet."""
    for name in ("v26.3.3-chart-bump", "v26.3.3-driver-only", "v26.7.0-chart-bump"):
        lines = (CHECKOUT / f"tests/fixtures/recordings/{name}.jsonl").read_text().splitlines()[1:]
        changes = [change for change in map(json.loads, lines) if change["kind"] == "node"]
        for node in {change["name"] for change in changes}:
            states = (change["v"]["up"] for change in changes if change["name"] == node)
            assert [state for state, _ in groupby(states)] == ["upgrade-done", *WHOLE], (name, node)


def upgraded(lab: Lab, **values: Any) -> list[list[str]]:  # noqa: ANN401 - chart values
    """Upgrade two nodes; return the states of each, and assert that none is under way before the other is done."""

    def steps() -> list[tuple[str, str]]:
        # In the order of their starts: an operator that a signal stops may write last.
        pids = lab.cluster.state.glob("pods/gpu-operator_gpu-operator-*/pid")
        pods = [pid.parent for pid in sorted(pids, key=lambda pid: pid.stat().st_mtime_ns)]
        texts = ((pod / "gpu-operator.log").read_text() for pod in pods)
        return [step for text in texts for step in STEP.findall(text)]

    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "no node is under way")
    before = len(steps())
    lab.operator(**values)
    lab.until(lambda: [state for _, state in steps()[before:]].count("upgrade-done") == 2, "both nodes are done", 120)
    new = steps()[before:]
    assert len(list(groupby(node for node, state in new if state != "upgrade-required"))) == 2
    return [[state for name, state in new if name == node] for node in ("gpu-0", "gpu-1")]


def assert_exposed_once_uncordoned(lab: Lab) -> None:
    """Assert that a node is cordoned for its whole reload, and that a rule keeps new claims off its stale plugin."""
    for name in ("gpu-0", "gpu-1"):
        lane = lab.truth.lane(name)
        ((cordoned, uncordoned),) = lane.cordoned
        unloaded, ready = lane.reloads[-1]
        assert cordoned < unloaded < (ready or 0) < (uncordoned or 0)
        assert lab.truth.exposed_intervals()[name] == [(uncordoned, None)]
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "stale"},
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "gpu-0"},
            "taint": {"key": "example.com/stale", "effect": "NoSchedule"},
        },
    }
    lab.cluster.create("/apis/resource.k8s.io/v1/devicetaintrules", rule)

    def exposed() -> list[str]:
        return [name for name, spells in lab.truth.exposed_intervals().items() if spells[-1][1] is None]

    lab.until(lambda: exposed() == ["gpu-1"], "the rule covers the devices of gpu-0")


@pytest.mark.parametrize(("behaviour", "left"), [("26.3", {"claims", "other"}), ("26.7", {"other"})])
def test_one_node_after_the_other(pool: Pool, behaviour: str, left: set[str]) -> None:
    """Each node passes every state. Pods that request a GPU are evicted; from 26.7 on, also those that claim one."""
    lab = Lab(pool.take(2))
    same = {"driver__upgradePolicy": SERIAL, "simulate__behaviour": behaviour, "simulate__digestSalt": "same"}
    lab.fleet(nodes=2, **same)
    lab.cluster.kubectl("create", "namespace", TEAM)
    _start(lab, "claims", "gpu-0")
    _start(lab, "requests", "gpu-0", resource="nvidia.com/gpu")
    _start(lab, "other", "gpu-0", resource="example.com/nic")
    _prepared(lab, "claims", "requests", "other")
    assert upgraded(lab, driver=NEW, **same) == [WHOLE, WHOLE]
    assert_exposed_once_uncordoned(lab)
    pods = f"/api/v1/namespaces/{TEAM}/pods"
    assert {pod["metadata"]["name"] for pod in lab.cluster.list(pods)} == left
    if behaviour == "26.7":
        # With the same DRIVER_CONFIG_DIGEST the driver stays loaded, and the pods that use it stay.
        _start(lab, "user", "gpu-0", resource="nvidia.com/gpu")
        _prepared(lab, "user")
        assert upgraded(lab, chart=NEW_CHART, driver=NEW, **same) == [[WHOLE[0], *RESTART]] * 2
        assert {pod["metadata"]["name"] for pod in lab.cluster.list(pods)} == {"user", *left}
