"""Warnings in addition to the verdict: what could not be evaluated, and what may fail later."""

from __future__ import annotations

from hook.config import DriverClient, Expect, OnManualUpgrade, Rbac, Settings
from hook.decide.result import Phase
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.modes import DIGEST, Pool, network, openshift, pooled, with_exporter, with_ofed
from tests.fixtures.objects import Object, obj

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
CORDONED = "spec: {unschedulable: true}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
CLIENT: Object = {"spec": {"template": {"spec": {"nodeSelector": {"nvidia.com/gpu.deploy.client": "true"}}}}}
ELSEWHERE: Object = {"spec": {"template": {"spec": {"nodeSelector": {"example.com/dra": "true"}}}}}
EVICTING: Object = {"spec": {"driver": {"manager": {"env": [
    {"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "example.com/dra"}]}}}}  # fmt: skip
BY_HAND = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"
ONE = "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}"
NOWHERE = "status: {desiredNumberScheduled: 0}"
EXPECTED = Settings(expect=Expect(driver_version="580.126.20"))
SCOPED = Settings(rbac=Rbac(namespaces=("gpu-operator",)))


def waiting() -> Cluster:
    """Return a node that waits for its turn, and two that do not."""
    return cluster("a", "b", "c").change("driver-pod", OLD_HASH, "driver-a")


def unlabelled(selector: Object, label: str | None = None) -> Cluster:
    """Return two nodes of which the plugin selects one."""
    found = cluster("a", "b").change("daemonset", selector, PLUGIN).change("daemonset", ONE, PLUGIN)
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}, "a")
    if label is not None:
        found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": label}}}, "b")
    return found.drop("plugin-pod", "plugin-b")


def unsighted() -> Cluster:
    """Return a cluster with GPUDirect RDMA whose network driver is nowhere."""
    return with_ofed(cluster(), network("gpu-0").drop("daemonset").drop("driver-pod"))


def two_pools() -> Cluster:
    """Return two pools, of which one names its version."""
    pools = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",)))
    return pools.change("pool", "spec: {version: null}", "b")


def test_no_warning_without_a_cause() -> None:
    """A warning that is always there is not read."""
    by_digest = {"repository": "nvcr.io/nvidia", "image": "driver", "version": DIGEST}
    hosts = cluster().change("node", labelled(deploy_driver="pre-installed")).drop("plugin-pod")
    for name, (found, settings) in {
        "nothing is wrong": (cluster("a", "b"), Settings()),
        "stale": (stale(), Settings()),
        "cordoned, and no node waits": (cluster("a", "b").change("node", CORDONED, "b"), Settings()),
        "a node waits, and none is cordoned": (waiting(), Settings()),
        "cordoned by the upgrade controller": (waiting().change("node", CORDONED, "b").change(
            "node", labelled("b", state="uncordon-required"), "b"), Settings()),
        "the waiting node is cordoned": (waiting().change("node", CORDONED, "a"), Settings()),
        "the network operator counts no cordoned nodes": (network("a", "b").change(
            "node", CORDONED, "a").change("driver-pod", OLD_HASH, "mofed-b"), Settings(
            drivers=("network",))),
        "the plugin selects by a label that is not read": (unlabelled(ELSEWHERE), Settings()),
        "it evicts by that label, and every plugin is there": (cluster("a", "b").change(
            "daemonset", ELSEWHERE, PLUGIN).change("policy", EVICTING), Settings()),
        "a node without a plugin for another reason": (unlabelled(CLIENT, "true"), Settings()),
        "a manual upgrade is waited for": (waiting().change("policy", BY_HAND), Settings(
            on_manual_upgrade=OnManualUpgrade.WAIT)),
        "driver client found": (with_exporter(cluster()), Settings(
            driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))),
        "network": (network(), Settings(drivers=("network",))),
        "no policy": (cluster().drop("policy"), Settings()),
        "a policy is expected": (cluster().drop("policy"), EXPECTED),
        "the policy names the version": (cluster(), EXPECTED),
        "the policy names another version": (cluster().change("policy", "spec: {driver: {version: 590.1}}"), EXPECTED),
        "the policy names a digest": (openshift().change("policy", {"spec": {"driver": by_digest}}), Settings()),
        "no plugin is desired, no node is eligible": (hosts.change("daemonset", NOWHERE, PLUGIN), Settings()),
        "no plugin is desired, all nodes are skipped": (cluster().drop("plugin-pod").change(
            "daemonset", NOWHERE, PLUGIN).change("node", labelled(skip="true")), Settings()),
        "no network driver, all namespaces are read": (unsighted(), Settings()),
        "network driver in sight": (with_ofed(cluster()), SCOPED),
    }.items():  # fmt: skip
        assert () == found.decide(settings)[0].warnings, name
    warnings = two_pools().decide(EXPECTED)[0].warnings
    assert not any("names no driver version" in warning for warning in warnings), "one pool names it"


def test_a_warning_is_no_failure() -> None:
    """A node was cordoned before the upgrade, a plugin is not named or wants no pod: the run is done."""
    for found in (
        cluster("a", "b").change("node", CORDONED, "b"),
        cluster().put("daemonset", obj("plugin-daemonset", "metadata: {name: mine, uid: mine}")),
        cluster().drop("plugin-pod").change("daemonset", NOWHERE, PLUGIN),
        unlabelled(CLIENT),
        openshift(),
    ):
        assert Phase.DONE is found.decide()[0].phase
