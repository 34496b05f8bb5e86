"""What may be the matter with a node, its labels, its pods and its DaemonSets, for each stack."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, stale_plugin
from tests.fixtures.modes import network, ofed_pod, rdma_pod, wants
from tests.fixtures.objects import (
    Object,
    R,
    conditions,
    driver_pod,
    finished,
    merged,
    plugin_pod,
    running,
    stamp,
    waiting,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Side:
    """How a condition is made in one stack's cluster of the nodes a and b; b is the one that has it."""

    make: Callable[..., Cluster]
    driver: str
    """Prefix of driver pods."""
    plugin: str
    """Prefix of plugin pods."""
    driver_daemonset: str
    plugin_daemonset: str
    present: str
    state: str
    skip: str
    container: str
    unloader: str
    driver_at: Callable[..., Object]
    stale: Callable[[str], Object]

    def cluster(self) -> Cluster:
        """Give both nodes with stale plugins."""
        return self.make("a", "b").put("plugin-pod", self.stale("a"), self.stale("b"))

    def label(self, key: str, value: str | None) -> Cluster:
        """Change a label of the second node."""
        return self.cluster().change("node", {"metadata": {"labels": {key: value}}}, "b")

    def node(self, patch: Object) -> Cluster:
        """Change the second node."""
        return self.cluster().change("node", patch, "b")

    def waits(self, why: str, part: str = "containerStatuses") -> Cluster:
        """Let a container of the second node's driver pod not start."""
        name = self.container if part == "containerStatuses" else self.unloader
        return self.cluster().put(
            "driver-pod", merged(self.driver_at("b", ready=None), {"status": {part: [waiting(name, why, "why")]}})
        )

    def without(self, *, driver: bool = True, plugin: bool = True) -> Cluster:
        """Remove pods of the second node."""
        found = self.cluster()
        if driver:
            found.drop("driver-pod", f"{self.driver}-b")
        return found.drop("plugin-pod", f"{self.plugin}-b") if plugin else found


GPU = Side(
    make=cluster, driver="driver", plugin="plugin", driver_daemonset="nvidia-driver-daemonset",
    plugin_daemonset="dra-driver-nvidia-gpu-kubelet-plugin", present="nvidia.com/gpu.present",
    state="nvidia.com/gpu-driver-upgrade-state", skip="nvidia.com/gpu-driver-upgrade.skip",
    container="nvidia-driver-ctr", unloader="k8s-driver-manager", driver_at=driver_pod, stale=stale_plugin,
)  # fmt: skip
NIC = Side(
    make=network, driver="mofed", plugin="rdma", driver_daemonset="mofed-ubuntu22.04-76944977f-ds",
    plugin_daemonset="rdma-shared-dp-ds", present="feature.node.kubernetes.io/pci-15b3.present",
    state="nvidia.com/ofed-driver-upgrade-state", skip="nvidia.com/ofed-driver-upgrade.skip",
    container="mofed-container", unloader="network-operator-init-container", driver_at=ofed_pod,
    stale=lambda node: rdma_pod(node, started=-99),
)  # fmt: skip
SIDES = {"gpu": GPU, "network": NIC}
DELETING = {"metadata": {"deletionTimestamp": stamp(1000)}}


def lost(seconds: float, status: str = "Unknown") -> Object:
    """Give a patch of a node whose Ready condition changed so many seconds ago."""
    since = (LATER - timedelta(seconds=seconds)).isoformat()
    return {"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]}}


def second(side: Side) -> Cluster:
    """Put a second driver pod on the second node."""
    another = {"metadata": {"name": "another", "uid": "another"}}
    return side.cluster().put("driver-pod", merged(side.driver_at("b"), another))


def ending(side: Side) -> Cluster:
    """Let the second of two driver pods be on its way out."""
    return second(side).change("driver-pod", DELETING, "another")


def leftover(side: Side) -> Cluster:
    """Add a driver DaemonSet of before that wants nothing and has nothing."""
    old = next(one for one in side.cluster().of("daemonset") if one["metadata"]["name"] == side.driver_daemonset)
    images = {"spec": {"template": {"spec": {"containers": [{"name": side.container, "image": "old:1"}]}}}}
    patch = {"metadata": {"name": "leftover", "uid": "leftover"}, **images, **wants(0)}
    return side.cluster().put("daemonset", merged(old, patch))


def recreated(side: Side) -> Cluster:
    """Replace the driver's DaemonSet by one of the same name; its pods stay behind."""
    return side.cluster().change("daemonset", {"metadata": {"uid": "recreated"}}, side.driver_daemonset)


CONDITIONS: dict[str, tuple[Callable[[Side], Cluster], Reason]] = {
    "skip-label": (lambda side: side.label(side.skip, "true"), Reason.NODE_SKIPPED),
    "upgrade-required": (lambda side: side.label(side.state, "upgrade-required"), Reason.UPGRADE_IN_PROGRESS),
    "upgrade-failed": (lambda side: side.label(side.state, "upgrade-failed").drop("plugin-pod", f"{side.plugin}-b")
                       .change("daemonset", wants(1), side.plugin_daemonset), Reason.UPGRADE_FAILED),
    "upgrade-failed-and-stale-is-served": (lambda side: side.label(side.state, "upgrade-failed"), Reason.PLUGIN_STALE),
    "cordoned-by-a-person": (lambda side: side.node({"spec": {"unschedulable": True}}), Reason.PLUGIN_STALE),
    "not-ready-a-blip": (lambda side: side.node(lost(5)), Reason.NODE_NOT_READY_BRIEFLY),
    "not-ready-before-the-upgrade": (lambda side: side.node(lost(7200)), Reason.NODE_NOT_READY),
    "came-back": (lambda side: side.node(lost(1, "True")), Reason.PLUGIN_STALE),
    "never-reported": (lambda side: side.node({"status": None}), Reason.NODE_NOT_READY_BRIEFLY),
    "nfd-labels-vanished": (lambda side: side.label(side.present, None), Reason.LABELS_MISSING),
    "node-deleted-pods-not-yet": (lambda side: side.cluster().drop("node", "b"), Reason.LABELS_MISSING),
    "driver-pod-deleted": (lambda side: side.without(plugin=False), Reason.DRIVER_MISSING),
    "driver-pod-terminating": (lambda side: side.cluster().change("driver-pod", DELETING, f"{side.driver}-b"),
                               Reason.DRIVER_MISSING),
    "driver-pod-evicted": (lambda side: side.cluster().change("driver-pod", {"status": {"phase": "Failed"}},
                                                              f"{side.driver}-b"), Reason.DRIVER_MISSING),
    "driver-pod-pending-on-no-node": (lambda side: side.cluster().change("driver-pod", {"spec": {"nodeName": None}},
                                                                         f"{side.driver}-b"), Reason.DRIVER_MISSING),
    "driver-crash-looping": (lambda side: side.waits("CrashLoopBackOff"), Reason.DRIVER_FAILING),
    "driver-image-pull-back-off": (lambda side: side.waits("ImagePullBackOff"), Reason.DRIVER_FAILING),
    "driver-init-image-pull": (lambda side: side.waits("ErrImagePull", "initContainerStatuses"), Reason.DRIVER_FAILING),
    "driver-config-error": (lambda side: side.waits("CreateContainerConfigError"), Reason.DRIVER_FAILING),
    "driver-starting": (lambda side: side.waits("PodInitializing"), Reason.DRIVER_NOT_READY),
    "two-driver-pods": (second, Reason.SEVERAL_DRIVER_PODS),
    "two-driver-pods-one-terminating": (ending, Reason.PLUGIN_STALE),
    "leftover-daemonset-without-pods": (leftover, Reason.PLUGIN_STALE),
    "daemonset-recreated": (recreated, Reason.DRIVER_ORPHANED),
    "no-plugin-pod-tainted-node": (lambda side: side.without(driver=False).change(
        "daemonset", wants(1), side.plugin_daemonset), Reason.NOTHING_TO_REFRESH),
}  # fmt: skip


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize(("make", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_has_its_reason(side: Side, make: Callable[[Side], Cluster], expected: Reason) -> None:
    """On the node that has it; the reason is the same in each stack."""
    judged = {one.node: one for one in make(side).decide()[0].statuses}
    assert expected is judged["b"].reason
    assert judged["b"].message


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "daemonset-recreated"])
def test_the_node_beside_it_is_served(side: Side, name: str) -> None:
    """Nothing that is the matter with one node holds up another one's plugin."""
    decision, _memory = CONDITIONS[name][0](side).decide()
    (first,) = [one for one in decision.statuses if one.node == "a"]
    assert (Reason.PLUGIN_STALE, Phase.WAIT) == (first.reason, decision.phase)
    assert "a" in [one.node for one in decision.actions if hasattr(one, "node")]


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_failed_upgrade_is_told_after_all_others_are_served(side: Side) -> None:
    """Not at once, for it may clear by itself; not before the others, for they can be helped."""
    failed = side.make("a", "b").change("node", {"metadata": {"labels": {side.state: "upgrade-failed"}}}, "b")
    busy = failed.decide(memory=Memory(started=LATER))
    memory, told = busy[1], [busy[0].phase]
    failed.put("plugin-pod", merged(side.stale("a"), {"metadata": {"uid": "another"}}))
    decision, memory = failed.decide(memory=memory, now=LATER + timedelta(minutes=6))
    told.append(decision.phase)
    assert len(decision.actions) == 1
    failed.put("plugin-pod", *side.make("a").of("plugin-pod"))
    decision, memory = failed.decide(memory=memory, now=LATER + timedelta(minutes=7))
    told.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == told
    judged = next(one for one in decision.statuses if one.node == "b")
    stack = failed.stack
    repair = {"gpu": "=upgrade-required --overwrite", "network": " delete pod "}[stack.name]
    assert repair in remedy(judged.reason, judged.node, judged.subject, stack).partition("To fix")[2]


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_failed_upgrade_that_clears_is_no_failure(side: Side) -> None:
    """The controller leaves the state by itself once the driver is ready."""
    found = side.make("a").change("node", {"metadata": {"labels": {side.state: "upgrade-failed"}}})
    memory = found.decide(memory=Memory(started=LATER))[1]
    found.change("node", {"metadata": {"labels": {side.state: "upgrade-done"}}})
    assert Phase.DONE is found.decide(memory=memory, now=LATER + timedelta(minutes=9))[0].phase


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_blip_at_the_last_read_is_not_done(side: Side) -> None:
    """All was verified a moment ago; done is said only once the node is back."""
    good = side.make("a", "b")
    done, memory = good.decide(memory=Memory(started=LATER))
    blip, memory = side.make("a", "b").change("node", lost(0, "False"), "b").decide(memory=memory)
    back, memory = good.decide(memory=memory)
    assert [Phase.DONE, Phase.WAIT, Phase.DONE] == [done.phase, blip.phase, back.phase]


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_node_that_is_lost_during_the_upgrade_is_served_when_it_is_back(side: Side) -> None:
    """Waited for, then left alone, then judged like any other."""
    memory, told = Memory(started=LATER), []
    for seconds, patch in ((10, lost(0)), (311, lost(0)), (400, lost(-399, "True"))):
        found = side.make("a", "b").put("plugin-pod", side.stale("b")).change("node", patch, "b")
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append(next(one.reason for one in decision.statuses if one.node == "b"))
    assert [Reason.NODE_NOT_READY_BRIEFLY, Reason.NODE_NOT_READY, Reason.PLUGIN_STALE] == told


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_fleet_that_is_scaled_to_zero_and_back_is_followed(side: Side) -> None:
    """Nodes that were there may come back: no success is claimed over their absence at once."""
    gone = side.make("a").drop("node").drop("driver-pod").drop("plugin-pod").drop("slice")
    gone.change("daemonset", wants(0))
    memory, told = Memory(started=LATER), []
    for seconds, found in ((0, side.cluster()), (20, gone), (200, side.cluster()), (300, gone), (601, gone)):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append((decision.phase, len(decision.actions)))
    wait = (Phase.WAIT, 0)
    assert [(Phase.WAIT, 2), wait, (Phase.WAIT, 2), wait, (Phase.SKIP, 0)] == told


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_node_that_is_added_in_the_middle_is_waited_for(side: Side) -> None:
    """Its driver is being built; its plugin comes after it."""
    found = side.make("a").put("node", *side.make("a", "b").of("node")).change("daemonset", wants(2))
    decision, _memory = found.decide()
    assert {"a": Reason.VERIFIED, "b": Reason.DRIVER_MISSING} == {one.node: one.reason for one in decision.statuses}
    assert Phase.WAIT is decision.phase


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_daemonset_that_is_deleted_in_the_middle_is_waited_for(side: Side) -> None:
    """Nothing is stale, and nothing is settled either."""
    found = side.make("a").drop("daemonset", side.driver_daemonset)
    assert (Phase.WAIT, Reason.DRIVER_ORPHANED) == (found.decide()[0].phase, found.judge().reason)


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_a_rebooted_node_is_judged_by_its_new_times(side: Side) -> None:
    """The same pods, by UID, with new starts: the driver's ready time moved, and so did the plugin's start."""
    booting = side.make("a").put("driver-pod", side.driver_at("a", started=1000, ready=None))
    assert Reason.DRIVER_NOT_READY is booting.judge().reason
    driver = side.driver_at("a", started=1000, ready=1070)
    early, late = (
        plugin_pod("a", waited=None, started=moment, ready=moment + 4) if side is GPU else rdma_pod("a", started=moment)
        for moment in (1060, 1080)
    )
    told = [side.make("a").put("driver-pod", driver).put("plugin-pod", one).judge().reason for one in (early, late)]
    assert [Reason.PLUGIN_STALE, Reason.VERIFIED] == told


def test_a_plugin_that_waited_through_the_reboot_is_not_restarted() -> None:
    """Its init container ended on the new driver, however early its pod was there."""
    driver = driver_pod("a", started=1000, ready=1070, restarts=1, ended_before=900)
    waited = plugin_pod("a", waited=1065, started=1066, ready=1080)
    assert cluster("a").put("driver-pod", driver).put("plugin-pod", waited).judge().reason is Reason.VERIFIED


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        pytest.param([waiting("init-container", "PodInitializing")], "is not running (PodInitializing)",
                     id="not-started"),
        pytest.param([running("init-container", R + 1)], "is still waiting for a working driver", id="waiting"),
    ],
)  # fmt: skip
def test_a_plugin_in_its_init_container_is_starting(statuses: list[Object], expected: str) -> None:
    """The driver is absent, or was until a moment ago; the plugin is not stale, it never started."""
    pod = merged(plugin_pod(ready=None), {"status": {"initContainerStatuses": statuses, "containerStatuses": []}})
    judged = cluster().put("plugin-pod", pod).judge()
    assert (NodeState.VERIFYING, Reason.PLUGIN_STARTING, True) == (
        judged.state, judged.reason, expected in judged.message,
    )  # fmt: skip


def test_a_plugin_in_its_init_container_while_there_is_no_driver_is_not_blamed() -> None:
    """The driver's state is what holds the node up."""
    pod = merged(plugin_pod(ready=None), {"status": {
        "initContainerStatuses": [running("init-container", -50)], "containerStatuses": []}})  # fmt: skip
    assert cluster().put("plugin-pod", pod).drop("driver-pod").judge().reason is Reason.DRIVER_MISSING


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        pytest.param({"gpus": R + 6, "compute-domains": R + 6}, Reason.VERIFIED, id="both-after"),
        pytest.param({"gpus": R + 6, "compute-domains": 5}, Reason.PLUGIN_STALE, id="one-too-early"),
        pytest.param({"gpus": -5, "compute-domains": R + 6}, Reason.PLUGIN_STALE, id="the-other-before-the-driver"),
    ],
)
def test_a_plugin_is_as_fresh_as_the_oldest_of_its_containers(started: dict[str, float], expected: Reason) -> None:
    """One that crashed is new, the other is not."""
    statuses = [running(name, moment) for name, moment in started.items()]
    pod = merged(plugin_pod(waited=-60), {"status": {"containerStatuses": statuses}})
    assert expected is cluster().put("plugin-pod", pod).judge().reason


V1 = "{apiVersion: resource.k8s.io/v1, spec: {devices: [{attributes: {driverVersion: {version: %s}}}]}}"
V1BETA2 = V1.replace("/v1,", "/v1beta2,")
V1BETA1 = (
    "{apiVersion: resource.k8s.io/v1beta1, spec: {devices: [{basic: {attributes: {driverVersion: {version: %s}}}}]}}"
)
SHAPES = {"v1": V1, "v1beta2": V1BETA2, "v1beta1": V1BETA1}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("published", "expected"),
    [
        pytest.param("580.126.20", Reason.VERIFIED, id="new"),
        pytest.param("570.124.6", Reason.SLICE_OUTDATED, id="old"),
    ],
)
def test_a_slice_proves_in_every_served_shape(shape: str, published: str, expected: Reason) -> None:
    """Kubernetes 1.32 to 1.34 and later."""
    assert expected is cluster().change("slice", shape % published).judge().reason


def test_mig_devices_publish_no_version_and_need_none() -> None:
    """Published is proof enough where no version is."""
    mig = "spec: {devices: [{name: gpu-0-mig-1g.10gb-0, attributes: {type: {string: mig}}}]}"
    assert cluster().change("slice", mig).judge().reason is Reason.VERIFIED


def test_compute_domains_alone_publish_nothing_and_need_nothing() -> None:
    """That plugin has no GPU container, so no slice is missed."""
    alone = {
        "spec": {"containers": [{"name": "compute-domains"}]},
        "status": {"containerStatuses": [running("compute-domains", R + 6)]},
    }
    assert cluster().drop("slice").put("plugin-pod", merged(plugin_pod(), alone)).judge().reason is Reason.VERIFIED


@pytest.mark.parametrize(
    ("driver", "image", "published", "expected"),
    [
        pytest.param({"version": "580", "usePrecompiled": True}, "driver:580-5.15.0-105-generic-ubuntu22.04",
                     "580.95.5", Reason.VERIFIED, id="branch"),
        pytest.param({"version": "580", "usePrecompiled": True}, "driver:580-5.15.0-105-generic-ubuntu22.04",
                     "570.1.2", Reason.SLICE_OUTDATED, id="another-branch"),
        pytest.param({"version": "sha256:" + "0a" * 32}, "driver@sha256:" + "0a" * 32, "570.1.2", Reason.VERIFIED,
                     id="digest-tells-no-version"),
        pytest.param({"version": None}, "anything:1", "570.1.2", Reason.VERIFIED, id="absent"),
    ],
)  # fmt: skip
def test_a_driver_version_is_proven_as_far_as_it_says(
    driver: Object, image: str, published: str, expected: Reason
) -> None:
    """A branch by its number, a digest or nothing not at all."""
    containers = [{"name": "nvidia-driver-ctr", "image": f"nvcr.io/nvidia/{image}"}]
    rendered: Object = {"spec": {"template": {"spec": {"containers": containers}}}}
    found = cluster().change("policy", {"spec": {"driver": driver}}).change("daemonset", rendered, GPU.driver_daemonset)
    assert expected is found.change("slice", V1 % published).judge().reason


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_stale_plugin_that_would_not_come_back_is_not_deleted(effect: str) -> None:
    """A person gave the node a taint since: better stale than gone."""
    taint = {"spec": {"taints": [{"key": "maintenance", "value": "yes", "effect": effect}]}}
    decision, _memory = GPU.node(taint).decide()
    assert ["a"] == [one.node for one in decision.actions if hasattr(one, "node")]
    assert Reason.TAINT_NOT_TOLERATED is decision.statuses[1].reason


def test_a_driver_that_ended_its_setup_is_not_taken_for_a_crash_loop_after_a_reboot() -> None:
    """Init containers ran anew after the last end: that was the reboot, not a crash."""
    pod = merged(driver_pod(started=1000, ready=None, restarts=4, ended_before=900), {"status": {
        "conditions": conditions(None), "initContainerStatuses": [finished("k8s-driver-manager", 990)]}})  # fmt: skip
    assert cluster().put("driver-pod", pod).judge().reason is Reason.DRIVER_NOT_READY


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_labels_that_vanish_with_the_whole_daemonset_are_waited_for(side: Side) -> None:
    """No node wants a driver any more, by its labels; a plugin still runs there."""
    found = side.make("a").change("node", {"metadata": {"labels": {side.present: None}}}).drop("driver-pod")
    decision, _memory = found.change("daemonset", wants(0), side.driver_daemonset).decide()
    assert (Phase.WAIT, Reason.NODES_PENDING, Reason.LABELS_MISSING) == (
        decision.phase,
        decision.reason,
        decision.statuses[0].reason,
    )
