"""What is particular to each operator: OpenShift, pools (NVIDIADriver), and the network operator's own rules."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.settings import Expect, Settings
from tests.fixtures import modes
from tests.fixtures.cluster import Cluster, reasons, stale_plugin, without_drivers, without_operator
from tests.fixtures.modes import Pool, avoiding, network, openshift, owner, pooled, rdma_pod, wants
from tests.fixtures.objects import Object, R, merged, obj, parsed
from tests.unit.decide import patches
from tests.unit.decide.runs import JOB, named, pods

UNOBSERVED = "metadata: {generation: 3}"


def expecting(version: str) -> Settings:
    """Return settings that expect a driver version."""
    return Settings(expect=Expect(driver_version=version))


# OpenShift.

OPENSHIFT_DRIVER = "nvidia-driver-daemonset-410.84.202203290245-0"
BY_DIGEST: Object = {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": modes.DIGEST}}}
WITHOUT_LABEL = "metadata: {labels: {app.kubernetes.io/component: null}}"
SHOWN = expecting("580.126.20")
ON_OPENSHIFT = {
    "by its owner": (
        openshift().put("plugin-pod", stale_plugin()).change("daemonset", WITHOUT_LABEL, OPENSHIFT_DRIVER), JOB,
        Reason.PLUGIN_STALE),
    "digest as asked": (openshift().change("policy", BY_DIGEST), JOB, Reason.VERIFIED),
    "not observed": (openshift().change("daemonset", UNOBSERVED, OPENSHIFT_DRIVER), JOB, Reason.NOT_RENDERED),
    "published as expected": (
        openshift().change("slice", patches.publishing("580.126.20")), SHOWN, Reason.VERIFIED),
    "not as expected": (openshift().change("slice", patches.publishing("570.124.6")), SHOWN, Reason.SLICE_OUTDATED),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "expected"), ON_OPENSHIFT.values(), ids=ON_OPENSHIFT)
def test_on_openshift_the_driver_is_found_by_its_component_or_its_owner(
    found: Cluster, settings: Settings, expected: Reason
) -> None:
    """Whatever its DaemonSet is called. Generation, hash and readiness decide, and an image where one is named."""
    assert expected is found.judge(settings).reason


# Pools: NVIDIADriver objects, with one driver DaemonSet each.

A, B, EMPTY = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",), version="570.124.06"), Pool("empty", ())


def stale_pools() -> Cluster:
    """Return two pools with different drivers, and plugins from before both."""
    return pooled(A, B).put("plugin-pod", stale_plugin("gpu-a"), stale_plugin("gpu-b"))


OLD_A = modes.pool_daemonset(Pool("a", ("gpu-a",), version="570.124.06"))
BACK: Object = {"useNvidiaDriverCRD": None, "repository": "nvcr.io/nvidia", "image": "driver", "version": "590.1.2"}
BY_POOL = {
    "done": (pooled(A, B), ["Verified", "Verified"]),
    "one is not rendered": (stale_pools().put("daemonset", OLD_A), ["NotRendered", "PluginStale"]),
    "one is outdated": (
        stale_pools().change("driver-pod", patches.OUTDATED, "driver-gpu-a"), ["DriverOutdated", "PluginStale"]),
    "one object is gone": (stale_pools().drop("pool", "a"), ["NotRendered", "PluginStale"]),
    "one DaemonSet was replaced": (
        stale_pools().drop("daemonset", "nvidia-gpu-driver-a"), ["DriverOrphaned", "PluginStale"]),
    "devices of the other pool's version": (
        pooled(A, B).change("slice", patches.publishing("570.124.6")), ["SliceOutdated", "Verified"]),
    "on the way back to one policy": (
        stale_pools().change("policy", {"spec": {"driver": BACK}}), ["NotRendered", "NotRendered"]),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), BY_POOL.values(), ids=BY_POOL)
def test_each_node_is_evaluated_by_the_pool_that_owns_its_driver(found: Cluster, expected: list[str]) -> None:
    """By its DaemonSet, its version and its object. What blocks one pool does not block the other's nodes."""
    assert expected == reasons(found.decide()[0].statuses)


def appearing() -> Cluster:
    """Return a pool, and another one whose DaemonSet has just been created."""
    found = pooled(A).put("pool", obj("pool/policy", "metadata: {name: b, uid: b-uid}"))
    return found.put("daemonset", merged(modes.pool_daemonset(B), parsed("metadata: {generation: 2}")))


LEFTOVER = merged(modes.pool_daemonset(EMPTY), {"metadata": {"ownerReferences": owner("gone")}})
MALFORMED = merged(obj("pool/policy"), parsed("spec: null"))
END_OF_POOLS = {
    "a pool with nodes is not ready": (pooled(A, B).change("pool", patches.ILL, "b"), Reason.POLICY_NOT_READY),
    "the policy is not ready": (pooled(A).change("policy", patches.ILL), Reason.POLICY_NOT_READY),
    "one without nodes is not ready": (pooled(A, EMPTY).change("pool", patches.ILL, "empty"), Reason.NOTHING_STALE),
    "a new pool": (appearing(), Reason.NOT_RENDERED),
    "a leftover of a deleted pool": (pooled(A).put("daemonset", LEFTOVER), Reason.NOTHING_STALE),
    "an object without a spec": (stale_pools().put("pool", MALFORMED), Reason.MALFORMED_OBJECT),
}


@pytest.mark.parametrize(("found", "expected"), END_OF_POOLS.values(), ids=END_OF_POOLS)
def test_the_pools_of_a_run_that_is_done(found: Cluster, expected: Reason) -> None:
    """Only objects whose DaemonSet has nodes delay the end."""
    assert expected is found.decide()[0].reason


@pytest.mark.parametrize(
    ("selector", "expected"),
    [({}, Reason.NOT_RENDERED), ({"pool": "new"}, Reason.NOT_RENDERED), ({"pool": "other"}, Reason.NOTHING_STALE)],
    ids=["all", "one node", "none"],
)
def test_a_new_pool_with_nodes_is_not_rendered_before_it_has_a_daemonset(
    selector: dict[str, str], expected: Reason
) -> None:
    """Also if it is the one that asks for the expected version. A pool without nodes gets none."""
    new: Object = {"metadata": {"name": "new", "uid": "new-uid"}, "spec": {"version": "590.1.2"}}
    found = pooled(Pool("old", ("a", "b"))).change("node", {"metadata": {"labels": {"pool": "new"}}}, "b")
    found.put("pool", obj("pool/policy", merged(new, {"spec": {"nodeSelector": selector}})))
    for settings in (JOB, expecting("590.1.2")):
        assert expected is found.decide(settings)[0].reason


@pytest.mark.parametrize("version", ["590.1.2", "580.126.20"])
def test_the_expected_version_is_not_demanded_of_a_pool_that_is_pinned(version: str) -> None:
    """Neither of one that names a digest, whose devices publish another version, nor where such a pool may be it."""
    found = pooled(A, B).change("pool", {"spec": {"version": modes.DIGEST}}, "b")
    found.change("daemonset", patches.running(f"nvcr.io/nvidia/driver@{modes.DIGEST}"), "nvidia-gpu-driver-b")
    decision, _memory = found.decide(expecting(version))
    assert (Phase.DONE, ["Verified", "Verified"]) == (decision.phase, reasons(decision.statuses))


OFF, AUTO = ({"upgradePolicy": {"autoUpgrade": on}} for on in (False, True))
WITH_OWNER = {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": "default"}}}
SANDBOX: Object = {"sandboxWorkloads": {"enabled": True}}
FOR_CONTAINERS = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "container"}}}


@pytest.mark.parametrize(
    ("policy", "in_pool", "nodes", "expected"),
    [
        ({"driver": AUTO}, {}, {}, Reason.DRIVER_OUTDATED),
        ({"driver": OFF}, {}, {}, Reason.MANUAL_UPGRADE),
        ({"driver": OFF}, {}, WITH_OWNER, Reason.DRIVER_OUTDATED),
        ({"driver": AUTO}, OFF, WITH_OWNER, Reason.MANUAL_UPGRADE),
        ({"driver": OFF}, AUTO, WITH_OWNER, Reason.DRIVER_OUTDATED),
        ({"driver": OFF}, {"upgradePolicy": {"maxUnavailable": 1}}, {}, Reason.DRIVER_OUTDATED),
        ({"driver": OFF, **SANDBOX}, AUTO, WITH_OWNER, Reason.MANUAL_UPGRADE),
        ({"driver": AUTO, **SANDBOX}, {}, WITH_OWNER, Reason.MANUAL_UPGRADE),
    ],
)
def test_which_upgrade_policy_counts_for_a_pool(
    policy: Object,
    in_pool: Object,
    nodes: Object,
    expected: Reason,
) -> None:
    """Its own from 26.7 on, where on is the default. Sandbox workloads turn all of them off."""
    found = pooled().change("policy", {"spec": policy}).change("pool", {"spec": in_pool})
    found.change("node", nodes).change("node", FOR_CONTAINERS).change("driver-pod", patches.OUTDATED)
    assert expected is found.judge().reason


@pytest.mark.parametrize(
    ("one", "other", "expected_reasons"),
    [
        (AUTO, OFF, ["ManualUpgrade", "DriverOutdated"]),
        (OFF, AUTO, ["DriverOutdated", "DriverOutdated"]),
    ],
)
def test_where_one_pool_has_an_upgrade_policy_silence_is_the_default(
    one: Object, other: Object, expected_reasons: list[str]
) -> None:
    """Of the others."""
    found = pooled(A, B).change("policy", {"spec": {"driver": one}}).change("pool", {"spec": other}, "a")
    assert expected_reasons == reasons(found.change("driver-pod", patches.OUTDATED).decide()[0].statuses)


# The network operator.

DRIVER = "mofed-ubuntu22.04-76944977f-ds"
NO_OFED = "spec: {ofedDriver: null}"


def outdated(*nodes: str) -> Cluster:
    """Return a network stack whose plugins all started before their drivers."""
    found = network(*nodes)
    return found.put("plugin-pod", *(rdma_pod(node["metadata"]["name"], started=-99) for node in found.of("node")))


@pytest.mark.parametrize(
    ("waited", "started", "expected"),
    [
        (R + 5, R + 6, Reason.VERIFIED),
        (R - 1, R, Reason.PLUGIN_STALE),  # in the same second
        (5, 6, Reason.PLUGIN_STALE),
    ],
)
def test_a_device_plugin_is_fresh_by_time_alone(waited: int, started: int, expected: Reason) -> None:
    """Its init container finishes with any mlx5_core, also that of the host. It publishes no slice to look for."""
    found = network().put("plugin-pod", rdma_pod(started=started, waited=waited))
    assert expected is found.judge().reason


def test_each_device_plugin_of_a_node_counts() -> None:
    """The stale one is restarted."""
    decision, _memory = modes.with_sriov(network("a", "b"), started=-5).decide()
    assert (["Verified", "PluginStale"] * 2, ["sriov-a", "sriov-b"]) == (reasons(decision.statuses), pods(decision))


@pytest.mark.parametrize(
    ("wait", "there", "gone"),
    [
        ("true", Reason.OPERANDS_PAUSED, Reason.OPERANDS_PAUSED),
        ("false", Reason.PLUGIN_STALE, Reason.PLUGIN_MISSING),
        (None, Reason.PLUGIN_STALE, Reason.NOTHING_TO_REFRESH),
    ],
)
def test_plugins_that_the_network_operator_removed_are_not_missed(
    wait: str | None, there: Reason, gone: Reason
) -> None:
    """Its own plugins select the wait label: they go, and come back fresh."""
    found = outdated().change("node", {"metadata": {"labels": {"network.nvidia.com/operator.mofed.wait": wait}}})
    assert there is found.judge().reason
    assert gone is found.drop("plugin-pod").judge().reason


def with_another(found: Cluster, patch: Object) -> Cluster:
    """Add a driver DaemonSet for another kernel."""
    (first,) = (each for each in found.of("daemonset") if each["metadata"]["name"] == DRIVER)
    return found.put("daemonset", named(merged(first, patch), f"{DRIVER}-2"))


def second_without(*elsewhere: str) -> Cluster:
    """Return two nodes of which the second has no pods; no DaemonSet wants any on these nodes."""
    found = network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b")
    return found.change("daemonset", avoiding(*elsewhere)) if elsewhere else found


FOR_VMS: Object = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "vm-passthrough"}}}
"""Of its GPUs."""
WITH_DRIVER = {
    "wanted": (second_without(), Reason.DRIVER_MISSING),
    "wanted by one of two": (with_another(second_without(), avoiding("a", "b")), Reason.DRIVER_MISSING),
    "wanted elsewhere, its pod still there": (
        network("a", "b").change("daemonset", avoiding("b"), DRIVER), Reason.VERIFIED),
    "no DaemonSet": (second_without().drop("daemonset", DRIVER), Reason.DRIVER_MISSING),
    "GPUs for virtual machines": (second_without("b").change("node", FOR_VMS, "b"), Reason.DRIVER_NOT_DEPLOYED),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), WITH_DRIVER.values(), ids=WITH_DRIVER)
def test_the_daemonsets_decide_which_nodes_have_a_network_driver(found: Cluster, expected: Reason) -> None:
    """No label does. A node without a driver pod gets none if none of them wants one there."""
    assert expected is found.decide()[0].statuses[1].reason


@pytest.mark.parametrize(
    ("found", "version", "expected"),
    [
        (network(), "doca3.4.0-26.04-0.8.6.0-0", Reason.EXPECTATION_UNMET),
        (pooled(A, B), "570.124.06", Reason.NOTHING_STALE),
        (pooled(A, B), "590", Reason.EXPECTATION_UNMET),
    ],
)
def test_an_expected_driver_version_is_that_of_the_policy_or_of_a_pool(
    found: Cluster, version: str, expected: Reason
) -> None:
    """If pools ask for different drivers, it must be among them."""
    assert expected is found.decide(expecting(version))[0].reason


NODE_POLICY: Object = {"metadata": {"ownerReferences": owner("nnp", "NicNodePolicy")}}
NEW_VERSION = "spec: {ofedDriver: {version: doca3.4.0-26.04-0.8.6.0-0}}"
OF_NODE_POLICY = {
    "no driver in the policy": (outdated().change("policy", NO_OFED), Reason.PLUGIN_STALE),
    "another version in the policy": (outdated().change("policy", NEW_VERSION), Reason.PLUGIN_STALE),
    "not observed": (outdated().change("daemonset", UNOBSERVED, DRIVER), Reason.NOT_RENDERED),
    "outdated": (outdated().change("driver-pod", patches.OUTDATED), Reason.DRIVER_OUTDATED),
}


@pytest.mark.parametrize(("found", "expected"), OF_NODE_POLICY.values(), ids=OF_NODE_POLICY)
def test_drivers_of_node_policies_are_evaluated_without_the_policy(found: Cluster, expected: Reason) -> None:
    """A NicNodePolicy is not read: generation and revision of its DaemonSets decide."""
    assert expected is found.change("daemonset", NODE_POLICY, DRIVER).judge().reason


def test_a_run_on_drivers_of_node_policies() -> None:
    """One of their DaemonSets is enough, next to a leftover of the policy. The upgrade controller reads the policy."""
    done = with_another(network(), wants(0)).change("policy", NO_OFED).change("daemonset", NODE_POLICY, DRIVER)
    assert Reason.NOTHING_STALE is done.decide()[0].reason
    none = done.change("daemonset", patches.NONE_WANTED, DRIVER)
    assert Reason.DRIVER_DISABLED is none.decide()[0].reason
    by_hand = network().change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: false}}}")
    by_hand.change("daemonset", NODE_POLICY, DRIVER).change("driver-pod", patches.OUTDATED)
    assert Reason.MANUAL_UPGRADE is by_hand.judge().reason


def test_only_a_network_policy_of_one_name_counts() -> None:
    """However old another object is. A policy without OFED deploys no driver."""
    created = "creationTimestamp: '2020-01-01T00:00:00Z'"
    older = obj("network/policy", f"{{metadata: {{name: older, uid: o, {created}}}, {NO_OFED}}}")
    assert network().decide() == network().put("policy", older).decide()
    decision, _memory = without_operator(network()).only("policy", older).decide()
    assert (Phase.SKIP, Reason.NO_POLICY) == (decision.phase, decision.reason)
    found = without_drivers(network()).change("policy", NO_OFED)
    assert Reason.DRIVER_DISABLED is found.decide()[0].reason
