"""The network operator: another row of the same table, judged by the same rules."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Expect, Settings
from hook.decide import rollout
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.decide.state import Memory
from hook.objects import policies, readers
from hook.objects.drivers import NETWORK_OPERATOR
from tests.fixtures.cluster import LATER, Cluster
from tests.fixtures.modes import network, ofed_pod, rdma_pod, with_sriov
from tests.fixtures.objects import Object, R, conditions, merged, obj, parsed, running, stamp, waiting

DRIVER, RDMA = "mofed-ubuntu22.04-76944977f-ds", "rdma-shared-dp-ds"
STATE = "nvidia.com/ofed-driver-upgrade-state"
WAIT = "network.nvidia.com/operator.mofed.wait"
PRESENT = "feature.node.kubernetes.io/pci-15b3.present"
BASE, VERSION = "nvcr.io/nvidia/mellanox/doca-driver", "doca3.2.0-25.10-1.2.8.0-2"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
SAFE_LOAD = "metadata: {annotations: {nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load: 'true'}}"


def stale_network(*nodes: str) -> Cluster:
    """Give a network stack whose plugins all started before their drivers."""
    found = network(*nodes)
    return found.put("plugin-pod", *(rdma_pod(one["metadata"]["name"], started=-99) for one in found.of("node")))


def labels(**values: str | None) -> Object:
    """Give a patch of a node's labels: ``state``, ``skip``, ``wait`` and ``present``."""
    keys = {"state": STATE, "skip": "nvidia.com/ofed-driver-upgrade.skip", "wait": WAIT, "present": PRESENT}
    return {"metadata": {"labels": {keys[word]: value for word, value in values.items()}}}


@pytest.mark.parametrize(
    ("found", "state", "expected"),
    [
        pytest.param(network(), NodeState.VERIFIED, Reason.VERIFIED, id="done"),
        pytest.param(stale_network(), NodeState.STALE, Reason.PLUGIN_STALE, id="stale"),
        pytest.param(stale_network().change("node", labels(skip="true")), NodeState.EXCLUDED, Reason.NODE_SKIPPED,
                     id="skipped"),
        pytest.param(stale_network().change("node", labels(state="drain-required")), NodeState.WAITING,
                     Reason.UPGRADE_IN_PROGRESS, id="its-turn-comes"),
        pytest.param(stale_network().change("node", labels(state="node-maintenance-required")), NodeState.WAITING,
                     Reason.UPGRADE_IN_PROGRESS, id="by-the-maintenance-operator"),
        pytest.param(stale_network().change("node", labels(state="uncordon-required")), NodeState.STALE,
                     Reason.PLUGIN_STALE, id="rotated-and-labels-trail"),
        pytest.param(stale_network().change("node", labels(state="something-new")), NodeState.WAITING,
                     Reason.UPGRADE_STATE_UNKNOWN, id="a-state-that-nobody-documented"),
        pytest.param(stale_network().change("node", labels(wait="true")), NodeState.WAITING, Reason.OPERANDS_PAUSED,
                     id="the-operator-says-wait"),
        pytest.param(stale_network().change("node", labels(wait=None)), NodeState.STALE, Reason.PLUGIN_STALE,
                     id="the-operator-says-nothing"),
        pytest.param(stale_network().change("driver-pod", OLD_HASH), NodeState.WAITING, Reason.DRIVER_OUTDATED,
                     id="outdated"),
        pytest.param(stale_network().put("driver-pod", ofed_pod(ready=None)), NodeState.WAITING,
                     Reason.DRIVER_NOT_READY, id="loading"),
        pytest.param(stale_network().drop("driver-pod"), NodeState.WAITING, Reason.DRIVER_MISSING, id="between-pods"),
        pytest.param(stale_network().change("daemonset", "metadata: {generation: 3}", DRIVER), NodeState.WAITING,
                     Reason.NOT_RENDERED, id="not-observed"),
        pytest.param(stale_network().change("policy", "spec: {ofedDriver: {version: doca3.4.0-26.04-0.8.6.0-0}}"),
                     NodeState.WAITING, Reason.NOT_RENDERED, id="another-version-is-asked-for"),
        pytest.param(stale_network().change("node", labels(present=None)), NodeState.WAITING, Reason.LABELS_MISSING,
                     id="nfd-is-down"),
        pytest.param(stale_network().drop("revision"), NodeState.WAITING, Reason.DRIVER_OUTDATED, id="no-revision"),
    ],
)  # fmt: skip
def test_a_node_is_judged_by_the_networks_own_labels(found: Cluster, state: NodeState, expected: Reason) -> None:
    """The same guards in the same order as for GPUs."""
    judged = found.judge()
    assert (state, expected) == (judged.state, judged.reason)


@pytest.mark.parametrize(
    ("waited", "started", "expected"),
    [
        pytest.param(R + 5, R + 6, Reason.VERIFIED, id="after-ready"),
        pytest.param(R - 1, R, Reason.PLUGIN_STALE, id="in-the-same-second"),
        pytest.param(5, 6, Reason.PLUGIN_STALE, id="between-start-and-ready"),
        pytest.param(-99, -98, Reason.PLUGIN_STALE, id="before-the-driver"),
    ],
)
def test_a_plugin_is_fresh_by_time_alone(waited: float, started: float, expected: Reason) -> None:
    """Its init container looks for any mlx5_core, also the host's own: that it ended proves nothing."""
    assert expected is network().put("plugin-pod", rdma_pod(started=started, waited=waited)).judge().reason


def test_both_device_plugins_are_served() -> None:
    """Each by itself."""
    found = with_sriov(network("a", "b"), started=-5)
    decision, _memory = found.decide()
    assert [Reason.VERIFIED, Reason.PLUGIN_STALE] * 2 == [one.reason for one in decision.statuses]
    assert ["sriov-a", "sriov-b"] == [one.pod.name for one in decision.actions if isinstance(one, DeletePod)]


def test_no_slice_is_looked_for() -> None:
    """Device plugins publish none: Ready and fresh is all that there is to prove."""
    decision, _memory = network().decide()
    assert (Phase.DONE, "no device plugin needed a restart, 1 run on the loaded driver") == (
        decision.phase,
        decision.message,
    )


def test_plugins_that_the_operator_took_away_are_not_missed() -> None:
    """The operator's own plugins select the wait label: they go, and come back fresh, without us."""
    found = network().drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", RDMA)
    paused = found.change("node", labels(wait="true")).judge()
    assert (Reason.OPERANDS_PAUSED, True) == (paused.reason, WAIT in paused.message)
    assert found.change("node", labels(wait="false")).judge().reason is Reason.NOTHING_TO_REFRESH


@pytest.mark.parametrize(
    ("asked", "image", "expected"),
    [
        pytest.param(VERSION, f"{BASE}:{VERSION}-ubuntu22.04-amd64", True, id="compiled"),
        pytest.param(VERSION, f"{BASE}:{VERSION}-rhcos4.17-arm64", True, id="openshift-on-arm"),
        pytest.param(VERSION, f"{BASE}:{VERSION}-5.15.0-105-generic-ubuntu22.04-amd64", True,
                     id="precompiled-where-the-registry-has-it"),
        pytest.param(VERSION, f"{BASE}:{VERSION}-ubuntu22.04", False, id="no-architecture"),
        pytest.param(VERSION, f"{BASE}:{VERSION}", False, id="bare"),
        pytest.param("doca3.2.0", f"{BASE}:{VERSION}-ubuntu22.04-amd64", False, id="prefix-of-a-version"),
        pytest.param(VERSION, f"{BASE}:doca3.4.0-26.04-0.8.6.0-0-ubuntu22.04-amd64", False, id="another-version"),
        pytest.param("sha256:" + "0a" * 32, f"{BASE}@sha256:{'0a' * 32}", True, id="digest"),
        pytest.param("sha256:" + "0a" * 32, f"{BASE}@sha256:{'1b' * 32}", False, id="another-digest"),
    ],
)  # fmt: skip
def test_the_networks_own_tags_are_compared(asked: str, image: str, expected: bool) -> None:
    """Version, maybe the kernel, system and architecture."""
    policy = policies.nic_cluster_policy(obj("network/policy", {"spec": {"ofedDriver": {"version": asked}}}))
    containers = [{"name": "mofed-container", "image": image}]
    rendered = obj("network/driver-daemonset", {"spec": {"template": {"spec": {"containers": containers}}}})
    assert expected == (rollout.unrendered(readers.daemonset(rendered), policy, NETWORK_OPERATOR) == "")


def test_nodes_of_several_kernels_have_daemonsets_of_their_own() -> None:
    """Each is judged by its own revision."""
    found = stale_network("a", "b")
    second = "{metadata: {name: mofed-b, uid: b-ds}}"
    found.put("daemonset", obj("network/driver-daemonset", second))
    found.change("driver-pod", "metadata: {ownerReferences: [{uid: b-ds, controller: true}]}", "mofed-b")
    assert [Reason.PLUGIN_STALE, Reason.DRIVER_OUTDATED] == [one.reason for one in found.decide()[0].statuses]
    revision = "{metadata: {name: b, ownerReferences: [{uid: b-ds, controller: true}]}}"
    found.put("revision", obj("network/revision", revision))
    assert [Reason.PLUGIN_STALE] * 2 == [one.reason for one in found.decide()[0].statuses]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b")
                     .change("daemonset", "status: {desiredNumberScheduled: 1}"), Reason.DRIVER_NOT_DEPLOYED,
                     id="every-daemonset-has-what-it-wants"),
        pytest.param(network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b"),
                     Reason.DRIVER_MISSING, id="one-is-still-wanted"),
        pytest.param(network("a", "b").drop("driver-pod", "mofed-b").drop("daemonset", DRIVER),
                     Reason.DRIVER_MISSING, id="no-daemonset-that-could-tell"),
    ],
)  # fmt: skip
def test_no_label_says_where_a_driver_belongs_so_the_daemonsets_do(found: Cluster, expected: Reason) -> None:
    """A node without a driver pod has none to come once they all have as many as they want."""
    assert expected is found.decide()[0].statuses[1].reason


def test_a_network_without_any_wanted_driver_is_left_alone() -> None:
    """No node has the kernel or system of any DaemonSet."""
    found = network().drop("driver-pod").drop("plugin-pod")
    decision, _memory = found.change("daemonset", "status: {desiredNumberScheduled: 0}").decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)
    assert "no driver DaemonSet wants a pod there" in decision.message


def test_a_driver_that_waits_for_its_node_to_be_drained_says_so() -> None:
    """Safe load: the new pod's init container waits for the upgrade controller."""
    pod = merged(ofed_pod(ready=None), {"status": {
        "initContainerStatuses": [running("network-operator-init-container", 5)],
        "containerStatuses": [waiting("mofed-container", "PodInitializing")]}})  # fmt: skip
    found = stale_network().put("driver-pod", pod)
    assert "drained" not in found.judge().message
    judged = found.change("node", SAFE_LOAD).judge()
    assert Reason.DRIVER_NOT_READY is judged.reason
    assert (
        "it waits until its node is drained (nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load)"
        in judged.message
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param("{appliedStates: [{name: state-OFED, state: notReady}], state: ready}", Reason.POLICY_NOT_READY,
                     id="ofed-is-not-ready"),
        pytest.param("{appliedStates: [{name: state-OFED, state: ready}, {name: x, state: error}], state: notReady}",
                     Reason.NOTHING_STALE, id="something-else-is-not-ready"),
        pytest.param("null", Reason.POLICY_NOT_READY, id="never-reconciled"),
    ],
)  # fmt: skip
def test_the_drivers_own_state_counts_of_all_that_the_policy_says(status: str, expected: Reason) -> None:
    """A NicClusterPolicy is about many things beside the driver."""
    found = network()
    found.only("policy", merged(merged(obj("network/policy"), {"status": None}), parsed(f"status: {status}")))
    assert expected is found.decide()[0].reason


def test_done_waits_for_the_network_operators_own_leader() -> None:
    """By its own lease and Deployment."""
    old = "spec: {holderIdentity: network-operator-7d9f5c6b8d-abcde_uuid}"
    assert network().change("lease", old).decide()[0].reason is Reason.OPERATOR_NOT_LEADING
    rolling = network().change("deployment", "status: {updatedReplicas: 0}").decide()[0]
    assert Reason.OPERATOR_ROLLING_OUT is rolling.reason
    assert "the network operator's Deployment" in rolling.message


def crashing(restarts: int = 7) -> Object:
    """Give an OFED pod whose container crashed again and again, and happens to run."""
    ran = running("mofed-container", 100, restarts=restarts, ended_before=90)
    changed: Object = merged(
        ofed_pod(ready=None), {"status": {"conditions": conditions(None), "containerStatuses": [ran]}}
    )
    return changed


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(crashing(), Reason.DRIVER_FAILING, id="between-two-crashes"),
        pytest.param(crashing(1), Reason.DRIVER_NOT_READY, id="crashed-once"),
        pytest.param(merged(ofed_pod(ready=None), {"status": {
            "containerStatuses": [waiting("mofed-container", "CrashLoopBackOff")]}}), Reason.DRIVER_FAILING,
            id="backing-off"),
        pytest.param(merged(ofed_pod(ready=None), {"status": {
            "containerStatuses": [waiting("mofed-container", "ImagePullBackOff")]}}), Reason.DRIVER_FAILING,
            id="no-image"),
    ],
)  # fmt: skip
def test_a_network_driver_that_cannot_start_needs_a_person(pod: Object, expected: Reason) -> None:
    """Also in a moment in which it happens to run."""
    assert expected is stale_network().put("driver-pod", pod).judge().reason


@pytest.mark.parametrize("found", [
    pytest.param(network(), id="although-the-plugin-is-verified"),
    pytest.param(network().put("driver-pod", ofed_pod(ready=None)), id="while-the-driver-is-not-ready"),
])  # fmt: skip
def test_a_failed_network_upgrade_is_told_with_the_networks_own_steps(found: Cluster) -> None:
    """Drain, and delete the driver pod, as the operator's documentation has it."""
    found.change("node", labels(state="upgrade-failed"))
    first, memory = found.decide(memory=Memory(started=LATER))
    last, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=5))
    assert (Phase.WAIT, Phase.FAIL, Reason.UPGRADE_FAILED) == (first.phase, last.phase, last.reason)
    judged = last.statuses[0]
    fix = remedy(judged.reason, judged.node, judged.subject, NETWORK_OPERATOR)
    assert "after removing the cause and draining the node (kubectl drain nic-0 " in fix
    assert "driver-wait-for-safe-load" in fix
    assert fix.endswith("kubectl -n nvidia-network-operator delete pod mofed-nic-0")


def test_a_cordoned_network_node_takes_nobodys_turn() -> None:
    """The network operator has no maxUnavailable that it could use up."""
    found = network("a", "b").change("node", labels(state="upgrade-required"), "a")
    decision, _memory = found.change("node", "spec: {unschedulable: true}", "b").decide()
    assert Reason.UPGRADE_IN_PROGRESS is decision.statuses[0].reason
    assert not any("maxUnavailable" in one for one in decision.warnings)


def test_a_whole_rotation_of_the_network_driver() -> None:
    """Old pod gone, inbox driver back, new pod loading, Ready: the plugin that slept through it is restarted once."""
    memory, told = Memory(started=LATER), []
    base = LATER - timedelta(seconds=3600)
    steps = (
        network().change("node", labels(state="pod-restart-required")).drop("driver-pod"),
        network()
        .change("node", labels(state="pod-restart-required"))
        .put("driver-pod", ofed_pod(started=3605, ready=None)),
        network()
        .change("node", labels(state="uncordon-required"))
        .put("driver-pod", ofed_pod(started=3605, ready=3640)),
        network().put("driver-pod", ofed_pod(started=3605, ready=3640)).put("plugin-pod", rdma_pod(started=3650)),
    )
    for seconds, found in zip((3600, 3610, 3645, 3700), steps, strict=True):
        found.change("revision", {"metadata": {"creationTimestamp": stamp(3590)}})
        decision, memory = found.decide(memory=memory, now=base + timedelta(seconds=seconds))
        told.append((decision.statuses[0].reason, len(decision.actions)))
    assert [
        (Reason.DRIVER_MISSING, 0), (Reason.DRIVER_NOT_READY, 0), (Reason.PLUGIN_STALE, 1), (Reason.VERIFIED, 0)
    ] == told  # fmt: skip
    assert decision.phase is Phase.DONE


def test_what_is_expected_is_expected_of_the_first_stack() -> None:
    """A GPU driver's version is no OFED version."""
    both = Settings(drivers=("gpu", "network"), expect=Expect(driver_version="580.126.20", chart_version="v26.3.4"))
    assert Phase.DONE is network().decide(both)[0].phase
    alone = Settings(drivers=("network",), expect=Expect(driver_version="doca3.4.0-26.04-0.8.6.0-0"))
    assert Reason.EXPECTATION_UNMET is network().decide(alone)[0].reason
    assert Phase.DONE is network().decide(Settings(drivers=("network",), expect=Expect(chart_version="1")))[0].phase


def test_what_gpus_are_for_says_nothing_about_a_network_device() -> None:
    """A node may pass its GPUs to virtual machines and have no OFED driver for another reason."""
    found = network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b")
    found.change("daemonset", "status: {desiredNumberScheduled: 1}")
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "vm-passthrough"}}}, "b")
    assert Reason.DRIVER_NOT_DEPLOYED is found.decide()[0].statuses[1].reason


OTHER_OWNER: Object = {"metadata": {"ownerReferences": [{"kind": "NicNodePolicy", "uid": "nnp", "controller": True}]}}
ELSEWHERE = "spec: {ofedDriver: {version: doca3.4.0-26.04-0.8.6.0-0}}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale_network().change("policy", "spec: {ofedDriver: null}"), Reason.PLUGIN_STALE,
                     id="the-policy-asks-for-no-driver"),
        pytest.param(stale_network().change("policy", ELSEWHERE), Reason.PLUGIN_STALE,
                     id="the-policy-asks-for-another-version"),
        pytest.param(stale_network().change("daemonset", "metadata: {generation: 3}", DRIVER), Reason.NOT_RENDERED,
                     id="not-observed"),
        pytest.param(stale_network().change("driver-pod", OLD_HASH), Reason.DRIVER_OUTDATED, id="rotating"),
    ],
)  # fmt: skip
def test_drivers_of_node_policies_are_judged_without_the_policy(found: Cluster, expected: Reason) -> None:
    """A NicNodePolicy is not read: its DaemonSets are judged by generation and revision."""
    decision, _memory = found.change("daemonset", OTHER_OWNER, DRIVER).decide()
    assert (Phase.WAIT, [expected]) == (decision.phase, [one.reason for one in decision.statuses])


def test_node_policies_that_want_no_driver_do_not_hold() -> None:
    """Nothing of theirs is deployed."""
    found = stale_network().change("policy", "spec: {ofedDriver: null}").change("daemonset", OTHER_OWNER, DRIVER)
    decision, _memory = found.change("daemonset", "status: {desiredNumberScheduled: 0}", DRIVER).decide()
    assert Reason.DRIVER_DISABLED is decision.reason


@pytest.mark.parametrize(
    ("found", "named"),
    [
        pytest.param(network(), "pod mofed-nic-0", id="running"),
        pytest.param(network().change("driver-pod", {"metadata": {"deletionTimestamp": stamp(5)}}), "pod mofed-nic-0",
                     id="terminating"),
        pytest.param(network().drop("driver-pod"), "pod NAME", id="gone"),
    ],
)  # fmt: skip
def test_the_remedy_of_a_failed_upgrade_never_names_a_plugin(found: Cluster, named: str) -> None:
    """The driver's pod is the one to delete, whatever else runs there."""
    judged = found.change("node", labels(state="upgrade-failed")).judge()
    fix = remedy(judged.reason, judged.node, judged.subject, NETWORK_OPERATOR)
    assert (Reason.UPGRADE_FAILED, True) == (judged.reason, fix.endswith(named))
