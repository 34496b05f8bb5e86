"""The network operator: its own labels, policies and remedies, and GPU nodes that wait for their network driver."""

from __future__ import annotations

from datetime import timedelta

from hook.config import Expect, Settings
from hook.decide.decide import decide_all, early_skip_of
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.objects.drivers import NETWORK_OPERATOR
from tests.fixtures.cluster import LATER, Cluster, cluster, stale, without_operator
from tests.fixtures.modes import Pool, network, ofed_pod, owner, pooled, rdma_pod, wants, with_ofed, with_sriov
from tests.fixtures.objects import Object, R, conditions, merged, obj, parsed, running, stamp, waiting
from tests.unit.decide.cases import phases_over, timeline, wrong_decisions, wrong_nodes

DRIVER, RDMA = "mofed-ubuntu22.04-76944977f-ds", "rdma-shared-dp-ds"
WAIT = "network.nvidia.com/operator.mofed.wait"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
UNOBSERVED = "metadata: {generation: 3}"
WANTS_NONE = "status: {desiredNumberScheduled: 0}"
NEW_VERSION = "spec: {ofedDriver: {version: doca3.4.0-26.04-0.8.6.0-0}}"
NO_OFED = "spec: {ofedDriver: null}"
RDMA_ON = "spec: {driver: {rdma: {enabled: true}}}"


def labels(**values: str | None) -> Object:
    """Return a patch of a node's labels: ``state``, ``skip`` and ``wait``."""
    keys = {
        "state": "nvidia.com/ofed-driver-upgrade-state",
        "skip": "nvidia.com/ofed-driver-upgrade.skip",
        "wait": WAIT,
    }
    return {"metadata": {"labels": {keys[word]: value for word, value in values.items()}}}


def outdated(*nodes: str, part: str = "node", patch: str | Object = "{}", name: str = "") -> Cluster:
    """Return a network stack whose plugins all started before their drivers, and which is changed by a patch."""
    found = network(*nodes)
    found.put("plugin-pod", *(rdma_pod(node["metadata"]["name"], started=-99) for node in found.of("node")))
    return found.change(part, patch, name)


def with_driver(pod: Object) -> Cluster:
    """Return a network stack with a stale plugin and this driver pod."""
    return outdated().put("driver-pod", pod)


def not_ready(**status: object) -> Object:
    """Return a driver pod that is not ready, with a status."""
    changed: Object = merged(ofed_pod(ready=None), {"status": {"conditions": conditions(None), **status}})
    return changed


def crashed(restarts: int) -> Object:
    """Return a driver pod whose container crashed, and happens to run."""
    ran = running("mofed-container", 100, restarts=restarts, ended_before=90)
    return not_ready(containerStatuses=[ran])


def test_a_node_is_evaluated_by_the_labels_of_the_network_operator() -> None:
    """By the same rules in the same order as for GPUs."""
    waits, stale_state = NodeState.WAITING, (NodeState.STALE, Reason.PLUGIN_STALE)
    cases: dict[str, tuple[Cluster, NodeState, Reason]] = {
        "done": (network(), NodeState.VERIFIED, Reason.VERIFIED),
        "stale": (outdated(), *stale_state),
        "its turn comes": (outdated(patch=labels(state="drain-required")), waits, Reason.UPGRADE_IN_PROGRESS),
        "by the maintenance operator": (outdated(patch=labels(state="node-maintenance-required")), waits,
                                        Reason.UPGRADE_IN_PROGRESS),
        "labels trail": (outdated(patch=labels(state="uncordon-required")), *stale_state),
        "unknown state": (outdated(patch=labels(state="new")), waits, Reason.UPGRADE_STATE_UNKNOWN),
        "the operator says wait": (outdated(patch=labels(wait="true")), waits, Reason.OPERANDS_PAUSED),
        "the operator says nothing": (outdated(patch=labels(wait=None)), *stale_state),
        "outdated": (outdated(part="driver-pod", patch=OLD_HASH), waits, Reason.DRIVER_OUTDATED),
        "no revision": (outdated().drop("revision"), waits, Reason.DRIVER_OUTDATED),
        "loading": (with_driver(ofed_pod(ready=None)), waits, Reason.DRIVER_NOT_READY),
        "not observed": (outdated(part="daemonset", patch=UNOBSERVED, name=DRIVER), waits, Reason.NOT_RENDERED),
        "another version": (outdated(part="policy", patch=NEW_VERSION), waits, Reason.NOT_RENDERED),
        "between two crashes": (with_driver(crashed(7)), waits, Reason.DRIVER_FAILING),
        "crashed once": (with_driver(crashed(1)), waits, Reason.DRIVER_NOT_READY),
    }  # fmt: skip
    for name, (found, state, reason) in cases.items():
        status = found.judge()
        assert (state, reason) == (status.state, status.reason), name


def test_a_device_plugin_is_fresh_by_time_alone() -> None:
    """Its init container finishes with any mlx5_core, also that of the host. It publishes no slice to look for."""
    for waited, started, expected in (
        (R + 5, R + 6, Reason.VERIFIED),
        (R - 1, R, Reason.PLUGIN_STALE),  # in the same second
        (5, 6, Reason.PLUGIN_STALE),
        (-99, -98, Reason.PLUGIN_STALE),
    ):
        found = network().put("plugin-pod", rdma_pod(started=started, waited=waited))
        assert expected is found.judge().reason, (waited, started)
    message = "no device plugin needed a restart, 1 run on the loaded driver"
    decision, _memory = network().decide()
    assert (Phase.DONE, message) == (decision.phase, decision.message)
    decision, _memory = with_sriov(network("a", "b"), started=-5).decide()
    assert [Reason.VERIFIED, Reason.PLUGIN_STALE] * 2 == [status.reason for status in decision.statuses]
    assert ["sriov-a", "sriov-b"] == [action.pod.name for action in decision.actions if isinstance(action, DeletePod)]


def test_plugins_that_the_operator_removed_are_not_missed() -> None:
    """Its own plugins select the wait label: they go, and come back fresh."""
    found = network().drop("plugin-pod").change("daemonset", WANTS_NONE, RDMA)
    paused = found.change("node", labels(wait="true")).judge()
    assert (Reason.OPERANDS_PAUSED, True) == (paused.reason, WAIT in paused.message)
    assert found.change("node", labels(wait="false")).judge().reason is Reason.NOTHING_TO_REFRESH


def test_the_daemonsets_decide_which_nodes_have_a_driver() -> None:
    """No label does. A node without a driver pod gets none once they all have as many as they want."""

    def second_without(wanted: int = 2) -> Cluster:
        found = network("a", "b").drop("driver-pod", "mofed-b").drop("plugin-pod", "rdma-b")
        return found.change("daemonset", wants(wanted))

    for_vms = {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "vm-passthrough"}}}  # of its GPUs
    for name, (found, expected) in {
        "complete": (second_without(1), Reason.DRIVER_NOT_DEPLOYED),
        "one is still wanted": (second_without(), Reason.DRIVER_MISSING),
        "no DaemonSet": (second_without().drop("daemonset", DRIVER), Reason.DRIVER_MISSING),
        "GPUs for virtual machines": (second_without(1).change("node", for_vms, "b"), Reason.DRIVER_NOT_DEPLOYED),
    }.items():
        assert expected is found.decide()[0].statuses[1].reason, name
    none, _memory = network().drop("driver-pod").drop("plugin-pod").change("daemonset", WANTS_NONE).decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (none.phase, none.reason)
    two = outdated("a", "b").put("daemonset", obj("network/driver-daemonset", "{metadata: {name: b, uid: b-ds}}"))
    two.change("driver-pod", {"metadata": {"ownerReferences": owner("b-ds")}}, "mofed-b")
    assert [Reason.PLUGIN_STALE, Reason.DRIVER_OUTDATED] == [status.reason for status in two.decide()[0].statuses]
    two.put("revision", obj("network/revision", {"metadata": {"name": "b", "ownerReferences": owner("b-ds")}}))
    assert [Reason.PLUGIN_STALE] * 2 == [status.reason for status in two.decide()[0].statuses], "each by its revision"


def test_a_driver_that_waits_until_its_node_is_drained_says_so() -> None:
    """Safe load: the init container of the new pod waits for the upgrade controller."""
    label = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
    found = with_driver(not_ready(
        initContainerStatuses=[running("network-operator-init-container", 5)],
        containerStatuses=[waiting("mofed-container", "PodInitializing")],
    ))  # fmt: skip
    assert "drained" not in found.judge().message
    status = found.change("node", {"metadata": {"annotations": {label: "true"}}}).judge()
    assert Reason.DRIVER_NOT_READY is status.reason
    assert f"it waits until its node is drained ({label})" in status.message


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
    })  # fmt: skip
    rolling = network().change("deployment", "status: {updatedReplicas: 0}").decide()[0]
    assert Reason.OPERATOR_ROLLING_OUT is rolling.reason
    assert "the network operator's Deployment" in rolling.message


def test_a_failed_upgrade_fails_with_the_steps_of_the_network_operator() -> None:
    """Drain, and delete the driver pod. The remedy never names a plugin, whatever runs there."""
    terminating = network().change("driver-pod", {"metadata": {"deletionTimestamp": stamp(5)}})
    for found, pod in (
        (network(), "mofed-nic-0"),
        (network().put("driver-pod", ofed_pod(ready=None)), "mofed-nic-0"),
        (terminating, "mofed-nic-0"),
        (network().drop("driver-pod"), "NAME"),
    ):
        found.change("node", labels(state="upgrade-failed"))
        first, last = timeline((0, found), (300, found))
        assert (Phase.WAIT, Phase.FAIL, Reason.UPGRADE_FAILED) == (first.phase, last.phase, last.reason)
        status = last.statuses[0]
        fix = remedy(status.reason, status.node, status.subject, NETWORK_OPERATOR)
        assert "after removing the cause and draining the node (kubectl drain nic-0 " in fix
        assert "driver-wait-for-safe-load" in fix
        assert fix.endswith(f" delete pod {pod}")
        assert pod == "NAME" or "kubectl -n nvidia-network-operator delete" in fix


def test_expected_versions_apply_to_the_stack_that_they_are_of() -> None:
    """The driver version to the first one, the chart version to the GPU operator."""
    new = "doca3.4.0-26.04-0.8.6.0-0"
    for drivers, expect, reason in (
        (("gpu", "network"), Expect(driver_version="580.126.20", chart_version="v26.3.4"), Reason.NOTHING_STALE),
        (("network",), Expect(driver_version=new), Reason.EXPECTATION_UNMET),
        (("network",), Expect(chart_version="1"), Reason.NOTHING_STALE),
    ):
        assert reason is network().decide(Settings(drivers=drivers, expect=expect))[0].reason, (drivers, expect)


def test_drivers_of_node_policies_are_evaluated_without_the_policy() -> None:
    """A NicNodePolicy is not read: generation and revision of its DaemonSets decide."""
    other_owner: Object = {"metadata": {"ownerReferences": owner("nnp", "NicNodePolicy")}}
    for name, (found, expected) in {
        "no driver in the policy": (outdated(part="policy", patch=NO_OFED), Reason.PLUGIN_STALE),
        "another version in the policy": (outdated(part="policy", patch=NEW_VERSION), Reason.PLUGIN_STALE),
        "not observed": (outdated(part="daemonset", patch=UNOBSERVED, name=DRIVER), Reason.NOT_RENDERED),
        "outdated": (outdated(part="driver-pod", patch=OLD_HASH), Reason.DRIVER_OUTDATED),
    }.items():
        decision, _memory = found.change("daemonset", other_owner, DRIVER).decide()
        assert (Phase.WAIT, [expected]) == (decision.phase, [status.reason for status in decision.statuses]), name
    none = outdated(part="policy", patch=NO_OFED).change("daemonset", other_owner, DRIVER)
    assert Reason.DRIVER_DISABLED is none.change("daemonset", WANTS_NONE, DRIVER).decide()[0].reason


def test_only_a_policy_of_one_name_counts() -> None:
    """However old another object is. A policy without OFED is seen at the first read."""
    created = "creationTimestamp: '2020-01-01T00:00:00Z'"
    older = obj("network/policy", f"{{metadata: {{name: older, uid: o, {created}}}, {NO_OFED}}}")
    assert network().decide() == network().put("policy", older).decide()
    decision, _memory = without_operator(network()).only("policy", older).decide()
    assert (Phase.SKIP, Reason.NO_POLICY) == (decision.phase, decision.reason)
    found = network().change("policy", NO_OFED)
    skip = early_skip_of(found.seen(), Settings(drivers=("network",)), found.stack)
    assert skip is not None
    assert Reason.DRIVER_DISABLED is skip.reason


# A GPU node waits for its network driver where the policy asks for GPUDirect RDMA.


def ofed(ready: float | None = 70, patch: str | Object = "{}", **values: str | None) -> Cluster:
    """Return a stale GPU node over an OFED driver, with labels of the network operator and a patch of the policy."""
    found = with_ofed(stale(), network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=ready)).drop("plugin-pod"))
    return found.change("node", labels(**values)).change("policy", patch)


def without_ofed(found: Cluster, *parts: str) -> Cluster:
    """Remove the OFED pods, and other parts of the network stack."""
    assert found.prior is not None
    for part in ("driver-pod", *parts):
        found.prior.drop(part)
    return found


def test_a_gpu_node_waits_for_its_network_driver() -> None:
    """Where the policy asks for both, with a driver in a container. An old driver that stays does not delay it."""
    waits, refreshed = Reason.PRIOR_DRIVER_UNSETTLED, Reason.PLUGIN_STALE
    two, malformed = ofed(), ofed()
    assert two.prior is not None
    two.prior.put("driver-pod", merged(ofed_pod("gpu-0"), {"metadata": {"name": "another", "uid": "another"}}))
    assert malformed.prior is not None
    malformed.prior.change("driver-pod", "metadata: {resourceVersion: null}")
    ignored = ofed(None, "spec: {driver: {rdma: null}}")
    ignored.put("pool", *pooled(Pool()).change("pool", "spec: {rdma: {enabled: true}}").of("pool"))
    assert {} == wrong_nodes({
        "settled": (ofed(), refreshed),
        "loading": (ofed(None), waits),
        "two pods": (two, waits),
        "the network operator says wait": (ofed(wait="true"), waits),
        "between two pods": (without_ofed(ofed(wait="true")), waits),
        "the network operator says go": (ofed(wait="false"), refreshed),
        "its turn comes": (ofed(state="upgrade-required"), waits),
        "upgraded, and labels trail": (ofed(state="uncordon-required"), refreshed),
        "failed but ready": (ofed(state="upgrade-failed"), refreshed),
        "skipped for good": (ofed(state="upgrade-required", skip="true"), refreshed),
        "skipped and loading": (ofed(None, skip="true"), waits),
        "not skipped": (ofed(state="upgrade-required", skip="false"), waits),
        "drained for a driver out of sight": (without_ofed(ofed(state="drain-required"), "daemonset"), waits),
        "the network driver of the host": (ofed(None, "spec: {driver: {rdma: {useHostMofed: true}}}"), refreshed),
        "asked for by a pool that does not count": (ignored, refreshed),
        "malformed network driver": (malformed, Reason.MALFORMED_OBJECT),
    })  # fmt: skip
    decision, _memory = malformed.decide()
    assert (Phase.WAIT, ()) == (decision.phase, decision.actions)
    fresh = cluster().change("policy", RDMA_ON)
    fresh.prior = malformed.prior
    assert [Phase.WAIT] == phases_over((0, fresh)), "with a malformed object a run is not done"
    message = "the network driver, which comes first here, is not settled: its pod is not ready"
    assert message == ofed(None).judge().message
    assert "its upgrade state is upgrade-required" in ofed(state="upgrade-required").judge().message


def test_only_the_pools_that_ask_for_both_wait() -> None:
    """The GPUs of another pool do not depend on the network driver of their node."""
    found = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", "spec: {rdma: {enabled: true}}", "a")
    prior = network("gpu-a", "gpu-b").drop("plugin-pod")
    found.prior = prior.change("driver-pod", {"status": {"conditions": conditions(None)}})
    reasons = [status.reason for status in found.decide()[0].statuses]
    assert [Reason.PRIOR_DRIVER_UNSETTLED, Reason.VERIFIED] == reasons


def test_in_a_run_of_both_the_gpu_node_follows_its_network_driver() -> None:
    """First one, then the other. An outdated network driver comes first, unless nothing replaces it."""
    settings, gpu = Settings(drivers=("gpu", "network")), stale("x").change("policy", RDMA_ON)
    loading = outdated("x").put("driver-pod", ofed_pod("x", ready=None))
    snapshots = [{"gpu": gpu.seen(), "network": nic.seen()} for nic in (loading, outdated("x"))]
    first, memories = decide_all(snapshots[0], {}, settings, LATER)
    assert [Reason.PRIOR_DRIVER_UNSETTLED, Reason.DRIVER_NOT_READY] == [status.reason for status in first.statuses]
    second, _memories = decide_all(snapshots[1], memories, settings, LATER + timedelta(seconds=60))
    assert [Reason.PLUGIN_STALE, Reason.PLUGIN_STALE] == [status.reason for status in second.statuses]
    auto, by_hand = ({"spec": {"ofedDriver": {"upgradePolicy": {"autoUpgrade": on}}}} for on in (True, False))
    for name, (policy, skip, waits) in {
        "about to be upgraded": (auto, None, True),
        "skipped": (auto, "true", False),
        "manual upgrade": (by_hand, None, False),
        "its policy is not read": (None, None, False),
    }.items():
        nic = network("x").change("driver-pod", OLD_HASH)
        nic = nic.change("policy", policy) if policy else nic.drop("policy")
        seen = {"gpu": gpu.change("node", labels(skip=skip)).seen(), "network": nic.seen()}
        status = decide_all(seen, {}, settings, LATER)[0].statuses[0]
        assert (Reason.PRIOR_DRIVER_UNSETTLED if waits else Reason.PLUGIN_STALE) is status.reason, name
        assert waits is ("it is about to be upgraded" in status.message), name
