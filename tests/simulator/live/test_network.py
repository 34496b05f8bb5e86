"""The simulated network operator on a real control plane, with GPU nodes that have a network card as well."""

from __future__ import annotations

import json
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from devcluster.cluster import Cluster
from devcluster.patience import TooSlowError
from devcluster.truth import NETWORK, Truth
from tests.simulator.history import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.e2e

T = TypeVar("T")

NAMESPACE = "nvidia-network-operator"
OLD, NEW = "doca3.2.0-25.10-1.2.8.0-2", "doca3.4.0-26.04-0.8.6.0-0"
NICS = ("gpu-0", "gpu-1")
WAIT = "network.nvidia.com/operator.mofed.wait"
UPGRADE = "nvidia.com/ofed-driver-upgrade-state"
RDMA, SRIOV = "rdma-shared-dp-ds", "network-operator-sriov-device-plugin"
PATIENCE = 90
FLOW = [
    "upgrade-done", "upgrade-required", "cordon-required", "wait-for-jobs-required", "drain-required",
    "pod-restart-required", "uncordon-required", "upgrade-done",
]  # fmt: skip
"""What a node passes through: the library drains it, and neither deletes pods before nor validates afterwards."""


class Net:
    """Three nodes, two with a network card, and the operator."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def truth(self) -> Truth:
        """The journal of the network's drivers."""
        return Truth.read(self.cluster.state, NETWORK)

    def operator(self, release: str = "network-operator", namespace: str = NAMESPACE, **values: object) -> float:
        """Install or upgrade an operator's chart with exactly these values; return when that was."""
        sets = [f"--set-json={key.replace('__', '.')}={json.dumps(value)}" for key, value in values.items()]
        asked = time.time()
        folder = f"devcluster/charts/{release}"
        self.cluster.helm(
            "upgrade", "--install", release, folder, "-n", namespace, "--create-namespace", "--reset-values", *sets
        )
        return asked

    def calm(self, version: str) -> None:
        """Wait until both nodes run this driver, Ready, with both plugins on it, and nobody waits."""
        self.until(lambda: [self.truth.loaded_now().get(node) for node in NICS] == [version] * 2)
        self.until(lambda: self.labels(WAIT) == ["false"] * 2)
        self.until(lambda: self.status()["state"] == "ready")

    def status(self) -> dict[str, Any]:
        """Return the policy's status."""
        policies = self.cluster.list("/apis/mellanox.com/v1alpha1/nicclusterpolicies")
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

    def until(self, look: Callable[[], T | None]) -> T:
        """Look again and again until there is something to see."""
        deadline = time.monotonic() + PATIENCE
        while not (seen := look()):
            if time.monotonic() > deadline:
                raise TooSlowError("waited in vain")
            time.sleep(0.1)
        return seen


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """Boot three nodes, of which two have a card, and install the operator."""
    with Cluster(tmp_path_factory.mktemp("network") / "state") as cluster:
        cluster.up(nodes=3, fleet=True, nics=2)
        stage = Net(cluster)
        stage.operator()
        stage.calm(OLD)
        yield stage


def test_a_migration_takes_one_node_after_the_other(net: Net) -> None:
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
    # What the operating system brought is put back between the two drivers.
    first = [each.version for each in net.truth.since(asked) if each.event == "driver-loaded" and each.node == "gpu-0"]
    assert first == ["inbox", NEW]
    ready, unloaded = net.saw("driver-ready", asked), net.saw("driver-unloaded", asked)
    assert len(ready) == 2
    assert unloaded == [ready[0]] * 2 + [ready[1]] * 2
    assert net.truth.stale_now() == ()
    assert not any("gpu-2" in pod["spec"]["nodeName"] for pod in net.drivers())


def test_an_operator_that_misses_the_reload_leaves_stale_plugins(net: Net) -> None:
    """Then the label does not move, and nobody takes the plugins off: they hold a driver that is gone."""
    asked = net.operator(simulate__waitLabelSeconds=600, ofedDriver__upgradePolicy__maxParallelUpgrades=0)
    net.until(lambda: sorted(net.saw("driver-ready", asked)) == list(NICS))
    net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2)
    assert net.truth.stale_now(RDMA) == net.truth.stale_now(SRIOV) == NICS
    assert net.saw("plugin-deleted", asked) == []
    for pod in net.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app=rdma-shared-dp"):
        net.cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
    net.until(lambda: net.truth.stale_now(RDMA) == ())
    assert net.truth.stale_now(SRIOV) == NICS
    assert not any(each.drained for each in net.truth.restarts(since=asked))


def test_a_driver_waits_until_it_is_let_in(net: Net) -> None:
    """With safe load it asks by an annotation, and nothing is loaded before the node was cordoned."""
    asked = net.operator(ofedDriver__version=NEW, ofedDriver__upgradePolicy__safeLoad=True)
    net.until(lambda: sorted(net.saw("safe-load-asked", asked)) == list(NICS))
    net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2)
    events = [each.event for each in net.truth.since(asked) if each.node == "gpu-0" and each.stack == NETWORK]
    told = [each for each in events if each in {"safe-load-asked", "driver-loaded", "driver-ready"}]
    assert told == ["driver-loaded", "safe-load-asked", "driver-loaded", "driver-ready"]
    assert not any(node["spec"].get("unschedulable") for node in net.nodes())
    assert not any("driver-wait-for-safe-load" in str(node["metadata"]["annotations"]) for node in net.nodes())


def test_without_auto_upgrade_people_rotate(net: Net) -> None:
    """No labels, and the old driver stays until somebody deletes its pod."""
    asked = net.operator(ofedDriver__upgradePolicy__autoUpgrade=False)
    net.until(lambda: net.labels(UPGRADE) == [None] * 2)
    net.until(lambda: net.status()["state-OFED"] == "notReady")
    assert net.saw("driver-unloaded", asked) == []
    for pod in net.drivers():
        net.cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
    net.calm(OLD)


def test_a_driver_that_keeps_crashing_fails_the_upgrade(net: Net) -> None:
    """The node stays cordoned, and the label clears by itself when the driver comes up after all."""
    fault = "devcluster/network-driver-fault"
    net.cluster.patch("/api/v1/nodes/gpu-0", {"metadata": {"annotations": {fault: "crash-loop"}}})
    net.operator(ofedDriver__version=NEW)
    net.until(lambda: net.labels(UPGRADE)[0] == "upgrade-failed")
    assert net.nodes()[0]["spec"]["unschedulable"]
    net.cluster.patch("/api/v1/nodes/gpu-0", {"metadata": {"annotations": {fault: None}}})
    net.until(lambda: net.labels(UPGRADE) == ["upgrade-done"] * 2)
    net.calm(NEW)


def test_a_gpu_driver_with_rdma_waits_for_the_cards(net: Net) -> None:
    """It is not Ready before the card's driver is loaded; a node without a card does not wait."""
    fault = "devcluster/network-driver-fault"
    net.cluster.patch("/api/v1/nodes/gpu-0", {"metadata": {"annotations": {fault: "image-pull"}}})
    net.operator(ofedDriver__version=OLD, ofedDriver__upgradePolicy__maxParallelUpgrades=0)
    net.until(lambda: net.truth.loaded_now()["gpu-0"] == "inbox")
    net.operator("gpu-operator", "gpu-operator", driver__rdma__enabled=True)
    gpus = net.cluster.state
    net.until(lambda: all(Truth.read(gpus).driver_ready_now(name) for name in ("gpu-1", "gpu-2")))
    assert not Truth.read(gpus).driver_ready_now("gpu-0")
    net.cluster.patch("/api/v1/nodes/gpu-0", {"metadata": {"annotations": {fault: None}}})
    net.until(lambda: Truth.read(gpus).driver_ready_now("gpu-0"))
    assert net.truth.loaded_now()["gpu-0"] == OLD


def test_a_policy_under_another_name_is_ignored(net: Net) -> None:
    """It says so in its status; and without a driver in the policy nobody waits for one."""
    body = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "another"}}
    net.cluster.create("/apis/mellanox.com/v1alpha1/nicclusterpolicies", body | {"spec": {}})
    path = "/apis/mellanox.com/v1alpha1/nicclusterpolicies/another"
    net.until(lambda: net.cluster.get(path).get("status", {}).get("state") == "ignore")
    net.cluster.delete(path)
    net.operator(ofedDriver__deploy=False)
    net.until(lambda: net.drivers() == [])
    net.until(lambda: net.status().get("state-OFED") == "ignore")
    net.until(lambda: net.labels(WAIT) == ["false"] * 2)
