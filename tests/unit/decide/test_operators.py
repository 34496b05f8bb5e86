"""What is particular to each operator: OpenShift, pools (NVIDIADriver), and the network operator's own rules."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.objects.stacks import NETWORK_OPERATOR
from hook.settings import Expect, Settings
from tests.fixtures import modes
from tests.fixtures.cluster import (
    Cluster,
    cluster,
    reasons,
    stale_plugin,
    without_drivers,
    without_operator,
)
from tests.fixtures.modes import Pool, avoiding, network, openshift, owner, pooled, rdma_pod, wants
from tests.fixtures.objects import Object, R, merged, obj, parsed
from tests.unit.decide import patches
from tests.unit.decide.runs import PLUGIN, named, pods, timeline, wrong_decisions, wrong_nodes

UNOBSERVED = "metadata: {generation: 3}"


def test_on_openshift_the_driver_is_found_by_its_component_or_its_owner() -> None:
    """Whatever its DaemonSet is called. Generation, hash and readiness decide, and an image where one is named."""
    driver = "nvidia-driver-daemonset-410.84.202203290245-0"
    unlabelled = "metadata: {labels: {app.kubernetes.io/component: null}}"
    digest = {"spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": modes.DIGEST}}}
    old = openshift().put("plugin-pod", stale_plugin())
    assert {} == wrong_nodes({
        "by its owner": (old.change("daemonset", unlabelled, driver), Reason.PLUGIN_STALE),
        "digest as asked": (openshift().change("policy", digest), Reason.VERIFIED),
        "not observed": (openshift().change("daemonset", UNOBSERVED, driver), Reason.NOT_RENDERED),
    })  # fmt: skip
    assert {} == wrong_decisions({
        "published as expected": (openshift().change("slice", patches.publishing("580.126.20")), Reason.NOTHING_STALE),
        "not as expected": (openshift().change("slice", patches.publishing("570.124.6")), Reason.NODES_PENDING),
    }, Settings(expect=Expect(driver_version="580.126.20")))  # fmt: skip


def test_a_plugin_that_the_driver_manager_evicts_is_waited_for() -> None:
    """Its label, by default or as the policy or a pool configures it, is paused while the driver is unloaded."""
    configured = "nvidia.com/dra-kubelet-plugin"
    manager: Object = {"manager": {"env": [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": configured}]}}

    def selecting(label: str, found: Cluster) -> Cluster:
        selector = {"spec": {"template": {"spec": {"nodeSelector": {label: "true"}}}}}
        return found.change("daemonset", selector, PLUGIN).change("node", {"metadata": {"labels": {label: "true"}}})

    in_pool = pooled(Pool()).change("pool", {"spec": manager})
    in_policy = cluster().change("policy", {"spec": {"driver": manager}})
    client = "nvidia.com/gpu.deploy.client"
    for label, found in ((client, cluster()), (configured, in_policy), (configured, in_pool)):
        decision, _memory = selecting(label, found).decide()
        assert Phase.DONE is decision.phase
        if found is not in_pool:
            found.change("node", {"metadata": {"labels": {label: "paused-for-driver-upgrade"}}}).drop("plugin-pod")
            assert Reason.OPERANDS_PAUSED is found.judge().reason, label


# Pools: NVIDIADriver objects, with one driver DaemonSet each.

A, B, EMPTY = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",), version="570.124.06"), Pool("empty", ())


def stale_pools() -> Cluster:
    """Return two pools with different drivers, and plugins from before both."""
    return pooled(A, B).put("plugin-pod", stale_plugin("gpu-a"), stale_plugin("gpu-b"))


def test_each_node_is_evaluated_by_the_pool_that_owns_its_driver() -> None:
    """By its DaemonSet, its version and its object. What blocks one pool does not block the other's nodes."""
    old = modes.pool_daemonset(Pool("a", ("gpu-a",), version="570.124.06"))
    back = {"useNvidiaDriverCRD": None, "repository": "nvcr.io/nvidia", "image": "driver", "version": "590.1.2"}
    cases: dict[str, tuple[Cluster, list[str]]] = {
        "done": (pooled(A, B), ["Verified", "Verified"]),
        "one is not rendered": (stale_pools().put("daemonset", old), ["NotRendered", "PluginStale"]),
        "one is outdated": (stale_pools().change("driver-pod", patches.OUTDATED, "driver-gpu-a"),
                            ["DriverOutdated", "PluginStale"]),
        "one object is gone": (stale_pools().drop("pool", "a"), ["NotRendered", "PluginStale"]),
        "one DaemonSet was replaced": (stale_pools().drop("daemonset", "nvidia-gpu-driver-a"),
                                       ["DriverOrphaned", "PluginStale"]),
        "devices of the other pool's version": (pooled(A, B).change("slice", patches.publishing("570.124.6")),
                                                ["SliceOutdated", "Verified"]),
        "on the way back to one policy": (stale_pools().change("policy", {"spec": {"driver": back}}),
                                          ["NotRendered", "NotRendered"]),
    }  # fmt: skip
    for name, (found, expected) in cases.items():
        assert expected == reasons(found.decide()[0].statuses), name


def test_the_pools_of_a_run_that_is_done() -> None:
    """Only objects whose DaemonSet has nodes delay the end, and for a grace period only."""
    leftover = merged(modes.pool_daemonset(EMPTY), {"metadata": {"ownerReferences": owner("gone")}})
    appearing = pooled(A).put("pool", obj("pool/policy", "metadata: {name: b, uid: b-uid}"))
    appearing.put("daemonset", merged(modes.pool_daemonset(B), parsed("metadata: {generation: 2}")))
    malformed = stale_pools().put("pool", merged(obj("pool/policy"), parsed("spec: null")))
    assert {} == wrong_decisions({
        "a pool with nodes is not ready": (pooled(A, B).change("pool", patches.ILL, "b"), Reason.POLICY_NOT_READY),
        "the policy is not ready": (pooled(A).change("policy", patches.ILL), Reason.POLICY_NOT_READY),
        "one without nodes is not ready": (pooled(A, EMPTY).change("pool", patches.ILL, "empty"), Reason.NOTHING_STALE),
        "an object without a DaemonSet": (
            pooled(A).put("pool", obj("pool/policy", "{metadata: {name: b, uid: b}, spec: {nodeSelector: {x: y}}}")),
            Reason.NOTHING_STALE),
        "a new pool": (appearing, Reason.NOT_RENDERED),
        "a leftover of a deleted pool": (pooled(A).put("daemonset", leftover), Reason.NOTHING_STALE),
        "an object without a spec": (malformed, Reason.MALFORMED_OBJECT),
    })  # fmt: skip
    assert () == malformed.decide()[0].actions
    found = pooled(A).change("pool", patches.ILL)
    decisions = timeline(*((seconds, found) for seconds in (0, 119, 120)))
    assert [Phase.WAIT, Phase.WAIT, Phase.DONE] == [decision.phase for decision in decisions]
    assert "the state of NVIDIADriver a is notReady" in decisions[2].warnings[0]


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


def test_one_label_shows_an_operator_that_labels_nodes_with_their_pool() -> None:
    """From 26.7 on."""
    found = pooled(A, B).change("policy", {"spec": {"driver": OFF}}).change("node", WITH_OWNER, A.nodes[0])
    assert ["DriverOutdated"] * 2 == reasons(found.change("driver-pod", patches.OUTDATED).decide()[0].statuses)


def test_the_network_operator_upgrades_nothing_by_default() -> None:
    """Its policy must ask for it."""
    found = network().change("policy", "spec: {ofedDriver: {upgradePolicy: null}}")
    assert Reason.MANUAL_UPGRADE is found.change("driver-pod", patches.OUTDATED).judge().reason, "its default"


# The network operator.

DRIVER, RDMA = "mofed-ubuntu22.04-76944977f-ds", "rdma-shared-dp-ds"
NEW_VERSION = "spec: {ofedDriver: {version: doca3.4.0-26.04-0.8.6.0-0}}"
NO_OFED = "spec: {ofedDriver: null}"


def labels(**values: str | None) -> Object:
    """Return a patch of a node's labels: ``state``, ``skip`` and ``wait``."""
    keys = {"state": "nvidia.com/ofed-driver-upgrade-state", "skip": "nvidia.com/ofed-driver-upgrade.skip",
            "wait": "network.nvidia.com/operator.mofed.wait"}  # fmt: skip
    return {"metadata": {"labels": {keys[word]: value for word, value in values.items()}}}


def outdated(*nodes: str, part: str = "node", patch: str | Object = "{}", name: str = "") -> Cluster:
    """Return a network stack whose plugins all started before their drivers, and which is changed by a patch."""
    found = network(*nodes)
    found.put("plugin-pod", *(rdma_pod(node["metadata"]["name"], started=-99) for node in found.of("node")))
    return found.change(part, patch, name)


@pytest.mark.parametrize(
    ("waited", "started", "expected"),
    [
        (R + 5, R + 6, Reason.VERIFIED),
        (R - 1, R, Reason.PLUGIN_STALE),  # in the same second
        (5, 6, Reason.PLUGIN_STALE),
        (-99, -98, Reason.PLUGIN_STALE),
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
    found = outdated(patch=labels(wait=wait))
    assert there is found.judge().reason
    assert gone is found.drop("plugin-pod").judge().reason


def with_another(found: Cluster, patch: Object) -> Cluster:
    """Add a driver DaemonSet for another kernel."""
    (first,) = (each for each in found.of("daemonset") if each["metadata"]["name"] == DRIVER)
    return found.put("daemonset", named(merged(first, patch), f"{DRIVER}-2"))


def test_the_daemonsets_decide_which_nodes_have_a_network_driver() -> None:
    """No label does. A node without a driver pod gets none if none of them wants one there."""

    def second_without(*elsewhere: str) -> Cluster:
        found = network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b")
        return found.change("daemonset", avoiding(*elsewhere)) if elsewhere else found

    for_vms = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "vm-passthrough"}}}  # of its GPUs
    for name, (found, expected) in {
        "wanted elsewhere": (second_without("b"), Reason.DRIVER_NOT_DEPLOYED),
        "wanted": (second_without(), Reason.DRIVER_MISSING),
        "wanted by one of two": (with_another(second_without(), avoiding("a", "b")), Reason.DRIVER_MISSING),
        "wanted elsewhere, its pod still there": (
            network("a", "b").change("daemonset", avoiding("b"), DRIVER),
            Reason.VERIFIED,
        ),
        "no DaemonSet": (second_without().drop("daemonset", DRIVER), Reason.DRIVER_MISSING),
        "GPUs for virtual machines": (second_without("b").change("node", for_vms, "b"), Reason.DRIVER_NOT_DEPLOYED),
    }.items():
        assert expected is found.decide()[0].statuses[1].reason, name


def test_done_waits_for_the_network_operator() -> None:
    """For its Lease and Deployment, and of all that the policy reports, for the state of the driver."""
    old = "spec: {holderIdentity: network-operator-7d9f5c6b8d-abcde_uuid}"

    def reporting(status: str) -> Cluster:
        policy = merged(obj("network/policy"), {"status": None})
        return network().only("policy", merged(policy, parsed(f"status: {status}")))

    other = "{appliedStates: [{name: state-OFED, state: ready}, {name: x, state: error}], state: notReady}"
    assert {} == wrong_decisions({
        "OFED is not ready": (reporting("{appliedStates: [{name: state-OFED, state: notReady}], state: ready}"),
                              Reason.POLICY_NOT_READY),
        "something else is not ready": (reporting(other), Reason.NOTHING_STALE),
        "never reconciled": (reporting("null"), Reason.POLICY_NOT_READY),
        "old leader": (network().change("lease", old), Reason.OPERATOR_NOT_LEADING),
        "rolling out": (network().change("deployment", "status: {updatedReplicas: 0}"), Reason.OPERATOR_ROLLING_OUT),
    })  # fmt: skip


def test_an_expected_driver_version_is_that_of_the_policy_or_of_a_pool() -> None:
    """If pools ask for different drivers, it must be among them."""
    new = "doca3.4.0-26.04-0.8.6.0-0"
    for found, version, reason in (
        (network(), new, Reason.EXPECTATION_UNMET),
        (pooled(A, B), "580.126.20", Reason.NOTHING_STALE),
        (pooled(A, B), "570.124.06", Reason.NOTHING_STALE),
        (pooled(A, B), "590", Reason.EXPECTATION_UNMET),
    ):
        assert reason is found.decide(Settings(expect=Expect(driver_version=version)))[0].reason, version


def test_drivers_of_node_policies_are_evaluated_without_the_policy() -> None:
    """A NicNodePolicy is not read: generation and revision of its DaemonSets decide."""
    other_owner: Object = {"metadata": {"ownerReferences": owner("nnp", "NicNodePolicy")}}
    for name, (found, expected) in {
        "no driver in the policy": (outdated(part="policy", patch=NO_OFED), "PluginStale"),
        "another version in the policy": (outdated(part="policy", patch=NEW_VERSION), "PluginStale"),
        "not observed": (outdated(part="daemonset", patch=UNOBSERVED, name=DRIVER), "NotRendered"),
        "outdated": (outdated(part="driver-pod", patch=patches.OUTDATED), "DriverOutdated"),
    }.items():
        decision, _memory = found.change("daemonset", other_owner, DRIVER).decide()
        assert (Phase.WAIT, [expected]) == (decision.phase, reasons(decision.statuses)), name
    # One of its DaemonSets is enough, next to a leftover of the policy.
    done = with_another(network(), wants(0)).change("policy", NO_OFED).change("daemonset", other_owner, DRIVER)
    assert Reason.NOTHING_STALE is done.decide()[0].reason
    # The upgrade controller reads the policy alone.
    by_hand = network().change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: false}}}")
    by_hand.change("daemonset", other_owner, DRIVER).change("driver-pod", patches.OUTDATED)
    assert Reason.MANUAL_UPGRADE is by_hand.judge().reason
    none = outdated(part="policy", patch=NO_OFED).change("daemonset", other_owner, DRIVER)
    assert Reason.DRIVER_DISABLED is none.change("daemonset", patches.NONE_WANTED, DRIVER).decide()[0].reason


def test_only_a_network_policy_of_one_name_counts() -> None:
    """However old another object is. A policy without OFED deploys no driver."""
    created = "creationTimestamp: '2020-01-01T00:00:00Z'"
    older = obj("network/policy", f"{{metadata: {{name: older, uid: o, {created}}}, {NO_OFED}}}")
    assert network().decide() == network().put("policy", older).decide()
    decision, _memory = without_operator(network()).only("policy", older).decide()
    assert (Phase.SKIP, Reason.NO_POLICY) == (decision.phase, decision.reason)
    found = without_drivers(network()).change("policy", NO_OFED)
    assert Reason.DRIVER_DISABLED is found.decide()[0].reason


@pytest.mark.parametrize("waits", [True, False])
def test_a_network_driver_that_waits_for_the_drain_of_its_node_is_reported_so(*, waits: bool) -> None:
    """Another one is only not ready yet."""
    annotation = {"metadata": {"annotations": {NETWORK_OPERATOR.nodes.safe_load: "true" if waits else None}}}
    status = network().change("driver-pod", patches.NOT_READY).change("node", annotation).judge()
    assert (Reason.DRIVER_NOT_READY, waits) == (status.reason, "until its node is drained" in status.message)
