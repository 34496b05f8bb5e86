"""Nodes: which are eligible, which are excluded and why, and which driver is settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import names
from hook.settings import OnManualUpgrade, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import (
    Pool,
    avoiding,
    network,
    ofed_pod,
    pooled,
    rdma_pod,
    with_exporter,
    with_toolkit,
)
from tests.fixtures.objects import Object, driver_pod, merged, obj, plugin_pod, stamp, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, PLUGIN, TOOLKIT, Run, deleted, ending, failing, flapped, named

EXCLUDED, WAITING, STALE = NodeState.EXCLUDED, NodeState.WAITING, NodeState.STALE
WAIT, DONE = Phase.WAIT, Phase.DONE


@dataclass(frozen=True)
class Side:
    """How a condition is made in the cluster of one stack; node b has it, node a has not."""

    make: Callable[..., Cluster]
    driver: str
    plugin: str
    plugin_daemonset: str
    driver_at: Callable[..., Object]
    stale: Callable[[str], Object]

    def cluster(self) -> Cluster:
        """Return both nodes with stale plugins."""
        return self.make("a", "b").put("plugin-pod", self.stale("a"), self.stale("b"))

    def label(self, word: str, value: str | None) -> Cluster:
        """Change a label of the second node: ``present``, ``state`` or ``skip``."""
        stack = self.make().stack
        keys = {"present": stack.nodes.present, "state": stack.upgrade.state, "skip": stack.upgrade.skip}
        return self.node({"metadata": {"labels": {keys[word]: value}}})

    def node(self, patch: Object) -> Cluster:
        """Change the second node."""
        return self.cluster().change("node", patch, "b")

    def crashing(self) -> Cluster:
        """Let the driver container of the second node crash."""
        container = waiting(self.make().stack.driver.container, "CrashLoopBackOff")
        status: Object = {"status": {"containerStatuses": [container]}}
        return self.cluster().put("driver-pod", merged(self.driver_at("b", ready=None), status))

    def second(self, patch: Object) -> Cluster:
        """Put a second driver pod on the second node."""
        return self.cluster().put("driver-pod", merged(named(self.driver_at("b"), "another"), patch))

    def without_plugin(self, found: Cluster) -> Cluster:
        """Let the plugin's DaemonSet want no pod on the second node, and have none there."""
        found.drop("plugin-pod", f"{self.plugin}-b")
        return found.change("daemonset", avoiding("b"), self.plugin_daemonset)


SIDES = {
    "gpu": Side(cluster, "driver", "plugin", PLUGIN, driver_pod, stale_plugin),
    "network": Side(network, "mofed", "rdma", "rdma-shared-dp-ds", ofed_pod, lambda node: rdma_pod(node, started=-99)),
}


def lost(seconds: float, status: str = "Unknown") -> Object:
    """Return a patch of a node whose Ready condition changed so many seconds ago."""
    return not_ready_since(3600 - seconds, status)


CONDITIONS: dict[str, tuple[Callable[[Side], Cluster], Reason]] = {
    "skip label": (lambda side: side.label("skip", "true"), Reason.NODE_SKIPPED),
    "skip label that is false": (lambda side: side.label("skip", "false"), Reason.PLUGIN_STALE),
    "upgrade-required": (lambda side: side.label("state", "upgrade-required"), Reason.UPGRADE_REQUIRED),
    "upgrade-failed": (
        lambda side: side.without_plugin(side.label("state", "upgrade-failed")), Reason.UPGRADE_FAILED),
    "cordoned": (lambda side: side.node({"spec": {"unschedulable": True}}), Reason.PLUGIN_STALE),
    "not ready": (lambda side: side.node(lost(900)), Reason.NODE_NOT_READY_BRIEFLY),
    "came back": (lambda side: side.node(lost(1, "True")), Reason.PLUGIN_STALE),
    "never reported": (lambda side: side.node({"status": None}), Reason.NODE_NOT_READY_BRIEFLY),
    "NFD labels vanished": (lambda side: side.label("present", None), Reason.LABELS_MISSING),
    "node deleted, pods not yet": (lambda side: side.cluster().drop("node", "b"), Reason.LABELS_MISSING),
    "driver pod deleted": (
        lambda side: side.cluster().drop("driver-pod", f"{side.driver}-b"), Reason.DRIVER_MISSING),
    "driver pod evicted": (
        lambda side: side.cluster().change("driver-pod", {"status": {"phase": "Failed"}}, f"{side.driver}-b"),
        Reason.DRIVER_MISSING),
    "driver crash-looping": (lambda side: side.crashing(), Reason.DRIVER_FAILING),
    "two driver pods": (lambda side: side.second({}), Reason.SEVERAL_DRIVER_PODS),
    "one of them terminating": (lambda side: side.second(patches.DELETING), Reason.PLUGIN_STALE),
    "no plugin wanted": (lambda side: side.without_plugin(side.cluster()), Reason.NOTHING_TO_REFRESH),
}  # fmt: skip


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize(("make", "expected"), CONDITIONS.values(), ids=CONDITIONS)
def test_each_condition_of_a_node_has_its_reason(make: Callable[[Side], Cluster], expected: Reason, side: Side) -> None:
    """On that node alone: nothing that is wrong with one node delays the plugin of another one."""
    decision, _memory = make(side).decide()
    status = {one.node: one.reason for one in decision.statuses}
    assert {"a": Reason.PLUGIN_STALE, "b": expected} == status
    assert (WAIT, True) == (decision.phase, "a" in deleted(decision))


def test_a_node_that_is_lost_is_waited_for_then_excluded_then_evaluated_again() -> None:
    """The run is not done while a node is silent for a moment, also if all were verified a moment ago."""
    run = Run(cluster("a", "b"))
    assert [DONE] == run.phases(0)
    silent, back = (cluster("a", "b").put("plugin-pod", stale_plugin("b")).change("node", patch, "b")
                    for patch in (lost(360), lost(-399, "True")))  # fmt: skip
    # Its clock is six minutes behind, so the timer of the run counts.
    seen = Run(silent).through((10, silent), (309, silent), (310, silent), (400, back))
    assert [WAIT, WAIT, DONE, WAIT] == [decision.phase for decision in seen]
    assert ["NodeNotReadyBriefly"] * 2 + ["NodeNotReady", "PluginStale"] == [reasons(one.statuses)[1] for one in seen]


def _second(*, pods: bool = True, workload: str | None = None, **labels: str | None) -> Cluster:
    found = stale("gpu-0", "gpu-1").change("node", labelled("gpu-1", **labels), "gpu-1")
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.workload.config": workload}}}, "gpu-1")
    return found if pods else found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")


def in_two_pools() -> Cluster:
    """Return a node without a driver pod in the second of two pools, each of which wants pods on its own node."""
    found = pooled(Pool("a", ("gpu-0",)), Pool("b", ("gpu-1",))).drop("driver-pod", "driver-gpu-1")
    for pool, other in (("a", "gpu-1"), ("b", "gpu-0")):
        found.change("daemonset", avoiding(other), f"nvidia-gpu-driver-{pool}")
    return found


NOT_DEPLOYED, MISSING = Reason.DRIVER_NOT_DEPLOYED, Reason.LABELS_MISSING
VIRTUAL = Reason.VIRTUAL_MACHINE_NODE
UNWANTED = cluster("gpu-0", "gpu-1").drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")
TAINTED = Cluster(dict(UNWANTED.parts)).change("node", patches.TAINT, "gpu-1")
ELIGIBLE = {
    "pre-installed driver": (_second(deploy_driver="pre-installed"), EXCLUDED, Reason.HOST_DRIVER),
    "passed through": (_second(deploy_driver=None, workload="vm-passthrough"), EXCLUDED, VIRTUAL),
    "containers": (_second(deploy_driver=None, workload="container", pods=False), EXCLUDED, NOT_DEPLOYED),
    "driver label vanished, driver runs": (_second(deploy_driver=None), WAITING, MISSING),
    "driver label of no known value, no pod": (_second(deploy_driver="TRUE", pods=False), EXCLUDED, NOT_DEPLOYED),
    "GPU label vanished, plugin runs": (
        _second(present=None).drop("driver-pod", "driver-gpu-1"), WAITING, MISSING),
    "GPU label vanished, driver alone": (
        _second(present=None).drop("plugin-pod", "plugin-gpu-1"), WAITING, MISSING),
    "a driver pod without a node": (
        cluster("gpu-0", "gpu-1").drop("node", "gpu-1").drop("plugin-pod", "plugin-gpu-1"), WAITING, MISSING),
    "lost, and without labels": (
        _second(present=None).change("node", lost(1), "gpu-1"), WAITING, Reason.NODE_NOT_READY_BRIEFLY),
    "no driver tolerates its taint": (TAINTED, EXCLUDED, Reason.NO_DRIVER_WANTED),
    "no driver selects it, but one may in a moment": (
        UNWANTED.change("daemonset", avoiding("gpu-1"), DRIVER).change(
            "daemonset", "metadata: {generation: 9}", DRIVER), WAITING, Reason.DRIVER_MISSING),
    "one of several DaemonSets wants a driver there": (in_two_pools(), WAITING, Reason.DRIVER_MISSING),
}  # fmt: skip


@pytest.mark.parametrize(("found", "state", "reason"), ELIGIBLE.values(), ids=ELIGIBLE)
def test_a_node_is_eligible_or_excluded_with_a_reason(found: Cluster, state: NodeState, reason: Reason) -> None:
    """A node is never left out without a reason, and vanished labels are waited for while pods run."""
    status = found.decide()[0].statuses[1]
    assert (state, reason) == (status.state, status.reason)


def test_a_node_without_a_device_and_without_pods_is_none_of_the_fleet() -> None:
    """One whose plugin never starts is excluded: its DaemonSet also selects nodes by CPU vendor."""
    bare = obj("node", {"metadata": {"name": "b", "labels": {"nvidia.com/gpu.present": None}}})
    assert ["Verified"] == reasons(cluster("a").put("node", bare).decide()[0].statuses)
    starting = merged(plugin_pod("b"), patches.STARTING)
    decision, _memory = cluster("a").put("node", bare).put("plugin-pod", starting).decide()
    assert (DONE, ["Verified", "DriverNotDeployed"]) == (decision.phase, reasons(decision.statuses))


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (labelled(deploy_driver="pre-installed"), lost(1), Reason.HOST_DRIVER),
        (labelled(deploy_driver="pre-installed"), labelled(skip="true"), Reason.NODE_SKIPPED),
        (labelled(skip="true", state="upgrade-failed"), lost(1), Reason.NODE_SKIPPED),
    ],
)
def test_an_excluded_node_has_the_reason_that_waiting_does_not_change(
    first: Object, then: Object, expected: Reason
) -> None:
    """A skip label counts on every node."""
    status = cluster().change("node", first).change("node", then).judge()
    assert (EXCLUDED, expected) == (status.state, status.reason)


def _joined(seconds: float, *, plugin: bool = False) -> Cluster:
    found = cluster("a", "b").put("driver-pod", driver_pod("b", ready=None))
    found.change("node", {"metadata": {"creationTimestamp": stamp(3600 + seconds)}}, "b")
    return found if plugin else found.drop("plugin-pod", "plugin-b")


JOINED = {
    "joined": (_joined(5), DONE),
    "joined in the second of the start": (_joined(0), WAIT),
    "joined again, with a plugin that runs": (_joined(5, plugin=True), WAIT),
    "its driver fails": (_joined(5).put("driver-pod", failing("b")), WAIT),
}


@pytest.mark.parametrize(("found", "expected"), JOINED.values(), ids=JOINED)
def test_a_fleet_that_gets_a_node_each_minute_succeeds(found: Cluster, expected: Phase) -> None:
    """A node that joined after the run began, and whose first driver is being loaded, has no stale plugin."""
    assert expected is Run(found).look(60).phase
    # The controller has no end to wait for.
    assert WAIT is Run(found, FOLLOWING).look(60).phase


# Manual upgrades.


def outdated(driver: Object | None = None) -> Cluster:
    """Return a verified node whose outdated driver pod no controller replaces."""
    old = merged(driver or driver_pod(), patches.OUTDATED)
    return cluster().change("policy", patches.BY_HAND).put("driver-pod", old)


@pytest.mark.parametrize(
    ("setting", "state", "phase"),
    [
        (OnManualUpgrade.REPORT, EXCLUDED, DONE),
        (OnManualUpgrade.WAIT, WAITING, WAIT),
        (OnManualUpgrade.FAIL, NodeState.FAILED, Phase.FAIL),
    ],
)
def test_an_outdated_driver_that_no_controller_replaces_is_handled_as_the_settings_say(
    setting: OnManualUpgrade, state: NodeState, phase: Phase
) -> None:
    """Its plugin matches it, so by default it is only reported."""
    decision, _memory = outdated().decide(Settings(on_manual_upgrade=setting))
    (status,) = decision.statuses
    assert (state, Reason.MANUAL_UPGRADE, phase) == (status.state, status.reason, decision.phase)


ROLLING: Object = {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}
OLD_SLICE = outdated().change("slice", patches.publishing("570.1.2"))
WITH_STALE_EXPORTER = with_exporter(cluster(), started=5).change("policy", patches.BY_HAND)
CLIENTS = Settings(driver_clients=(EXPORTER,))
BY_HAND: dict[str, tuple[Cluster, Settings, list[str]]] = {
    "RollingUpdate": (outdated().change("daemonset", ROLLING, DRIVER), JOB, ["DriverOutdated"]),
    "not ready yet": (outdated(driver_pod(ready=None)), JOB, ["DriverNotReady"]),
    "slices show the loaded version": (OLD_SLICE, JOB, ["ManualUpgrade"]),
    "old state": (outdated().change("node", labelled(state="upgrade-required")), JOB, ["ManualUpgrade"]),
    "a current pod": (stale().change("policy", patches.BY_HAND), JOB, ["PluginStale"]),
    "one of two plugins is stale": (
        WITH_STALE_EXPORTER.change("driver-pod", patches.OUTDATED), CLIENTS, ["Verified", "PluginStale"]),
    "no policy": (cluster().change("driver-pod", patches.OUTDATED).drop("policy"), JOB, ["DriverOutdated"]),
    "an old state without a policy": (
        stale().drop("policy").change("node", labelled(state="pod-deletion-required")), JOB, ["PluginStale"]),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "expected"), BY_HAND.values(), ids=BY_HAND)
def test_a_rolling_update_is_no_manual_upgrade(found: Cluster, settings: Settings, expected: list[str]) -> None:
    """The DaemonSet controller replaces outdated driver pods, also with autoUpgrade off. State labels are left over."""
    assert expected == reasons(found.decide(settings)[0].statuses)


def test_a_remedy_names_a_live_pod_if_there_is_one() -> None:
    """A command about a pod that terminates is of no use, whichever is listed first."""
    found = cluster().change("node", labelled(state="upgrade-failed"))
    for part, pod in (("driver-pod", driver_pod()), ("plugin-pod", plugin_pod())):
        found.only(part, ending(pod), *found.of(part))
    status = found.judge()
    assert (Reason.UPGRADE_FAILED, "gpu-operator/driver-gpu-0") == (status.reason, status.subject)
    found.drop("driver-pod").change("node", labelled(state="upgrade-done"))
    assert "nvidia-dra-driver-gpu/plugin-gpu-0" == found.judge().subject


# Malformed objects.

BROKEN = {
    "driver-pod": "metadata: {uid: 7}",
    "plugin-pod": "status: {containerStatuses: no}",
    "node": "status: {conditions: no}",
    "slice": "spec: {devices: 8}",
}


@pytest.mark.parametrize(("part", "patch"), BROKEN.items(), ids=BROKEN)
def test_a_node_with_a_malformed_object_is_not_touched(part: str, patch: str) -> None:
    """A malformed object is not ready, not fresh and not absent: nothing is known of it. Other nodes are refreshed."""
    name = stale("b").of(part)[0]["metadata"]["name"]
    decision, _memory = stale("a", "b").change(part, patch, name).decide()
    assert (WAIT, Reason.MALFORMED_OBJECT, ["a"]) == (decision.phase, decision.reason, deleted(decision))
    assert ["PluginStale", "MalformedObject"] == reasons(decision.statuses)


ALONE = {
    "skipped": (labelled("b", skip="true"), "plugin-pod", "plugin-b", "NodeSkipped", DONE),
    "not ready": (not_ready_since(0), "driver-pod", "driver-b", "NodeNotReadyBriefly", WAIT),
    "without its label": (labelled("b", deploy_driver=None), "driver-pod", "driver-b", "MalformedObject", WAIT),
}


@pytest.mark.parametrize(("node", "part", "name", "expected", "phase"), ALONE.values(), ids=ALONE)
def test_a_malformed_pod_counts_unless_its_node_is_excluded_without_it(
    node: Object, part: str, name: str, expected: str, phase: Phase
) -> None:
    """It may decide whether there is a driver."""
    decision, _memory = cluster("a", "b").change("node", node, "b").change(part, BROKEN["driver-pod"], name).decide()
    assert (phase, ["Verified", expected]) == (decision.phase, reasons(decision.statuses))


UNREADABLE = "{metadata: {uid: 7, creationTimestamp: 7}}"
CONCERNS_ALL = {
    "policy": stale().change("policy", UNREADABLE, "cluster-policy"),
    "DaemonSet": stale().change("daemonset", UNREADABLE, DRIVER),
    "a newer revision": stale().put("revision", obj("revision", {"metadata": {"name": "b"}, "revision": "3"})),
    "a driver pod on any node": stale("a").put("driver-pod", obj("driver-pod", "{metadata: {name: x}, spec: 7}")),
}


@pytest.mark.parametrize("found", CONCERNS_ALL.values(), ids=CONCERNS_ALL)
def test_nothing_is_restarted_while_what_concerns_all_nodes_is_malformed(found: Cluster) -> None:
    """A node that is not settled could look settled."""
    decision, _memory = found.decide()
    assert (WAIT, Reason.MALFORMED_OBJECT, ()) == (decision.phase, decision.reason, decision.actions)


# Labels of an upgrade.


@pytest.mark.parametrize("driver", [{}, patches.OUTDATED], ids=["current", "outdated"])
@pytest.mark.parametrize("state", sorted(names.STATES_BEFORE_RESTART))
def test_upgrade_labels_veto_before_the_restart_of_the_driver(state: str, driver: Object) -> None:
    """The old driver is in use, or being unloaded."""
    found = stale().change("node", labelled(state=state)).change("driver-pod", driver)
    assert Reason.UPGRADE_IN_PROGRESS is found.judge().reason


@pytest.mark.parametrize("state", ["drain-requested", "Upgrade-Done"])
def test_a_state_that_is_not_known_vetoes(state: str) -> None:
    """A later version of the operator may mean anything by it."""
    assert Reason.UPGRADE_STATE_UNKNOWN is stale().change("node", labelled(state=state)).judge().reason


@pytest.mark.parametrize("value", [*sorted(names.STATES_AFTER_RESTART), "upgrade-failed", "upgrade-done", None])
def test_upgrade_labels_veto_before_the_restart_of_the_driver_alone(value: str | None) -> None:
    """They trail by up to two minutes: after the restart they delay the end of the run, not a plugin."""
    decision, _memory = stale().change("node", labelled(state=value)).decide()
    assert (["PluginStale"], ["gpu-0"]) == (reasons(decision.statuses), deleted(decision))
    assert (value not in ("upgrade-done", None)) is decision.statuses[0].label_pending


DEPLOY, PAUSED = "nvidia.com/gpu.deploy.", "paused-for-driver-upgrade"


@pytest.mark.parametrize(
    ("found", "label", "value", "expected"),
    [
        (stale(), f"{DEPLOY}dcgm", f"custom_{PAUSED}", Reason.OPERANDS_PAUSED),
        (stale(), "nvidia.com/any", PAUSED, Reason.OPERANDS_PAUSED),  # the driver manager may evict by a label of ours
        (stale(), f"{DEPLOY}device-plugin", "", Reason.PLUGIN_STALE),
        (cluster(), "network.nvidia.com/operator.x", PAUSED, Reason.VERIFIED),
        (network(), f"{DEPLOY}dcgm", PAUSED, Reason.VERIFIED),
    ],
)
def test_paused_operands_veto(found: Cluster, label: str, value: str, expected: Reason) -> None:
    """While the driver manager has paused any operand of its stack, the old driver is being unloaded."""
    found.change("node", {"metadata": {"labels": {label: value}}})
    assert expected is found.judge().reason


# The driver.

DRAIN, ORPHAN = labelled(state="drain-required"), "metadata: {ownerReferences: []}"
NEW_VERSION = "spec: {driver: {version: 590.1.2}}"
FIRST = {
    "driver pod before label": (cluster().change("node", DRAIN).put("driver-pod", failing()), Reason.DRIVER_FAILING),
    "driver before toolkit": (
        with_toolkit(cluster(), ready=None).put("driver-pod", failing()), Reason.DRIVER_FAILING),
    "the DaemonSet before its pods": (
        stale().change("driver-pod", patches.OUTDATED).change("policy", NEW_VERSION), Reason.NOT_RENDERED),
    "an orphan before its label": (
        cluster().change("driver-pod", ORPHAN).change("node", DRAIN), Reason.DRIVER_ORPHANED),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), FIRST.values(), ids=FIRST)
def test_a_node_waits_for_what_must_happen_first(found: Cluster, expected: Reason) -> None:
    """The reason names the cause, not what follows from it: graces and remedies depend on the reason."""
    assert expected is found.judge(TOOLKIT).reason


HOPELESS = (
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
)  # fmt: skip
PASSING = ("ContainerCreating", "PodInitializing")


@pytest.mark.parametrize("where", ["initContainerStatuses", "containerStatuses"])
@pytest.mark.parametrize("why", [*HOPELESS, *PASSING])
def test_a_container_that_cannot_start_fails_its_driver(why: str, where: str) -> None:
    """None of these ends by waiting, unlike a container that is being created."""
    pod = merged(driver_pod(ready=None), {"status": {where: [waiting("any", why)]}})
    expected = Reason.DRIVER_FAILING if why in HOPELESS else Reason.DRIVER_NOT_READY
    assert expected is cluster().put("driver-pod", pod).judge().reason


def test_a_side_container_that_restarts_unseen_leaves_its_node_settled() -> None:
    """Without a readiness probe it is back between two looks of the kubelet, and ContainersReady does not move."""
    assert ["gpu-0"] == deleted(stale().put("driver-pod", flapped(driver_pod(), 1000)).decide()[0])
    # If the driver container itself restarted, R belongs to its previous run.
    moved = driver_pod(restarts=1, started=1000, ended_before=999)
    assert Reason.DRIVER_NOT_READY is stale().put("driver-pod", moved).judge().reason
