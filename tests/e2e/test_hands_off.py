"""Runs that must not touch anything, on a fleet where every plugin is stale."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.chart.rendering import Helm
from tests.e2e.identity import kubeconfig, rights
from tests.e2e.lab import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
BOTH = ["gpu-0", "gpu-1"]
BRIEFLY = ("run", "--timeout=8s", "advanced.operatorQuiet=2s")


@pytest.fixture
def lab(boot: Callable[..., Lab]) -> Lab:
    """Give two nodes whose plugins are stale, and nothing that moves."""
    lab = boot(2)
    lab.stale_fleet(nodes=2)
    return lab


def _reader(lab: Lab) -> Path:
    """Give a kubeconfig that has the rights of the chart's dry run, which cannot write."""
    rendered = Helm(lab.cluster.binary("helm4")).render({"dryRun": True})
    return kubeconfig(lab.cluster, "reader", rights(rendered.one("ClusterRole")["rules"]))


def _without_operator(lab: Lab) -> None:
    """End the operator, so that nobody acts on what is written into its policy."""
    lab.cluster.kubectl("scale", "deployment", "gpu-operator", "-n", NAMESPACE, "--replicas=0")
    lab.cluster.kubectl(
        "wait", "pod", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=gpu-operator", "--for=delete"
    )


def test_dry_run_and_status(lab: Lab) -> None:
    """Both say what is stale; not even an event is written, as permissions that cannot write show."""
    done = lab.post(dryRun=True)
    assert done.code == 0, done.output
    assert all(node in lab.log() for node in BOTH)
    assert lab.story()["counts"] == {"Stale": 2}
    ours = f"system:serviceaccount:{NAMESPACE}:gpu-operator-post"
    assert [each for each in lab.cluster.audit() if each["user"]["username"] == ours] == []

    reader = _reader(lab)
    lines = lab.run("run", "--dry-run", "--log-format=json", kubeconfig=reader)
    assert lines.code == 0, lines.said
    assert all(json.loads(line)["message"] for line in lines.out.splitlines())

    shown = lab.run("status", kubeconfig=reader)
    assert shown.code == 0, shown.said
    rows = [line.split()[:3] for line in shown.out.splitlines() if line.startswith("gpu-")]
    assert [["gpu-0", "Stale", "PluginStale"], ["gpu-1", "Stale", "PluginStale"]] == rows

    told = json.loads(lab.run("status", "-o", "json", kubeconfig=reader).out)
    assert [("gpu-0", "Stale"), ("gpu-1", "Stale")] == [(node["node"], node["state"]) for node in told["nodes"]]
    lab.assert_untouched()


def test_status_during_a_migration(boot: Callable[..., Lab]) -> None:
    """From a laptop, with few permissions, the same judgement as the run: who waits, and for what."""
    lab = boot(3)
    lab.fleet(nodes=3)
    reader = _reader(lab)
    lab.knobs(driver_install_seconds=20)
    lab.operator(driver="580.126.20")
    lab.until(lambda: len(lab.truth.loaded_now()) == 3 and "" in lab.truth.loaded_now().values(), "a node reloads")
    told = json.loads(lab.run("status", "-o", "json", kubeconfig=reader).out)
    assert told["phase"] == "Wait"
    states = {node["node"]: node["reason"] for node in told["nodes"]}
    reloading = next(node for node, version in lab.truth.loaded_now().items() if not version)
    assert states[reloading] in ("DriverNotReady", "OperandsPaused", "DriverMissing")
    assert {"DriverOutdated", "UpgradeInProgress"} >= {states[node] for node in states if node != reloading}
    assert lab.restarts() == []


MALFORMED: Mapping[str, Any] = {
    "enabled": "yes",
    "version": 580,
    "upgradePolicy": "automatic",
    "usePrecompiled": "false",
}
"""By field of the policy's driver: what no schema of the CRD prevents."""


def test_a_malformed_policy(lab: Lab, subtests: pytest.Subtests) -> None:
    """It is reported by its field and treated as not ready: no restart, no skip, exit 124."""
    _without_operator(lab)
    good = lab.cluster.get(POLICY)["spec"]["driver"]
    for field, value in MALFORMED.items():
        lab.cluster.patch(POLICY, {"spec": {"driver": {**good, field: value}}})
        done = lab.run(*BRIEFLY)
        with subtests.test(field):
            assert done.code == 124, done.said
            assert "ClusterPolicy cluster-policy" in done.out
            assert f"spec.driver.{field}" in done.out
    lab.assert_untouched()


def test_an_upgrade_state_that_nobody_knows(lab: Lab) -> None:
    """A newer controller may be about to restart the driver: that node waits, the other one is served."""
    state = "nvidia.com/gpu-driver-upgrade-state"
    lab.cluster.kubectl("label", "node", "gpu-0", f"{state}=quantum-leap", "--overwrite")
    done = lab.run(*BRIEFLY)
    assert done.code == 124, done.said
    assert "UpgradeStateUnknown" in done.out
    assert lab.restarts() == ["gpu-1"]
    assert lab.truth.stale_now() == ("gpu-0",)
