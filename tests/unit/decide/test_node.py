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
from tests.fixtures.modes import avoiding, network, ofed_pod, rdma_pod, wants, with_toolkit
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, plugin_pod, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, TOOLKIT, Run, deleted, ending, failing, flapped, named

EXCLUDED, WAITING, STALE = NodeState.EXCLUDED, NodeState.WAITING, NodeState.STALE
PRE_INSTALLED = labelled(deploy_driver="pre-installed")


@dataclass(frozen=True)
class Side:
    """How a condition is made in the cluster of one stack; node b has it, node a has not."""

    make: Callable[..., Cluster]
    driver: str
    plugin: str
    driver_daemonset: str
    plugin_daemonset: str
    present: str
    state: str
    skip: str
    container: str
    driver_at: Callable[..., Object]
    stale: Callable[[str], Object]

    @property
    def failed_upgrade(self) -> Object:
        """Return a patch of a node whose upgrade failed."""
        return {"metadata": {"labels": {self.state: "upgrade-failed"}}}

    def cluster(self) -> Cluster:
        """Return both nodes with stale plugins."""
        return self.make("a", "b").put("plugin-pod", self.stale("a"), self.stale("b"))

    def label(self, key: str, value: str | None) -> Cluster:
        """Change a label of the second node."""
        return self.node({"metadata": {"labels": {key: value}}})

    def node(self, patch: Object) -> Cluster:
        """Change the second node."""
        return self.cluster().change("node", patch, "b")

    def pod(self, patch: Object) -> Cluster:
        """Change the driver pod of the second node."""
        return self.cluster().change("driver-pod", patch, f"{self.driver}-b")

    def waits(self, why: str) -> Cluster:
        """Let the driver container of the second node not start."""
        status: Object = {"status": {"containerStatuses": [waiting(self.container, why, "why")]}}
        return self.cluster().put("driver-pod", merged(self.driver_at("b", ready=None), status))

    def second(self, patch: Object | None = None) -> Cluster:
        """Put a second driver pod on the second node."""
        return self.cluster().put("driver-pod", merged(named(self.driver_at("b"), "another"), patch or {}))

    def without_plugin(self) -> Cluster:
        """Let the plugin's DaemonSet want no pod on the second node, and have none there."""
        found = self.cluster().drop("plugin-pod", f"{self.plugin}-b")
        return found.change("daemonset", avoiding("b"), self.plugin_daemonset)

    def leftover(self) -> Cluster:
        """Add a former driver DaemonSet that wants no pod and has none."""
        old = next(one for one in self.cluster().of("daemonset") if one["metadata"]["name"] == self.driver_daemonset)
        return self.cluster().put(
            "daemonset", merged(named(old, "leftover"), {**patches.running("old:1", self.container), **wants(0)})
        )


SIDES = {
    "gpu": Side(
        make=cluster, driver="driver", plugin="plugin", driver_daemonset=DRIVER,
        plugin_daemonset="dra-driver-nvidia-gpu-kubelet-plugin", present="nvidia.com/gpu.present",
        state="nvidia.com/gpu-driver-upgrade-state", skip="nvidia.com/gpu-driver-upgrade.skip",
        container="nvidia-driver-ctr", driver_at=driver_pod, stale=stale_plugin,
    ),
    "network": Side(
        make=network, driver="mofed", plugin="rdma", driver_daemonset="mofed-ubuntu22.04-76944977f-ds",
        plugin_daemonset="rdma-shared-dp-ds", present="feature.node.kubernetes.io/pci-15b3.present",
        state="nvidia.com/ofed-driver-upgrade-state", skip="nvidia.com/ofed-driver-upgrade.skip",
        container="mofed-container", driver_at=ofed_pod, stale=lambda node: rdma_pod(node, started=-99),
    ),
}  # fmt: skip


def lost(seconds: float, status: str = "Unknown") -> Object:
    """Return a patch of a node whose Ready condition changed so many seconds ago."""
    return not_ready_since(3600 - seconds, status)


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_each_condition_of_a_node_has_its_reason(side: Side) -> None:
    """On that node alone: nothing that is wrong with one node delays the plugin of another one."""
    for name, found, expected in (
        ("skip label", side.label(side.skip, "true"), Reason.NODE_SKIPPED),
        ("skip label that is false", side.label(side.skip, "false"), Reason.PLUGIN_STALE),
        ("upgrade-required", side.label(side.state, "upgrade-required"), Reason.UPGRADE_REQUIRED),
        ("upgrade-failed", side.without_plugin().change("node", side.failed_upgrade, "b"), Reason.UPGRADE_FAILED),
        ("upgrade-failed, and stale", side.label(side.state, "upgrade-failed"), Reason.PLUGIN_STALE),
        ("cordoned", side.node({"spec": {"unschedulable": True}}), Reason.PLUGIN_STALE),
        ("not ready", side.node(lost(1)), Reason.NODE_NOT_READY_BRIEFLY),
        ("not ready, by its clock for long", side.node(lost(900)), Reason.NODE_NOT_READY_BRIEFLY),
        ("came back", side.node(lost(1, "True")), Reason.PLUGIN_STALE),
        ("never reported", side.node({"status": None}), Reason.NODE_NOT_READY_BRIEFLY),
        ("NFD labels vanished", side.label(side.present, None), Reason.LABELS_MISSING),
        ("node deleted, pods not yet", side.cluster().drop("node", "b"), Reason.LABELS_MISSING),
        ("driver pod deleted", side.cluster().drop("driver-pod", f"{side.driver}-b"), Reason.DRIVER_MISSING),
        ("driver pod terminating", side.pod(patches.DELETING), Reason.DRIVER_MISSING),
        ("driver pod evicted", side.pod({"status": {"phase": "Failed"}}), Reason.DRIVER_MISSING),
        ("driver crash-looping", side.waits("CrashLoopBackOff"), Reason.DRIVER_FAILING),
        ("two driver pods", side.second(), Reason.SEVERAL_DRIVER_PODS),
        ("one of them terminating", side.second(patches.DELETING), Reason.PLUGIN_STALE),
        ("leftover DaemonSet without pods", side.leftover(), Reason.PLUGIN_STALE),
        ("no plugin pod, tainted node", side.without_plugin(), Reason.NOTHING_TO_REFRESH),
    ):  # fmt: skip
        decision, _memory = found.decide()
        status = {one.node: one for one in decision.statuses}
        assert (expected, True) == (status["b"].reason, bool(status["b"].message)), name
        assert (Reason.PLUGIN_STALE, Phase.WAIT) == (status["a"].reason, decision.phase), name
        assert "a" in deleted(decision), name


def test_a_node_that_is_lost_is_waited_for_then_excluded_then_evaluated_again() -> None:
    """The run is not done while a node is silent for a moment, also if all were verified a moment ago."""
    run = Run(cluster("a", "b"))
    assert [Phase.DONE] == run.phases(0)
    assert Phase.WAIT is run.then(cluster("a", "b").change("node", lost(0, "False"), "b")).look().phase
    silent, back = (cluster("a", "b").put("plugin-pod", stale_plugin("b")).change("node", patch, "b")
                    for patch in (lost(360), lost(-399, "True")))  # fmt: skip
    # Its clock is six minutes behind, so the timer of the run counts.
    seen = Run(silent).through((10, silent), (309, silent), (310, silent), (400, back))
    assert [Phase.WAIT, Phase.WAIT, Phase.DONE, Phase.WAIT] == [decision.phase for decision in seen]
    assert ["NodeNotReadyBriefly"] * 2 + ["NodeNotReady", "PluginStale"] == [reasons(one.statuses)[1] for one in seen]
    # A node that never reported has no time of its own, so that of this program counts.
    run = Run(cluster("a", "b").change("node", "status: {conditions: []}", "b"))
    assert [Phase.WAIT, Phase.DONE] == run.phases(0, 300)
    assert ["Verified", "NodeNotReady"] == reasons(run.look(300).statuses)


def test_a_fleet_that_changes_during_the_run_is_waited_for() -> None:
    """It is scaled to zero and back, a node is added, or its labels vanish."""
    gone = cluster("a").drop("node").drop("driver-pod").drop("plugin-pod").drop("slice")
    gone.change("daemonset", wants(0))
    there, wait = stale("a", "b"), (Phase.WAIT, 0)
    seen = Run(there).through((0, there), (20, gone), (200, there), (300, gone), (601, gone))
    expected = [(Phase.WAIT, 2), wait, (Phase.WAIT, 2), wait, (Phase.SKIP, 0)]
    assert expected == [(decision.phase, len(decision.actions)) for decision in seen]
    added, _memory = cluster("a").put("node", *cluster("a", "b").of("node")).change("daemonset", wants(2)).decide()
    assert (Phase.WAIT, ["Verified", "DriverMissing"]) == (added.phase, reasons(added.statuses))
    no_label = cluster("a").change("node", labelled("a", present=None)).drop("driver-pod")
    decision, _memory = no_label.change("daemonset", wants(0), DRIVER).decide()
    assert (Phase.WAIT, Reason.NODES_PENDING) == (decision.phase, decision.reason)
    assert ["LabelsMissing"] == reasons(decision.statuses)


def _second(*, pods: bool = True, workload: str | None = None, **labels: str | None) -> Cluster:
    found = stale("gpu-0", "gpu-1").change("node", labelled("gpu-1", **labels), "gpu-1")
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.workload.config": workload}}}, "gpu-1")
    return found if pods else found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")


NOT_DEPLOYED, MISSING = Reason.DRIVER_NOT_DEPLOYED, Reason.LABELS_MISSING
VIRTUAL = Reason.VIRTUAL_MACHINE_NODE


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(_second(deploy_driver="pre-installed"), EXCLUDED, Reason.HOST_DRIVER, id="pre-installed driver"),
        pytest.param(_second(deploy_driver=None, workload="vm-passthrough"), EXCLUDED, VIRTUAL, id="passed through"),
        pytest.param(_second(deploy_driver=None, workload="vm-vgpu", pods=False), EXCLUDED, VIRTUAL, id="vGPU, no pod"),
        pytest.param(
            _second(deploy_driver=None, workload="container", pods=False), EXCLUDED, NOT_DEPLOYED, id="containers"
        ),
        pytest.param(_second(deploy_driver="false"), EXCLUDED, NOT_DEPLOYED, id="driver not deployed"),
        pytest.param(_second(deploy_operands="false"), EXCLUDED, NOT_DEPLOYED, id="operands disabled"),
        pytest.param(_second(deploy_driver=None), WAITING, MISSING, id="driver label vanished, driver runs"),
        pytest.param(_second(deploy_driver="TRUE"), WAITING, MISSING, id="driver label of no known value, driver runs"),
        pytest.param(
            _second(deploy_driver="TRUE", pods=False),
            EXCLUDED,
            NOT_DEPLOYED,
            id="driver label of no known value, no pod",
        ),
        pytest.param(
            _second(present=None).drop("driver-pod", "driver-gpu-1"),
            WAITING,
            MISSING,
            id="GPU label vanished, plugin runs",
        ),
        pytest.param(
            _second(present=None).drop("plugin-pod", "plugin-gpu-1"),
            WAITING,
            MISSING,
            id="GPU label vanished, driver alone",
        ),
    ],
)
def test_a_node_is_eligible_or_excluded_with_a_reason(found: Cluster, state: NodeState, reason: Reason) -> None:
    """A node is never left out without a reason, and vanished labels are waited for while pods run."""
    status = found.decide()[0].statuses[1]
    assert (state, reason) == (status.state, status.reason)


def test_a_node_whose_plugin_never_starts_is_excluded() -> None:
    """The plugin's DaemonSet also selects nodes by CPU vendor; without a GPU its init container never ends."""
    waits: Object = {"conditions": conditions(None), "containerStatuses": [],
                     "initContainerStatuses": [waiting("init-container", "PodInitializing")]}  # fmt: skip
    found = cluster("gpu-0").put("plugin-pod", merged(plugin_pod("b"), {"status": waits}))
    decision, _memory = found.decide()
    assert (Phase.DONE, ["DriverNotDeployed", "Verified"]) == (decision.phase, reasons(decision.statuses))


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (PRE_INSTALLED, lost(1), Reason.HOST_DRIVER),
        (PRE_INSTALLED, labelled(skip="true"), Reason.NODE_SKIPPED),
        (labelled(skip="true", state="upgrade-failed"), lost(1), Reason.NODE_SKIPPED),
    ],
)
def test_an_excluded_node_has_the_reason_that_waiting_does_not_change(
    first: Object, then: Object, expected: Reason
) -> None:
    """A skip label counts on every node."""
    status = cluster().change("node", first).change("node", then).judge()
    assert (EXCLUDED, expected) == (status.state, status.reason)


def outdated(driver: Object | None = None) -> Cluster:
    """Return a verified node whose outdated driver pod no controller replaces."""
    old = merged(driver or driver_pod(), patches.OUTDATED)
    return cluster().change("policy", patches.BY_HAND).put("driver-pod", old)


@pytest.mark.parametrize(
    ("setting", "state", "phase"),
    [
        (OnManualUpgrade.REPORT, EXCLUDED, Phase.DONE),
        (OnManualUpgrade.WAIT, WAITING, Phase.WAIT),
        (OnManualUpgrade.FAIL, NodeState.FAILED, Phase.FAIL),
    ],
)
def test_an_outdated_driver_that_no_controller_replaces_is_handled_as_the_settings_say(
    setting: OnManualUpgrade, state: NodeState, phase: Phase
) -> None:
    """Its plugin matches it, so by default it is only reported."""
    found = cluster("a", "b").change("driver-pod", patches.OUTDATED, "driver-b").change("policy", patches.BY_HAND)
    decision, _memory = found.decide(Settings(on_manual_upgrade=setting))
    status = decision.statuses[1]
    assert (state, Reason.MANUAL_UPGRADE, phase) == (status.state, status.reason, decision.phase)


ROLLING: Object = {"spec": {"updateStrategy": {"type": "RollingUpdate"}}}


@pytest.mark.parametrize(
    ("found", "phase", "expected"),
    [
        pytest.param(outdated().change("daemonset", ROLLING, DRIVER), Phase.WAIT, "DriverOutdated", id="RollingUpdate"),
        pytest.param(outdated(driver_pod(ready=None)), Phase.WAIT, "DriverNotReady", id="not ready yet"),
        pytest.param(
            outdated().change("slice", patches.publishing("570.1.2")),
            Phase.DONE,
            "ManualUpgrade",
            id="slices show the loaded version",
        ),
        pytest.param(
            outdated().change("node", labelled(state="upgrade-required")), Phase.DONE, "ManualUpgrade", id="old state"
        ),
        pytest.param(
            outdated().change("node", labelled(state="drain-required")), Phase.DONE, "ManualUpgrade", id="old drain"
        ),
        pytest.param(stale().change("policy", patches.BY_HAND), Phase.WAIT, "PluginStale", id="a current pod"),
    ],
)
def test_a_rolling_update_is_no_manual_upgrade(found: Cluster, phase: Phase, expected: str) -> None:
    """The DaemonSet controller replaces outdated driver pods, also with autoUpgrade off."""
    decision, _memory = found.decide()
    assert (phase, [expected]) == (decision.phase, reasons(decision.statuses))


def test_a_remedy_names_a_live_pod_if_there_is_one() -> None:
    """A command about a pod that terminates is of no use, whichever is listed first."""
    found = cluster().change("node", labelled(state="upgrade-failed"))
    for part, pod in (("driver-pod", driver_pod()), ("plugin-pod", plugin_pod())):
        found.only(part, ending(pod), *found.of(part))
    status = found.judge()
    assert (Reason.UPGRADE_FAILED, "gpu-operator/driver-gpu-0") == (status.reason, status.subject)
    found.drop("driver-pod").change("node", labelled(state="upgrade-done"))
    assert "nvidia-dra-driver-gpu/plugin-gpu-0" == found.judge().subject


# A malformed BROKEN may decide whether there is a driver, so it counts unless the Node object alone excludes its node.
BROKEN = "metadata: {uid: 7}"


@pytest.mark.parametrize(
    ("part", "patch"),
    [
        ("driver-pod", "metadata: {uid: 7}"),
        ("plugin-pod", "status: {containerStatuses: no}"),
        ("node", "status: {conditions: no}"),
        ("slice", "spec: {devices: 8}"),
    ],
)
def test_a_node_with_a_malformed_object_is_not_touched(part: str, patch: str) -> None:
    """A malformed object is not ready, not fresh and not absent: nothing is known of it."""
    decision, _memory = stale().change(part, patch).decide()
    assert (Phase.WAIT, ["MalformedObject"], ()) == (decision.phase, reasons(decision.statuses), decision.actions)


def test_a_malformed_pod_of_another_node_stops_nothing_here() -> None:
    """The run waits for it."""
    elsewhere = driver_pod("gpu-9")
    elsewhere["spec"]["containers"] = "broken"
    decision, _memory = stale().put("driver-pod", elsewhere).decide()
    assert (Reason.MALFORMED_OBJECT, ["gpu-0"]) == (decision.reason, deleted(decision))


@pytest.mark.parametrize(
    ("node", "part", "name", "expected", "phase"),
    [
        (labelled("b", skip="true"), "plugin-pod", "plugin-b", "NodeSkipped", Phase.DONE),
        (not_ready_since(0), "driver-pod", "driver-b", "NodeNotReadyBriefly", Phase.WAIT),
        (labelled("b", skip="true"), "slice", "0-gpu.nvidia.com-b", "NodeSkipped", Phase.DONE),
        (labelled("b", deploy_driver=None), "driver-pod", "driver-b", "MalformedObject", Phase.WAIT),
    ],
)
def test_a_malformed_pod_counts_unless_its_node_is_excluded_without_it(
    node: Object, part: str, name: str, expected: str, phase: Phase
) -> None:
    """It may decide whether there is a driver."""
    found = cluster("a", "b").change("node", node, "b")
    decision, _memory = found.change(part, "spec: {devices: 8}" if part == "slice" else BROKEN, name).decide()
    assert (phase, ["Verified", expected]) == (decision.phase, reasons(decision.statuses))


UNREADABLE = "{metadata: {uid: 7, creationTimestamp: 7}}"


@pytest.mark.parametrize(
    "found",
    [
        stale().change("policy", UNREADABLE, "cluster-policy"),
        stale().change("daemonset", UNREADABLE, DRIVER),
        stale().change("revision", UNREADABLE, "nvidia-driver-daemonset-new"),
        stale().put(
            "revision", obj("revision", {"metadata": {"name": "newer", "creationTimestamp": 7}, "revision": 3})
        ),
        stale().put("daemonset", obj("driver-daemonset", {"metadata": {"name": "other", "uid": 7}})),
        stale("a", "b").put("driver-pod", obj("driver-pod", "{metadata: {name: x}, spec: {nodeName: [1]}}")),
    ],
    ids=["policy", "DaemonSet", "revision", "a newer revision", "another DaemonSet", "a driver pod on any node"],
)
def test_nothing_is_restarted_while_what_concerns_all_nodes_is_malformed(found: Cluster) -> None:
    """A node that is not settled could look settled."""
    decision, _memory = found.decide()
    assert (Phase.WAIT, Reason.MALFORMED_OBJECT, ()) == (decision.phase, decision.reason, decision.actions)


@pytest.mark.parametrize("driver", [{}, patches.OUTDATED], ids=["current", "outdated"])
@pytest.mark.parametrize("state", sorted(names.STATES_BEFORE_RESTART))
def test_upgrade_labels_veto_before_the_restart_of_the_driver(state: str, driver: Object) -> None:
    """The old driver is in use, or being unloaded."""
    found = stale().change("node", labelled(state=state)).change("driver-pod", driver)
    assert Reason.UPGRADE_IN_PROGRESS is found.judge().reason


@pytest.mark.parametrize("state", ["drain-requested", "Upgrade-Done", "true"])
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
        (stale(), f"{DEPLOY}device-plugin", PAUSED, Reason.OPERANDS_PAUSED),
        (stale(), f"{DEPLOY}dcgm", f"custom_{PAUSED}", Reason.OPERANDS_PAUSED),
        (stale(), f"{DEPLOY}device-plugin", "", Reason.PLUGIN_STALE),
        (cluster(), "network.nvidia.com/operator.x", PAUSED, Reason.VERIFIED),
        (network(), f"{DEPLOY}dcgm", PAUSED, Reason.VERIFIED),
    ],
)
def test_paused_operands_veto(found: Cluster, label: str, value: str, expected: Reason) -> None:
    """While the driver manager has paused any operand of its stack, the old driver is being unloaded."""
    found.change("node", {"metadata": {"labels": {label: value}}})
    assert expected is found.judge().reason


DRAIN, CRASHING = labelled(state="drain-required"), failing()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            cluster().change("node", DRAIN).put("driver-pod", CRASHING),
            Reason.DRIVER_FAILING,
            id="driver pod before label",
        ),
        pytest.param(
            with_toolkit(cluster(), ready=None).put("driver-pod", CRASHING),
            Reason.DRIVER_FAILING,
            id="driver before toolkit",
        ),
        pytest.param(
            stale().change("driver-pod", patches.OUTDATED).change("policy", "spec: {driver: {version: 590.1.2}}"),
            Reason.NOT_RENDERED,
            id="the DaemonSet before its pods",
        ),
        pytest.param(
            cluster().change("driver-pod", "metadata: {ownerReferences: []}").change("node", DRAIN),
            Reason.DRIVER_ORPHANED,
            id="an orphan before its label",
        ),
    ],
)
def test_a_node_waits_for_what_must_happen_first(found: Cluster, expected: Reason) -> None:
    """The reason names the cause, not what follows from it: graces and remedies depend on the reason."""
    status = found.judge(TOOLKIT)
    assert (WAITING, expected) == (status.state, status.reason)


def test_a_container_that_cannot_start_fails_its_driver() -> None:
    """None of these ends by waiting, unlike a container that is being created."""
    hopeless = {
        "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    }  # fmt: skip
    for reason in (*hopeless, "ContainerCreating", "PodInitializing"):
        for where in ("initContainerStatuses", "containerStatuses"):
            pod = merged(driver_pod(ready=None), {"status": {where: [waiting("any", reason)]}})
            found = cluster().put("driver-pod", pod).judge()
            assert (reason in hopeless) is (Reason.DRIVER_FAILING is found.reason), reason


def test_a_side_container_that_restarts_unseen_leaves_its_node_settled() -> None:
    """Without a readiness probe it is back between two looks of the kubelet, and ContainersReady does not move."""
    assert ["gpu-0"] == deleted(stale().put("driver-pod", flapped(driver_pod(), 1000)).decide()[0])
    # If the driver container itself restarted, R belongs to its previous run.
    moved = driver_pod(restarts=1, started=1000, ended_before=999)
    assert Reason.DRIVER_NOT_READY is stale().put("driver-pod", moved).judge().reason
