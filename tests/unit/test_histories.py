"""Histories in which a promise was once broken: each states what happened, and what must come of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.config import ControllerSettings, Duration, Settings
from hook.decide.decide import look_first
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import (
    LATER,
    Cluster,
    cluster,
    labelled,
    not_ready_since,
    reasons,
    stale,
    stale_plugin,
    without_operator,
)
from tests.fixtures.limits import FOLLOWING, down
from tests.fixtures.modes import network, ofed_pod, with_ofed, with_toolkit
from tests.fixtures.objects import (
    Object,
    R,
    conditions,
    driver_pod,
    merged,
    obj,
    parsed,
    plugin_pod,
    running,
    stamp,
)

if TYPE_CHECKING:
    from hook.decide.result import Decision

BY_HAND = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"
OUTDATED: Object = parsed("metadata: {labels: {controller-revision-hash: old}}")
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
DRIVER = "nvidia-driver-daemonset"
ROLLING = "spec: {updateStrategy: {type: RollingUpdate}}"
DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"


def restarted(decision: Decision) -> list[str]:
    """Return the nodes whose plugin a decision restarts."""
    return [one.node for one in decision.actions if isinstance(one, DeletePod)]


# Done, although something is stale.


def by_hand(driver: Object) -> Cluster:
    """Return a node whose outdated driver pod no controller rotates, with a plugin that is fresh under the base pod."""
    return cluster().change("policy", BY_HAND).put("driver-pod", merged(driver, OUTDATED))


def test_an_outdated_driver_that_crashed_in_place_leaves_a_stale_plugin() -> None:
    """It is loaded and Ready, so the plugin must have started after it; only the outdated version is left as it is."""
    found = by_hand(driver_pod(started=300, ready=370, restarts=1, ended_before=299))
    decision, memory = found.decide()
    assert (["gpu-0"], [NodeState.STALE]) == (restarted(decision), [one.state for one in decision.statuses])
    found.put("plugin-pod", merged(plugin_pod(waited=400, started=401, ready=405), {"metadata": {"uid": "next"}}))
    done, _memory = found.decide(memory=memory)
    assert (Phase.DONE, ["ManualUpgrade"]) == (done.phase, reasons(done.statuses))


def test_an_outdated_driver_that_is_not_ready_is_waited_for() -> None:
    """Its crash may be over in a minute; then the plugin is stale."""
    decision, _memory = by_hand(driver_pod(ready=None)).decide()
    assert (Phase.WAIT, ["DriverNotReady"]) == (decision.phase, reasons(decision.statuses))


def test_an_outdated_drivers_slices_say_the_version_that_is_loaded() -> None:
    """The policy's version comes with the next driver pod, so it is not expected of the one before."""
    published: Object = {"spec": {"devices": [{"name": "g", "attributes": {"driverVersion": {"version": "570.1.2"}}}]}}
    decision, _memory = by_hand(driver_pod()).change("slice", published).decide()
    assert (Phase.DONE, ["ManualUpgrade"]) == (decision.phase, reasons(decision.statuses))


def test_a_state_that_an_upgrade_controller_left_behind_holds_nothing() -> None:
    """It was turned off in the middle of an upgrade."""
    found = by_hand(driver_pod()).change("node", labelled(state="upgrade-required"))
    assert Phase.DONE is found.decide()[0].phase


def test_a_rolling_update_is_no_manual_upgrade() -> None:
    """The DaemonSet controller rotates outdated driver pods, also with autoUpgrade off."""
    found = by_hand(driver_pod()).change("daemonset", ROLLING, DRIVER)
    decision, _memory = found.decide()
    assert (Phase.WAIT, ["DriverOutdated"]) == (decision.phase, reasons(decision.statuses))


def test_a_policy_that_vanishes_is_waited_for_while_its_drivers_run() -> None:
    """A GitOps tool deletes and creates it again. What is stale meanwhile is restarted, and the grace has an end."""

    def away(found: Cluster, kind: str) -> Cluster:
        return found.drop("policy") if kind == "known" else found.unserved("policy")

    for kind in ("known", "unknown"):
        first, memory = away(stale(), kind).decide()
        assert (Phase.WAIT, Reason.NO_POLICY, ["gpu-0"]) == (first.phase, first.reason, restarted(first))
        told = []
        for seconds in (60, 119, 120):
            now = LATER + timedelta(seconds=seconds)
            decision, memory = away(cluster(), kind).decide(memory=memory, now=now)
            told.append((decision.phase, decision.reason))
        assert [(Phase.WAIT, Reason.NO_POLICY)] * 2 + [(Phase.SKIP, Reason.NO_POLICY)] == told


def test_the_grace_of_a_vanished_policy_ends_no_upgrade() -> None:
    """A node whose driver is on its way will have a stale plugin, with or without a policy."""
    found = cluster("a", "b").drop("policy").put("driver-pod", driver_pod("b", ready=None))
    _first, memory = found.decide()
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=10))
    assert (Phase.WAIT, Reason.NO_POLICY) == (decision.phase, decision.reason)


def test_without_a_policy_nothing_is_restarted_before_the_daemonset_is_observed() -> None:
    """Its newest revision may be about to come, with or without a policy."""
    found = stale().drop("policy").change("daemonset", "metadata: {generation: 3}", DRIVER)
    decision, _memory = found.decide()
    assert (["NotRendered"], []) == (reasons(decision.statuses), restarted(decision))


def test_a_node_without_labels_does_not_hold_a_run_whose_policy_is_gone() -> None:
    """It is excluded after its grace, as where there is a policy."""
    found = cluster("a", "b").change("node", labelled("b", present="false"), "b").drop("driver-pod", "driver-b")
    found.drop("policy").change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    first, memory = found.decide()
    later, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=5))
    assert (Phase.WAIT, (Phase.SKIP, Reason.NO_POLICY)) == (first.phase, (later.phase, later.reason))


def test_a_first_look_cannot_tell_a_policy_that_is_away() -> None:
    """Its drivers' DaemonSets go with it; only driver pods tell, which are read after that."""
    gone = cluster().drop("policy").drop("daemonset", DRIVER)
    assert look_first({"gpu": gone.seen()}, Settings()) is None
    assert Phase.WAIT is gone.decide()[0].phase
    assert Phase.SKIP is without_operator(cluster()).decide()[0].phase


def second_plugin(started: float) -> Cluster:
    """Return a fresh fleet with another plugin under a name of its own, which started at a moment."""
    owner = [{"kind": "DaemonSet", "name": "mine", "uid": "mine", "controller": True}]
    mine: Object = {"metadata": {"name": "mine", "uid": "mine"}}
    pod = plugin_pod(waited=started - 1, started=started)
    found = cluster().put("daemonset", obj("plugin-daemonset", mine))
    return found.put("plugin-pod", merged(pod, {"metadata": {"name": "mine-0", "uid": "m", "ownerReferences": owner}}))


def test_a_stale_plugin_under_an_unknown_name_is_no_success() -> None:
    """It may not be restarted, so the run ends with a failure that names it, once nothing else can progress."""
    decision, memory = second_plugin(-500).decide()
    assert [(NodeState.STALE, Reason.UNNAMED_PLUGIN)] == [
        (one.state, one.reason) for one in decision.statuses if one.reason is not Reason.VERIFIED
    ]
    assert (Phase.FAIL, Reason.UNNAMED_PLUGIN, []) == (decision.phase, decision.reason, restarted(decision))
    assert "mine-0 is stale" in decision.message
    busy = second_plugin(-500).put("plugin-pod", stale_plugin())
    assert (Phase.WAIT, ["gpu-0"]) == ((first := busy.decide()[0]).phase, restarted(first))
    fresh, _memory = second_plugin(R + 6).decide(memory=memory)
    assert (Phase.DONE, 1) == (fresh.phase, len(fresh.warnings))


def test_a_stale_plugin_under_an_unknown_name_counts_in_no_bound() -> None:
    """The share is one of the plugins that may be restarted."""
    found = second_plugin(-500).put("plugin-pod", stale_plugin())
    assert ["gpu-0"] == restarted(found.decide(down(1))[0])
    queued = found.put("plugin-pod", merged(stale_plugin(), parsed(DELETING))).decide(down(1))
    assert "PluginRestarting" in reasons(queued[0].statuses)


def orphan(pod: Object | None = None) -> Object:
    """Return a plugin pod that its DaemonSet left behind; a stale one unless told otherwise."""
    owned: Object = {"metadata": {"name": "orphan", "uid": "orphan", "ownerReferences": []}}
    whole: Object = merged(pod or stale_plugin(), owned)
    return whole


def test_an_orphaned_plugin_pod_counts() -> None:
    """It runs on and holds the old driver, with or without a pod of the new DaemonSet on its node."""
    alone = cluster().drop("plugin-pod").put("plugin-pod", orphan())
    both = cluster().put("plugin-pod", orphan())
    for found in (alone, both):
        decision, _memory = found.decide()
        assert (Phase.WAIT, ["orphan"]) == (
            decision.phase,
            [one.pod.name for one in decision.actions if isinstance(one, DeletePod)],
        )
    assert Phase.DONE is cluster().put("plugin-pod", orphan(plugin_pod())).decide()[0].phase
    elsewhere: Object = {"metadata": {"namespace": "default"}}
    assert Phase.DONE is cluster().put("plugin-pod", merged(orphan(), elsewhere)).decide()[0].phase
    unlike: Object = {"metadata": {"labels": {"dra-driver-nvidia-gpu-component": "controller"}}}
    assert Phase.DONE is cluster().put("plugin-pod", merged(orphan(), unlike)).decide()[0].phase


def test_an_orphan_that_a_daemonset_adopts_is_restarted_although_it_was_refused_before() -> None:
    """The chart's admission policy knows plugins by the name of their DaemonSet, so it refuses an orphan."""
    found = cluster().only("plugin-pod", orphan())
    decision, memory = found.decide()
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER, refused="not a pod of a named DaemonSet")
    refused, memory = found.decide(memory=memory)
    assert (["RestartRefused"], []) == (reasons(refused.statuses), restarted(refused))
    adopted: Object = {"metadata": {"ownerReferences": stale_plugin()["metadata"]["ownerReferences"]}}
    assert ["gpu-0"] == restarted(found.change("plugin-pod", adopted).decide(memory=memory)[0])


def test_two_stale_pods_on_one_node_are_restarted_one_after_the_other() -> None:
    """The second one ran next to the first, so it is not what came of the first one's restart."""
    for settings in (Settings(), FOLLOWING):
        found = stale().only("plugin-pod", orphan(), stale_plugin())
        memory, gone = Memory(started=LATER), []
        for _pod in range(2):
            decision, memory = found.decide(settings, memory)
            (action,) = decision.actions
            assert isinstance(action, DeletePod)
            memory = memory.asked(action.node, action.pod, LATER)
            gone.append(action.pod.name)
            found.drop("plugin-pod", action.pod.name)
        assert ["orphan", "plugin-gpu-0"] == gone
        assert [1] == [one.tries for one in memory.restarts.values()]
        found.put("plugin-pod", merged(stale_plugin(), {"metadata": {"uid": "next"}}))
        assert NodeState.FAILED is found.decide(settings, memory)[0].statuses[0].state


def test_a_pod_that_ran_next_to_a_restarted_one_is_not_its_successor() -> None:
    """Its equal second is still in doubt."""
    found = stale().put("plugin-pod", orphan(plugin_pod(waited=-9, started=R)))
    decision, memory = found.decide()
    action = next(one for one in decision.actions if isinstance(one, DeletePod))
    memory = memory.asked(action.node, action.pod, LATER)
    left = found.drop("plugin-pod", action.pod.name).decide(memory=memory)[0]
    assert [Reason.PLUGIN_STALE] == [one.reason for one in left.statuses]


def test_two_plugins_on_one_node_hide_no_missing_one_on_another() -> None:
    """The DaemonSet wants a pod on two nodes; two pods are on one of them."""
    found = cluster("a", "b").drop("plugin-pod", "plugin-b")
    found.put("plugin-pod", merged(plugin_pod("a"), {"metadata": {"name": "plugin-a2", "uid": "a2"}}))
    decision, _memory = found.decide()
    assert (Phase.WAIT, ["Verified", "PluginMissing"]) == (decision.phase, reasons(decision.statuses))


WHOLE = {"repository": None, "version": None}


@pytest.mark.parametrize(
    ("image", "rendered"),
    [
        ("nvcr.io/nvidia/driver:580.126.20", True),
        ("nvcr.io/nvidia/driver:580.126.21", False),
        ("registry:5000/nvidia/driver:580.126.20", False),
        ("nvcr.io/nvidia/driver@sha256:" + "0a" * 32, False),
    ],
)
def test_a_driver_image_as_one_whole_reference_is_compared(image: str, rendered: bool) -> None:
    """The operator appends the operating system to its tag, or takes a digest as it is."""
    found = cluster().change("policy", {"spec": {"driver": {**WHOLE, "image": image}}})
    if "registry" in image:
        # Another registry alone may be the work of an admission webhook: it is another path here.
        found.change("policy", {"spec": {"driver": {"image": "registry:5000/other/driver:580.126.20"}}})
    decision, _memory = found.decide()
    assert rendered is (decision.reason is not Reason.NOT_RENDERED), image
    if "@" in image:
        containers = [{"name": "nvidia-driver-ctr", "image": image}]
        found.change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
        assert Phase.DONE is found.decide()[0].phase


def test_where_nothing_can_be_compared_the_quiet_time_is_longer() -> None:
    """An edit that a slow operator has not rendered after 16 s must not pass for done."""
    found = cluster().change("policy", {"spec": {"driver": {**WHOLE, "image": "registry:5000/driver"}}})
    found.change("revision", {"metadata": {"creationTimestamp": stamp(3600)}})
    told, memory = [], Memory(started=LATER)
    for seconds in (0, 16, 59, 60):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.WAIT, Phase.DONE] == told
    assert any("60 s without a change" in one for one in decision.warnings)


# Early or needless restarts.


def rdma(ofed: Cluster) -> Cluster:
    """Return a stale GPU node whose policy asks for GPUDirect RDMA, with a network stack in some state."""
    node = {"metadata": {"labels": {"feature.node.kubernetes.io/pci-15b3.present": "true"}}}
    return with_ofed(stale().change("node", node), ofed.drop("plugin-pod").drop("node").drop("policy"))


def test_a_network_driver_that_is_about_to_come_is_waited_for() -> None:
    """Its pod terminates, has ended or is gone while its DaemonSet wants one here: it is missing, not absent."""
    for missing in (
        network("gpu-0").change("driver-pod", DELETING),
        network("gpu-0").change("driver-pod", "status: {phase: Failed}"),
        network("gpu-0").drop("driver-pod"),
        network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=None)),
    ):
        decision, _memory = rdma(missing).decide()
        assert (["PriorDriverUnsettled"], []) == (reasons(decision.statuses), restarted(decision))
    for absent in (
        network("gpu-0").drop("driver-pod").change("daemonset", "status: {desiredNumberScheduled: 0}"),
        network("gpu-0").drop("driver-pod").drop("daemonset"),
    ):
        assert ["gpu-0"] == restarted(rdma(absent).decide()[0])
    elsewhere = rdma(network("gpu-0").drop("driver-pod"))
    elsewhere.change("node", {"metadata": {"labels": {"feature.node.kubernetes.io/pci-15b3.present": None}}})
    assert ["gpu-0"] == restarted(elsewhere.decide()[0])


def test_a_network_driver_that_its_daemonset_rotates_is_waited_for() -> None:
    """Whether the network stack is looked at for itself or not: its DaemonSet says how it is updated."""
    for strategy, expected in (("RollingUpdate", []), ("OnDelete", ["gpu-0"])):
        outdated = network("gpu-0").change("driver-pod", OUTDATED)
        outdated.change("daemonset", {"spec": {"updateStrategy": {"type": strategy}}}, "mofed-ubuntu22.04-ds")
        outdated.change("daemonset", {"spec": {"updateStrategy": {"type": strategy}}})
        assert expected == restarted(rdma(outdated).decide()[0]), strategy


def test_nothing_is_restarted_where_the_network_drivers_intent_cannot_be_read() -> None:
    """Its newest revision, or its DaemonSet, could show that the driver is about to be replaced."""
    for part in ("revision", "daemonset"):
        broken = network("gpu-0").change(part, "metadata: {uid: 7, creationTimestamp: 7}")
        decision, _memory = rdma(broken).decide()
        assert ([], Reason.MALFORMED_OBJECT) == (restarted(decision), decision.reason), part


def with_side_container(driver: Object, started: float, *, restarts: int = 1) -> Object:
    """Return a driver pod with nvidia-peermem next to its driver container."""
    statuses = [*driver["status"]["containerStatuses"], running("nvidia-peermem-ctr", started, restarts=restarts)]
    whole: Object = merged(driver, {"status": {"containerStatuses": statuses}})
    return whole


def time_only(started: float = R + 6) -> Object:
    """Return a plugin pod without an init container that waits: only times can prove it fresh."""
    return plugin_pod(waited=None, started=started)


def test_what_was_fresh_under_one_run_of_the_driver_stays_fresh() -> None:
    """A side container that crashes moves ContainersReady, again and again, while the driver runs on."""
    for settings in (Settings(), FOLLOWING):
        found = cluster().put("plugin-pod", time_only())
        decision, memory = found.decide(settings)
        assert Phase.DONE is decision.phase
        for ready in (900, 1500):
            found.put("driver-pod", with_side_container(driver_pod(ready=ready), ready - 5))
            decision, memory = found.decide(settings, memory)
            assert (Phase.DONE, []) == (decision.phase, restarted(decision))
        found.put("driver-pod", with_side_container(driver_pod(started=2000, ready=2070, restarts=1), 2060))
        assert NodeState.STALE is found.decide(settings, memory)[0].statuses[0].state


def test_what_came_of_our_own_restart_outlives_a_moved_time() -> None:
    """It was restarted once in doubt; the next flap of the side container is no second doubt."""
    found = cluster().put("plugin-pod", time_only(R))
    decision, memory = found.decide()
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    found.put("plugin-pod", merged(time_only(R), {"metadata": {"uid": "next"}}))
    done, memory = found.decide(memory=memory)
    assert Phase.DONE is done.phase
    found.put("driver-pod", with_side_container(driver_pod(ready=900), 895))
    assert Phase.DONE is found.decide(memory=memory)[0].phase


def test_a_fresh_pod_whose_container_crashes_is_starting_again() -> None:
    """Freshness is remembered; that a container runs is not."""
    found = cluster().put("plugin-pod", time_only())
    memory = found.decide()[1]
    pod = time_only()
    state = {"name": "gpus", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    statuses = [pod["status"]["containerStatuses"][0], state]
    found.put("plugin-pod", merged(pod, {"status": {"containerStatuses": statuses, "conditions": conditions(None)}}))
    assert ["PluginStarting"] == reasons(found.decide(memory=memory)[0].statuses)


def test_what_is_remembered_as_fresh_is_forgotten_with_its_pod() -> None:
    """A run that never ends must not grow."""
    memory = cluster().decide()[1]
    assert {"plugin-gpu-0-uid"} == memory.fresh.keys()
    assert {} == cluster().drop("plugin-pod").decide(memory=memory)[1].fresh


TOOLKIT = Settings(refresh_after=("toolkit",))


def test_a_toolkit_that_restarts_in_place_is_another_run() -> None:
    """The restart that each run needs is no restart that did not help, nor one that lengthens the back-off."""
    for settings in (TOOLKIT, ControllerSettings(refresh_after=("toolkit",))):
        found, memory = with_toolkit(cluster()), Memory(started=LATER)
        memory = found.decide(settings, memory)[1]
        for count in (1, 2, 3):
            began = 1000 * count
            ran = [running("nvidia-container-toolkit-ctr", began, restarts=count, ended_before=began - 9)]
            status: Object = {"status": {"containerStatuses": ran, "conditions": conditions(began + 3)}}
            found.change("provider-pod", status)
            now = LATER + timedelta(minutes=count)
            decision, memory = found.decide(settings, memory, now)
            (action,) = decision.actions
            assert isinstance(action, DeletePod)
            memory = memory.asked(action.node, action.pod, now)
            assert [1] == [one.tries for one in memory.restarts.values()]
            fresh = plugin_pod(waited=began + 60, started=began + 61, ready=began + 65)
            found.put("plugin-pod", merged(fresh, {"metadata": {"uid": f"next-{count}"}}))
            decision, memory = found.decide(settings, memory, now)
            assert [NodeState.VERIFIED] == [one.state for one in decision.statuses]


# Never done, or the wrong end.


DIGEST = "@sha256:" + "0b" * 32


@pytest.mark.parametrize(
    ("image", "same"),
    [
        ("mirror.example.com/nvidia/driver:580.126.20-ubuntu22.04", True),
        ("mirror.example.com/nvcr.io/nvidia/driver:580.126.20-ubuntu22.04", True),
        ("nvcr.io/nvidia/driver:580.126.20-ubuntu22.04" + DIGEST, True),
        ("mirror:5000/cache/nvidia/driver:580.126.20-ubuntu22.04" + DIGEST, True),
        ("mirror.example.com/nvidia/driver:580.126.21-ubuntu22.04", False),
        ("mirror.example.com/nvidia/other-driver:580.126.20-ubuntu22.04", False),
        ("mirror.example.com/mynvidia/driver:580.126.20-ubuntu22.04", False),
        ("nvcr.io/nvidia/driver" + DIGEST, False),
    ],
)
def test_an_image_that_a_webhook_rewrote_is_rendered(image: str, same: bool) -> None:
    """Registry and digest may be another's; repository path and tag are the policy's. A warning names both."""
    containers = [{"name": "nvidia-driver-ctr", "image": image}]
    found = cluster().change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
    decision, _memory = found.decide()
    assert (Phase.DONE if same else Phase.WAIT) is decision.phase
    assert same is any(image in one for one in decision.warnings)


def test_a_repository_without_a_registry_is_a_path() -> None:
    """The container runtime's default registry serves it, or a mirror that a webhook names."""
    containers = [{"name": "nvidia-driver-ctr", "image": "mirror.example.com/nvidia/driver:580.126.20-ubuntu22.04"}]
    found = cluster().change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
    for repository, phase in (("nvidia", Phase.DONE), ("other", Phase.WAIT)):
        found.change("policy", {"spec": {"driver": {"repository": repository}}})
        assert phase is found.decide()[0].phase, repository


def test_a_digest_that_a_mirror_serves_is_the_policys() -> None:
    """The policy names a digest, and a webhook another registry."""
    found = cluster().change("policy", {"spec": {"driver": {"version": DIGEST[1:]}}})
    for image, phase in (
        (f"mirror.example.com/nvidia/driver:any{DIGEST}", Phase.DONE),
        (f"mirror.example.com/nvidia/driver{DIGEST}", Phase.DONE),
        (f"mirror.example.com/nvidia/driver{DIGEST[:-1]}0", Phase.WAIT),
    ):
        containers = [{"name": "nvidia-driver-ctr", "image": image}]
        found.change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
        assert phase is found.decide()[0].phase, image


def test_a_rewritten_image_asks_for_a_longer_quiet_time() -> None:
    """An edit of the registry alone looks the same until the operator has rendered it."""
    containers = [{"name": "nvidia-driver-ctr", "image": "mirror.example.com/nvidia/driver:580.126.20-ubuntu22.04"}]
    found = cluster().change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
    found.change("revision", {"metadata": {"creationTimestamp": stamp(3600 - 20)}})
    assert Reason.OPERATOR_SETTLING is found.decide()[0].reason


@pytest.mark.parametrize("pods", [{"hostNetwork": True}, {"hostname": "gpu-operator"}])
def test_an_operator_that_is_named_by_its_host_leads(pods: Object) -> None:
    """Its Lease holds the node's name, or the host name of its template: only the quiet time tells old from new."""
    found = cluster().change("lease", "spec: {holderIdentity: node-7_0f3c}")
    assert Reason.OPERATOR_NOT_LEADING is found.decide()[0].reason
    found.change("deployment", {"spec": {"template": {"spec": pods}}})
    assert Phase.DONE is found.decide()[0].phase
    found.change("lease", {"spec": {"acquireTime": stamp(3600 - 20)}})
    assert Reason.OPERATOR_SETTLING is found.decide()[0].reason


def written(manager: str, seconds: float, *parts: str) -> Object:
    """Return an entry of managedFields."""
    fields: Object = {f"f:{part}": {} for part in parts}
    return {"manager": manager, "operation": "Update", "time": stamp(seconds), "fieldsV1": fields}


def test_a_policy_whose_metadata_is_touched_all_the_time_is_quiet() -> None:
    """Only its spec says what is wanted: a new generation, or a manager of spec fields that wrote."""
    found, memory = cluster(), Memory(started=LATER)
    for seconds in range(0, 16, 5):
        entries = [written("helm", -3600, "metadata", "spec"), written("backup", 3600 + seconds, "metadata")]
        found.change("policy", {"metadata": {"managedFields": entries}})
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        assert Phase.DONE is decision.phase
    # One manager may own both; then its writes say nothing, and the generation is looked at for as long.
    memory, told = Memory(started=LATER), []
    for seconds in (0, 5, 10, 15):
        found.change("policy", {"metadata": {"managedFields": [written("helm", 3600 + seconds, "metadata", "spec")]}})
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.WAIT, Phase.DONE] == told
    found.change("policy", "metadata: {generation: 99}")
    assert Reason.OPERATOR_SETTLING is found.decide(memory=memory, now=LATER + timedelta(seconds=16))[0].reason


def test_nodes_that_blip_do_not_begin_the_policys_grace_anew() -> None:
    """In a large fleet one of them is always away for a moment."""
    ill = cluster("a", "b").change("policy", "status: {state: notReady}")
    away = cluster("a", "b").change("policy", "status: {state: notReady}")
    memory, told = Memory(started=LATER), []
    for seconds in range(0, 121, 20):
        now = LATER + timedelta(seconds=seconds)
        away.change("node", not_ready_since(3600 + seconds - 1), "b")
        decision, memory = (away if seconds % 40 else ill).decide(memory=memory, now=now)
        told.append(decision.phase)
    assert [Phase.WAIT] * 6 + [Phase.DONE] == told


def test_a_side_container_that_restarts_unseen_leaves_its_node_settled() -> None:
    """Without a readiness probe it is back between two looks of the kubelet, and ContainersReady does not move."""
    found = stale().put("driver-pod", with_side_container(driver_pod(), 1000))
    assert ["gpu-0"] == restarted(found.decide()[0])
    # The driver container itself is another matter: R is of its run before.
    moved = driver_pod(restarts=1, started=1000, ended_before=999)
    assert ["DriverNotReady"] == reasons(stale().put("driver-pod", moved).decide()[0].statuses)


def test_a_node_that_lost_its_gpu_is_excluded_after_a_grace() -> None:
    """A plugin still runs on it, but no driver ever comes."""
    found = cluster("a", "b").change("node", labelled("b", present="false"), "b").drop("driver-pod", "driver-b")
    found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    first, memory = found.decide()
    assert (Phase.WAIT, NodeState.WAITING) == (first.phase, first.statuses[1].state)
    later, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=5))
    judged = later.statuses[1]
    assert (Phase.DONE, NodeState.EXCLUDED, Reason.LABELS_MISSING) == (later.phase, judged.state, judged.reason)
    lone = cluster().change("node", labelled(present="false")).drop("driver-pod")
    lone.change("daemonset", "status: {desiredNumberScheduled: 0}", DRIVER)
    memory = lone.decide()[1]
    assert Phase.DONE is lone.decide(memory=memory, now=LATER + timedelta(minutes=5))[0].phase
    with_driver = cluster("a", "b").change("node", labelled("b", present="false"), "b")
    memory = with_driver.decide()[1]
    assert Phase.WAIT is with_driver.decide(memory=memory, now=LATER + timedelta(minutes=5))[0].phase


def test_a_slice_of_an_older_generation_says_nothing() -> None:
    """Consumers of DRA ignore it, so it must not hold its node until the run fails."""
    old: Object = {
        "metadata": {"name": "old"},
        "spec": {"pool": {"name": "gpu-0", "generation": 1}, "devices": [
            {"name": "g", "attributes": {"driverVersion": {"version": "570.1.2"}}}]},
    }  # fmt: skip
    found = cluster().change("slice", "spec: {pool: {generation: 2}}").put("slice", obj("slice", old))
    assert Phase.DONE is found.decide()[0].phase
    found.change("slice", "spec: {pool: {generation: 2}}", "old")
    assert ["SliceOutdated"] == reasons(found.decide()[0].statuses)


def test_a_network_driver_counts_also_while_the_policy_is_away() -> None:
    """Whether it asks for GPUDirect RDMA is not known in that moment, so both drivers must be settled."""
    for missing in (
        network("gpu-0").change("driver-pod", DELETING),
        network("gpu-0").drop("driver-pod"),
        network("gpu-0").put("driver-pod", ofed_pod("gpu-0", ready=None)),
        network("gpu-0").change("revision", "metadata: {uid: 7, creationTimestamp: 7}"),
    ):
        assert [] == restarted(rdma(missing).drop("policy").decide()[0])
    assert ["gpu-0"] == restarted(rdma(network("gpu-0")).drop("policy").decide()[0])


def test_an_orphans_restart_that_does_not_help_is_not_repeated() -> None:
    """Its successor ran under the same run of the driver, whoever controls it."""
    found = cluster().only("plugin-pod", orphan())
    decision, memory = found.decide()
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    again = found.only("plugin-pod", stale_plugin()).decide(memory=memory)[0]
    assert (["RestartDidNotHelp"], []) == (reasons(again.statuses), restarted(again))
    doubt = found.only("plugin-pod", plugin_pod(waited=None, started=R)).decide(memory=memory)[0]
    assert ["Verified"] == reasons(doubt.statuses)


def test_a_toolkit_that_restarts_unseen_provides_since_then() -> None:
    """Its ContainersReady does not move, as with a driver's side container; plugins must start after the later time."""
    found = with_toolkit(cluster()).change(
        "provider-pod",
        {"status": {"containerStatuses": [running("nvidia-container-toolkit-ctr", 1000, restarts=1)]}},
    )
    assert ["gpu-0"] == restarted(found.decide(TOOLKIT)[0])
    found.put("plugin-pod", plugin_pod(waited=1001, started=1002, ready=1006))
    assert Phase.DONE is found.decide(TOOLKIT)[0].phase


def test_a_node_that_is_excluded_without_labels_is_named() -> None:
    """An administrator must hear of it."""
    found = cluster("a", "b").change("node", labelled("b", present="false"), "b").drop("driver-pod", "driver-b")
    found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    memory = found.decide()[1]
    warnings = found.decide(memory=memory, now=LATER + timedelta(minutes=5))[0].warnings
    assert ["excluded, with a plugin but without their labels and a driver pod: b"] == list(warnings)


def test_a_stale_pod_under_an_unknown_name_that_terminates_fails_nothing() -> None:
    """What comes after it may be fresh."""
    found = second_plugin(-500).change("plugin-pod", DELETING, "mine-0")
    assert Phase.DONE is found.decide()[0].phase


def test_what_begins_the_policys_grace_anew() -> None:
    """Another generation of the policy, or another revision of a driver."""
    ill = cluster().change("policy", "status: {state: notReady}")
    memory = ill.decide()[1]
    late = LATER + timedelta(minutes=2)
    assert Phase.DONE is ill.decide(memory=memory, now=late)[0].phase
    for part, patch in (
        ("policy", "metadata: {generation: 9}"),
        ("revision", "metadata: {labels: {controller-revision-hash: b}}"),
    ):
        other = cluster().change("policy", "status: {state: notReady}").change(part, patch)
        other.change("driver-pod", "metadata: {labels: {controller-revision-hash: b}}") if part == "revision" else None
        _settling, memory_after = other.decide(memory=memory, now=late)
        decision, _memory = other.decide(memory=memory_after, now=late + timedelta(seconds=15))
        assert Reason.POLICY_NOT_READY is decision.reason, part


def test_a_move_begins_the_grace_of_a_failure_anew() -> None:
    """A node that was on its way counts as one that may still progress."""
    settings = Settings(plugin_timeout=Duration())
    failed = merged(plugin_pod("a", ready=None), {"metadata": {"uid": "failed"}})
    outdated = cluster("a", "b").put("plugin-pod", failed).change("driver-pod", OUTDATED, "driver-b")
    moving = cluster("a", "b").put("plugin-pod", failed).put("driver-pod", driver_pod("b", ready=None))
    memory, told = Memory(started=LATER), []
    for minutes, found in ((0, outdated), (4, moving), (5, outdated), (9, outdated), (10, outdated)):
        decision, memory = found.decide(settings, memory, LATER + timedelta(minutes=minutes))
        told.append(decision.phase)
    assert [Phase.WAIT] * 4 + [Phase.FAIL] == told


def test_a_rollout_of_the_operator_begins_the_quiet_time_anew() -> None:
    """Also by what this run has seen, where the Deployment's clock is ahead of ours."""

    def rolled(seconds: int) -> Cluster:
        condition = {"type": "Progressing", "status": "True", "lastUpdateTime": stamp(seconds)}
        return cluster().change("deployment", {"status": {"conditions": [condition]}})

    memory = rolled(7200).decide()[1]
    assert Phase.DONE is rolled(7200).decide(memory=memory, now=LATER + timedelta(seconds=15))[0].phase
    assert Phase.WAIT is rolled(7210).decide(memory=memory, now=LATER + timedelta(seconds=15))[0].phase
