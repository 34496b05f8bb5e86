"""The network operator's driver and the device plugins that hold it, next to the GPU operator's."""

from __future__ import annotations

from typing import Any, Final

from devcluster.truth import NETWORK, Truth
from tests.e2e import lab as gpu
from tests.e2e.lab import RELEASE, Boot, Lab
from tests.promises import promised

CHART: Final = "devcluster/charts/network-operator"
NAMESPACE: Final = "nvidia-network-operator"
OLD: Final = "doca3.2.0-25.10-1.2.8.0-2"
NEW: Final = "doca3.4.0-26.04-0.8.6.0-0"
BOTH: Final = ["gpu-0", "gpu-1"]
OWN: Final = "kube-sriov-device-plugin-amd64"
"""A device plugin that people deployed by themselves; no operator takes it off a node whose driver reloads."""
IMAGE: Final = "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin"
PLUGINS: Final = ("rdma-shared-dp-ds", "network-operator-sriov-device-plugin", OWN)
NIC: Final = "feature.node.kubernetes.io/pci-15b3.present"
PARALLEL: Final[dict[str, Any]] = {"ofedDriver__upgradePolicy__maxParallelUpgrades": 0}
SAFELY: Final[dict[str, Any]] = {"ofedDriver__upgradePolicy__safeLoad": True}
SECOND: Final = "network"
"""The second release of the chart, next to that of the GPU stack."""


def _operator(lab: Lab, driver: str, **values: Any) -> None:  # noqa: ANN401 - chart values
    """Install or upgrade the network operator; returns at once, long before drivers reload."""
    lab.helm_install("network-operator", CHART, NAMESPACE, {"ofedDriver__version": driver, **PARALLEL, **values})


def _own_plugin(lab: Lab) -> None:
    """Deploy a device plugin in addition to the operator's."""
    labels = {"name": "sriov-device-plugin", "tier": "node", "app": "sriovdp"}
    containers = [{"name": "kube-sriovdp", "image": IMAGE}]
    pod = {"nodeSelector": {NIC: "true"}, "tolerations": [{"operator": "Exists"}], "containers": containers}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"selector": {"matchLabels": {"name": labels["name"]}}, "template": template}
    body = {"metadata": {"name": OWN, "labels": {"app": "sriovdp"}}, "spec": spec}
    lab.cluster.create("/apis/apps/v1/namespaces/kube-system/daemonsets", body)


def _truth(lab: Lab) -> Truth:
    """Return the journal of the network's drivers."""
    return Truth.read(lab.cluster.state, NETWORK)


def _holding(lab: Lab) -> int:
    """Count the plugins that run on what is loaded."""
    running: set[str] = set()
    truth = _truth(lab)
    for each in truth.entries:
        if each.event == "plugin-ready":
            running.add(each.uid)
        elif each.event == "plugin-gone":
            running.discard(each.uid)
    return len(running) if not truth.stale_now() else 0


def _assert_clean(lab: Lab) -> None:
    """Assert the promises: nothing stale, early or needless, and one restart of each plugin on each node."""
    ours = f"system:serviceaccount:{gpu.NAMESPACE}:{SECOND}-{RELEASE}"
    deleted = {
        str(each["objectRef"]["name"])
        for each in lab.cluster.audit()
        if each["user"]["username"] == ours and each["verb"] == "delete" and each["responseStatus"]["code"] < 300
    }
    truth = _truth(lab)
    restarts = [each for each in truth.entries if each.event == "plugin-deleted" and each.pod in deleted]
    with promised():
        assert [each for each in restarts if not each.stale] == [], "needless"
        assert [each for each in restarts if not (each.driver_ready and each.driver_current)] == [], "early"
        assert truth.stale_now() == ()
    found = sorted((each.daemonset, each.node) for each in restarts)
    assert found == sorted((name, node) for name in PLUGINS for node in BOTH)


def test_two_releases_on_the_same_nodes(boot: Boot) -> None:
    """Both operators upgrade at once. Each release refreshes the plugins of its own stack, and writes its own state.

    The network driver is loaded safely. Its operator evicts no plugin: each is stale, and is restarted once.
    """
    lab = boot(2)
    lab.cluster.kubectl("label", "nodes", *BOTH, f"{NIC}=true")
    # A plugin that starts in the very second in which its driver is ready cannot be proven fresh: a pod takes longer
    # than that in reality.
    lab.settings(plugin_start_seconds=1.5)
    _operator(lab, OLD)
    lab.until(lambda: _truth(lab).running(OLD) == set(BOTH), "the old driver is loaded", 120)
    _own_plugin(lab)
    lab.until(lambda: _holding(lab) == len(PLUGINS) * len(BOTH), "three plugins run on each node", 120)
    lab.stale_fleet(nodes=2)
    _operator(lab, NEW, **SAFELY)
    own = {"namespace": "kube-system", "name": OWN}
    releases = [lab.start_post(), lab.start_post(release=SECOND, stack="network", driverClients=[own])]
    for release in releases:
        lab.succeeded(release)
    assert {each.node for each in _truth(lab).entries if each.event == "safe-load-asked"} == set(BOTH)
    lab.assert_clean(BOTH)
    _assert_clean(lab)
    assert (lab.writes(), lab.writes(f"{SECOND}-{RELEASE}")) == (["delete pods"] * 2, ["delete pods"] * 6)
    states = lab.cluster.list(
        f"/api/v1/namespaces/{gpu.NAMESPACE}/configmaps", labelSelector="gpu-operator-post/object=status"
    )
    versions = {each["metadata"]["name"]: each["data"]["driverVersion"] for each in states}
    assert versions == {f"{RELEASE}-status": gpu.NEW, f"{SECOND}-{RELEASE}-status": NEW}
