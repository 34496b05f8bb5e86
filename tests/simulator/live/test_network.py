"""The simulated network operator on a real control plane, with GPU nodes that have a network card as well.

Missed reloads, drivers that you rotate, and upgrades that fail: tests/e2e/test_stack_network.py.
"""

from __future__ import annotations

import json
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.truth import NETWORK, Truth
from tests.simulator.history import recorded

if TYPE_CHECKING:
    from devcluster.cluster import Cluster
    from tests.simulator.stage import Stage

pytestmark = pytest.mark.e2e

NAMESPACE = "nvidia-network-operator"
OLD, NEW = "doca3.2.0-25.10-1.2.8.0-2", "doca3.4.0-26.04-0.8.6.0-0"
NICS = ("gpu-0", "gpu-1")
WAIT = "network.nvidia.com/operator.mofed.wait"
UPGRADE = "nvidia.com/ofed-driver-upgrade-state"
FAULT = "devcluster/network-driver-fault"
POLICIES = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
FLOW = [
    "upgrade-done", "upgrade-required", "cordon-required", "wait-for-jobs-required", "drain-required",
    "pod-restart-required", "uncordon-required", "upgrade-done",
]  # fmt: skip
"""What a node passes through: the library drains it, and neither deletes pods before nor validates afterwards."""


class Net:
    """The network of the shared cluster, of whose three nodes two have a network card."""

    def __init__(self, stage: Stage) -> None:
        self.cluster: Cluster = stage.cluster
        self.until = stage.until
        self.operator()
        self.calm(OLD)

    @property
    def truth(self) -> Truth:
        """The journal of the network's drivers."""
        return Truth.read(self.cluster.state, NETWORK)

    def operator(self, **values: object) -> float:
        """Install or upgrade the operator's chart with exactly these values; return when that was."""
        sets = [f"--set-json={key.replace('__', '.')}={json.dumps(value)}" for key, value in values.items()]
        release = ("network-operator", "devcluster/charts/network-operator", "-n", NAMESPACE, "--create-namespace")
        asked = time.time()
        self.cluster.helm("upgrade", "--install", *release, "--reset-values", *sets)
        return asked

    def calm(self, version: str) -> None:
        """Wait until both nodes run this driver, Ready, with both plugins, and none waits."""
        self.until(lambda: [self.truth.loaded_now().get(node) for node in NICS] == [version] * 2, 90)
        self.until(lambda: self.labels(WAIT) == ["false"] * 2, 90)
        self.until(lambda: self.status()["state"] == "ready", 90)

    def status(self) -> dict[str, Any]:
        """Return the policy's status."""
        policies = self.cluster.list(POLICIES)
        found = policies[0].get("status", {}) if policies else {}
        states = {each["name"]: each["state"] for each in found.get("appliedStates", [])}
        return {"state": found.get("state", ""), **states}

    def nodes(self) -> list[Any]:
        """Return the nodes with a card."""
        return [self.cluster.get(f"/api/v1/nodes/{name}") for name in NICS]

    def labels(self, key: str) -> list[str | None]:
        """Return a label of both nodes."""
        return [node["metadata"]["labels"].get(key) for node in self.nodes()]

    def drivers(self) -> list[Any]:
        """Return the driver pods."""
        return self.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="nvidia.com/ofed-driver")

    def saw(self, event: str, since: float) -> list[str]:
        """Name the nodes with an event since a moment, in its order."""
        return [each.node for each in self.truth.since(since) if each.event == event]

    def fault(self, fault: str | None) -> None:
        """Let the driver of gpu-0 fail from its next start on, or not any more."""
        self.cluster.patch("/api/v1/nodes/gpu-0", {"metadata": {"annotations": {FAULT: fault}}})


@pytest.fixture(scope="module")
def net(stage: Stage) -> Net:
    """Install the operator."""
    return Net(stage)


def test_an_upgrade_takes_one_node_after_the_other(net: Net) -> None:
    """The operator takes its plugins off a node before they can be stale, and they come back on the new driver."""
    with recorded(net.cluster, "nodes") as events:

        def states(name: str) -> list[str]:
            nodes = [each["object"]["metadata"] for each in events()]
            mine = [node["labels"].get(UPGRADE) for node in nodes if node["name"] == name]
            return [state for state, _same in groupby(mine)]

        net.until(lambda: all(states(name) for name in NICS))
        asked = net.operator(ofedDriver__version=NEW)
        net.calm(NEW)
        net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2)
        net.until(lambda: all(states(name)[1:][-1:] == ["upgrade-done"] for name in NICS))
        assert [states(name) for name in NICS] == [FLOW] * 2
    # What the operating system brought is restored between the two drivers.
    first = [each.version for each in net.truth.since(asked) if each.event == "driver-loaded" and each.node == "gpu-0"]
    assert first == ["inbox", NEW]
    ready, unloaded = net.saw("driver-ready", asked), net.saw("driver-unloaded", asked)
    assert len(ready) == 2
    assert unloaded == [ready[0]] * 2 + [ready[1]] * 2
    assert net.truth.stale_now() == ()
    assert not any("gpu-2" in pod["spec"]["nodeName"] for pod in net.drivers())


def test_a_driver_with_safe_load_waits_for_the_cordon(net: Net) -> None:
    """It asks by an annotation, and nothing is loaded before the node was cordoned."""
    asked = net.operator(ofedDriver__version=OLD, ofedDriver__upgradePolicy__safeLoad=True)
    net.until(lambda: sorted(net.saw("safe-load-asked", asked)) == list(NICS), 90)
    net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2, 90)
    events = [each.event for each in net.truth.since(asked) if each.node == "gpu-0" and each.stack == NETWORK]
    found = [each for each in events if each in {"safe-load-asked", "driver-loaded", "driver-ready"}]
    assert found == ["driver-loaded", "safe-load-asked", "driver-loaded", "driver-ready"]
    assert not any(node["spec"].get("unschedulable") for node in net.nodes())
    assert not any("driver-wait-for-safe-load" in str(node["metadata"]["annotations"]) for node in net.nodes())


def test_a_gpu_driver_with_rdma_waits_for_the_cards(net: Net, stage: Stage) -> None:
    """It is not Ready before the card's driver is loaded; a node without a card does not wait."""
    net.fault("image-pull")
    net.operator(ofedDriver__version=NEW, ofedDriver__upgradePolicy__maxParallelUpgrades=0)
    net.until(lambda: net.truth.loaded_now()["gpu-0"] == "inbox", 90)
    # A node that is cordoned when an upgrade begins stays so; the first one here is stuck in the network's upgrade.
    net.until(lambda: net.labels(UPGRADE)[1] == "upgrade-done", 90)
    asked = stage.migrate(driver__rdma__enabled=True)
    stage.until(lambda: all(stage.saw("driver-ready", name, asked) for name in ("gpu-1", "gpu-2")), 90)
    assert not stage.saw("driver-ready", "gpu-0", asked)
    net.fault(None)
    stage.until(lambda: stage.saw("driver-ready", "gpu-0", asked), 90)
    assert net.truth.loaded_now()["gpu-0"] == NEW
    stage.calm()
    net.calm(NEW)
    net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2, 90)
    net.until(lambda: not any(node["spec"].get("unschedulable") for node in net.nodes()))


def test_a_policy_under_another_name_is_ignored(net: Net) -> None:
    """It has that status; and without a driver in the policy no plugin waits for one."""
    body = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "another"}}
    net.cluster.create(POLICIES, body | {"spec": {}})
    net.until(lambda: net.cluster.get(f"{POLICIES}/another").get("status", {}).get("state") == "ignore")
    net.cluster.delete(f"{POLICIES}/another")
    net.operator(ofedDriver__deploy=False)
    net.until(lambda: net.drivers() == [], 90)
    net.until(lambda: net.status().get("state-OFED") == "ignore", 90)
    net.until(lambda: net.labels(WAIT) == ["false"] * 2, 90)
