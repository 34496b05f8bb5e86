"""Rules of evaluating one node: what proves a plugin, which observation decides, and what does not count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import DriverClient, Rbac, Settings
from hook.decide import freshness
from hook.decide.freshness import Freshness
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.decide.state import Memory
from hook.objects import readers
from hook.objects.drivers import DRA_PLUGIN, GPU_OPERATOR
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, reasons, stale
from tests.fixtures.modes import network, ofed_pod, owner, with_exporter, with_ofed, with_toolkit
from tests.fixtures.objects import Object, R, driver_pod, finished, merged, parsed, plugin_pod, waiting

DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:30:00Z'}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
PRE_INSTALLED = labelled(deploy_driver="pre-installed")


def judged(plugin: Object, driver: Object) -> Freshness:
    """Return the freshness of a plugin pod on a node with this driver pod."""
    return freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).freshness


# What proves a plugin.


def test_an_unloader_that_ended_in_the_second_of_the_crash_proves_nothing() -> None:
    """Times are whole seconds: the unloader may have ended before the driver container did."""
    waited = plugin_pod(waited=5, started=6)
    proofs = [judged(waited, driver_pod(unloaded=at, ended_before=-60, restarts=1)) for at in (-60, -59)]
    assert [Freshness.STALE, Freshness.FRESH] == proofs


def test_an_init_container_that_failed_has_seen_no_driver() -> None:
    """Only exit code 0 shows that the driver worked, whenever the init container ended."""
    status = {"status": {"initContainerStatuses": [finished("init-container", 5, exit_code=1)]}}
    plugin = merged(plugin_pod(waited=5, started=6), status)
    assert Freshness.STALE is judged(plugin, driver_pod())


def test_an_init_container_that_ended_at_no_time_proves_nothing() -> None:
    """Its exit code alone does not show which driver it saw."""
    ended = {"name": "init-container", "state": {"terminated": {"exitCode": 0}}}
    plugin = merged(plugin_pod(waited=5, started=6), {"status": {"initContainerStatuses": [ended]}})
    assert Freshness.STALE is judged(plugin, driver_pod())


def test_a_driver_whose_init_containers_ended_at_no_time_is_not_known_to_crash() -> None:
    """Whether they ran anew since the last crash cannot be seen."""
    untimed = {"name": "mesh", "state": {"terminated": {"exitCode": 0}}}
    crashed = driver_pod(ready=None, ended_before=-1, restarts=9)
    statuses = [untimed, *crashed["status"]["initContainerStatuses"]]
    driver = readers.pod(merged(crashed, {"status": {"initContainerStatuses": statuses}}))
    assert freshness.keeps_crashing(driver, GPU_OPERATOR)
    unknown = readers.pod(merged(crashed, {"status": {"initContainerStatuses": [untimed]}}))
    assert not freshness.keeps_crashing(unknown, GPU_OPERATOR)


def test_a_pod_that_was_asked_to_go_is_not_its_own_successor() -> None:
    """A pod that started in the second of the driver's readiness stays stale until another pod replaces it."""
    driver = driver_pod(restarts=1, ended_before=-1, unloaded=-300)
    found = cluster().only("driver-pod", driver).only("plugin-pod", plugin_pod(waited=-50, started=R))
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    (still,) = found.decide(memory=memory)[0].statuses
    assert (NodeState.RESTARTING, Reason.PLUGIN_RESTARTING) == (still.state, still.reason)


def test_a_driver_pod_on_its_way_out_is_not_what_a_plugin_is_compared_with() -> None:
    """A plugin that started on the old driver is stale, also while the old driver's pod is listed first."""
    found = stale()
    going = merged(driver_pod(started=-900, ready=-800), parsed(DELETING))
    found.only("driver-pod", merged(going, parsed("metadata: {name: a, uid: a}")), *found.of("driver-pod"))
    assert Reason.PLUGIN_STALE is found.judge().reason


# Which reason a node has, where several hold.


@pytest.mark.parametrize(
    ("patches", "expected"),
    [
        pytest.param([PRE_INSTALLED, not_ready_since(3599)], Reason.HOST_DRIVER, id="no-driver-before-not-ready"),
        pytest.param([PRE_INSTALLED, labelled(skip="true")], Reason.NODE_SKIPPED, id="skipped-before-no-driver"),
        pytest.param([labelled(skip="true"), not_ready_since(3599)], Reason.NODE_SKIPPED, id="skipped-before-blip"),
    ],
)
def test_a_node_is_excluded_for_the_reason_that_waiting_does_not_change(
    patches: list[Object], expected: Reason
) -> None:
    """A blip is waited for only where there is something to wait for, and a skip label counts on every node."""
    found = cluster("gpu-0", "gpu-1")
    for patch in patches:
        found.change("node", merged(patch, {"metadata": {"name": "gpu-1"}}), "gpu-1")
    decision, _memory = found.decide()
    assert (NodeState.EXCLUDED, expected) == (decision.statuses[1].state, decision.statuses[1].reason)
    assert Phase.DONE is decision.phase


def failing(found: Cluster) -> Cluster:
    """Return a cluster whose driver image cannot be pulled."""
    status = {"containerStatuses": [waiting("nvidia-driver-ctr", "ImagePullBackOff", "no such tag")]}
    return found.put("driver-pod", merged(driver_pod(ready=None), {"status": status}))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(failing(cluster().change("node", labelled(state="drain-required"))), Reason.DRIVER_FAILING,
                     id="the-driver-pod-before-the-upgrade-label"),
        pytest.param(failing(with_toolkit(cluster(), ready=None)), Reason.DRIVER_FAILING,
                     id="the-driver-before-what-waits-for-it"),
        pytest.param(failing(with_ofed(cluster(), network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=None)))),
                     Reason.PRIOR_DRIVER_UNSETTLED, id="the-driver-that-it-waits-for-before-the-driver"),
        pytest.param(stale().change("driver-pod", OLD_HASH).change("policy", "spec: {driver: {version: 590.1.2}}"),
                     Reason.NOT_RENDERED, id="the-daemonset-before-its-pods"),
        pytest.param(cluster().change("driver-pod", "metadata: {ownerReferences: []}")
                     .change("node", labelled(state="drain-required")), Reason.DRIVER_ORPHANED,
                     id="an-orphan-before-the-upgrade-label"),
    ],
)  # fmt: skip
def test_a_node_waits_for_what_must_happen_first(found: Cluster, expected: Reason) -> None:
    """The reason names the cause, not what follows from it: graces and remedies hang on the reason."""
    judgement = found.judge(Settings(refresh_after=("toolkit",)))
    assert (NodeState.WAITING, expected) == (judgement.state, judgement.reason)


def test_a_container_that_cannot_start_fails_its_driver() -> None:
    """None of these goes away by waiting, unlike a container that is being created."""
    hopeless = {
        "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    }  # fmt: skip
    for reason in (*hopeless, "ContainerCreating", "PodInitializing"):
        for where in ("initContainerStatuses", "containerStatuses"):
            status = {where: [waiting("any", reason)]}
            found = cluster().put("driver-pod", merged(driver_pod(ready=None), {"status": status}))
            assert (reason in hopeless) is (Reason.DRIVER_FAILING is found.judge().reason), reason


def test_a_failing_driver_is_reported_in_the_kubelets_own_words() -> None:
    """The reason of the container alone does not say which image is missing."""
    assert "ImagePullBackOff: no such tag" in failing(cluster()).judge().message


@pytest.mark.parametrize(
    ("node", "part", "patch", "expected"),
    [
        pytest.param(labelled(skip="true"), "plugin-pod", "metadata: {uid: 7}", Reason.NODE_SKIPPED, id="skipped"),
        pytest.param(not_ready_since(0), "driver-pod", "metadata: {uid: 7}", Reason.NODE_NOT_READY, id="not-ready"),
        pytest.param(labelled(skip="true"), "slice", "spec: {devices: 8}", Reason.MALFORMED_OBJECT,
                     id="skipped-no-pod"),
        pytest.param(labelled(deploy_driver=None), "driver-pod", "metadata: {uid: 7}", Reason.MALFORMED_OBJECT,
                     id="by-the-driver-pods-that-can-be-read"),
    ],
)  # fmt: skip
def test_unreadable_pods_are_ignored_only_where_the_node_itself_is_enough_to_exclude_it(
    node: Object, part: str, patch: str, expected: Reason
) -> None:
    """An unreadable pod may be the one that decides whether there is a driver."""
    assert expected is cluster().change("node", node).change(part, patch).judge().reason


def test_a_remedy_names_a_live_pod_where_there_is_one() -> None:
    """A command about a pod on its way out is of no use, whichever is listed first."""
    found = cluster().change("node", labelled(state="upgrade-failed"))
    ending = parsed("metadata: {name: a, uid: a, deletionTimestamp: '2026-01-01T10:30:00Z'}")
    for part, pod in (("driver-pod", driver_pod()), ("plugin-pod", plugin_pod())):
        found.only(part, merged(pod, ending), *found.of(part))
    judgement = found.judge()
    assert (Reason.UPGRADE_FAILED, "gpu-operator/driver-gpu-0") == (judgement.reason, judgement.subject)
    assert "its upgrade state is upgrade-failed" in judgement.message
    found.drop("driver-pod").change("node", labelled(state="upgrade-done"))
    assert "nvidia-dra-driver-gpu/plugin-gpu-0" == found.judge().subject


def test_two_driver_pods_are_waited_for_also_where_upgrades_are_manual() -> None:
    """Only one of the two owns the driver, so the node is not evaluated by the one that is listed first."""
    found = cluster().change("policy", "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}")
    old = merged(driver_pod(), parsed("metadata: {name: a, uid: a, labels: {controller-revision-hash: old}}"))
    found.only("driver-pod", old, *found.of("driver-pod"))
    judgement = found.judge()
    assert (NodeState.WAITING, Reason.SEVERAL_DRIVER_PODS) == (judgement.state, judgement.reason)


def test_every_upgrade_label_that_is_not_quiet_is_reported_as_pending() -> None:
    """Also that of a failed upgrade, while the plugin there is restarted."""
    states = ("upgrade-done", "uncordon-required", "upgrade-failed")
    pending = [stale().change("node", labelled(state=state)).judge().label_pending for state in states]
    assert [False, True, True] == pending


# What does not count.


def test_a_network_driver_pod_on_its_way_out_does_not_unsettle_the_network_driver() -> None:
    """Its successor is Ready: the same rule as for the GPU driver."""
    ending = parsed("metadata: {name: a, uid: a, deletionTimestamp: '2026-01-01T10:30:00Z'}")
    ofed = network("gpu-0").put("driver-pod", merged(ofed_pod("gpu-0"), ending))
    assert Reason.VERIFIED is with_ofed(cluster(), ofed).judge().reason


def test_a_driver_whose_pool_is_unknown_may_be_one_that_follows_the_network_driver() -> None:
    """In doubt a node waits for both."""
    ofed = network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=None))
    found = with_ofed(cluster(), ofed).change("driver-pod", "metadata: {ownerReferences: []}")
    assert Reason.PRIOR_DRIVER_UNSETTLED is found.judge().reason


def test_a_node_without_a_providers_label_waits_for_no_provider() -> None:
    """Also where no DaemonSet of that provider exists."""
    assert Reason.VERIFIED is cluster().judge(Settings(refresh_after=("toolkit",))).reason


@pytest.mark.parametrize(
    ("found", "label"),
    [
        pytest.param(network(), "nvidia.com/gpu.deploy.dcgm", id="a-gpu-label-and-the-network-stack"),
        pytest.param(cluster(), "network.nvidia.com/operator.x", id="a-network-label-and-the-gpu-stack"),
    ],
)
def test_only_labels_of_its_own_stack_pause_a_node(found: Cluster, label: str) -> None:
    """A driver manager pauses the operands of one driver; the other driver stays loaded."""
    found.change("node", {"metadata": {"labels": {label: "paused-for-driver-upgrade"}}})
    assert Reason.VERIFIED is found.judge().reason


def test_a_node_is_listed_for_a_driver_or_for_a_plugin_of_ours_on_it() -> None:
    """A driver alone is enough; the pod of a DaemonSet that is not ours is not."""
    found = cluster("gpu-0", "gpu-1").change("node", labelled("gpu-1", present=None), "gpu-1")
    foreign = merged(plugin_pod("cpu-0"), {"metadata": {"ownerReferences": owner("foreign-ds")}})
    found.drop("plugin-pod", "plugin-gpu-1").put("plugin-pod", foreign)
    assert ["gpu-0", "gpu-1"] == [one.node for one in found.decide()[0].statuses]


def test_a_node_that_keeps_its_label_is_not_taken_for_one_that_lost_it() -> None:
    """A node that was waited for and is skipped now, without a driver pod, is excluded at once."""
    found = cluster("gpu-0", "gpu-1")
    memory = found.decide()[1]
    found.change("node", labelled("gpu-1", skip="true"), "gpu-1").drop("driver-pod", "driver-gpu-1")
    decision, _memory = found.decide(memory=memory)
    assert ["Verified", "NodeSkipped"] == reasons(decision.statuses)


def test_the_network_driver_matters_only_where_the_policy_asks_for_rdma() -> None:
    """Without GPUDirect RDMA neither its absence nor its unreadable pods hold the GPU stack back."""
    broken = network("gpu-0").drop("daemonset").change("driver-pod", "metadata: {uid: 7}")
    namespaced = Settings(rbac=Rbac(namespaces=("gpu-operator",)))
    found = with_ofed(cluster(), broken)
    assert Phase.WAIT is found.decide(namespaced)[0].phase
    decision, _memory = found.change("policy", "spec: {driver: {rdma: {enabled: false}}}").decide(namespaced)
    assert (Phase.DONE, ()) == (decision.phase, decision.warnings)


def test_each_driver_client_on_a_node_has_its_own_patience() -> None:
    """A plugin that was not Ready for four minutes does not use up the patience with another one."""
    settings = Settings(driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))
    first = with_exporter(cluster()).put("plugin-pod", plugin_pod(ready=None))
    second = with_exporter(cluster())
    not_ready = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:00:00Z"}]
    second.change("plugin-pod", {"status": {"conditions": not_ready}}, "exporter-gpu-0")
    memory = Memory(started=LATER)
    told = []
    for seconds, found in ((0, first), (240, first), (241, second), (300, second), (540, second), (541, second)):
        decision, memory = found.decide(settings, memory, LATER + timedelta(seconds=seconds))
        told.append(decision.phase)
    assert [Phase.WAIT] * 5 + [Phase.FAIL] == told
    assert ["Verified", "PluginNotReady"] == reasons(decision.statuses)
