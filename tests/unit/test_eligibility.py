"""Which nodes are served, which are left alone and why, and which are waited for."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import OnManualUpgrade, Settings
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, stale
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, plugin_pod, waiting

EXCLUDED, WAITING = NodeState.EXCLUDED, NodeState.WAITING
INITIALISING = merged(
    plugin_pod("gpu-0"),
    {
        "status": {
            "conditions": conditions(None),
            "initContainerStatuses": [waiting("init-container", "PodInitializing")],
            "containerStatuses": [],
        }
    },
)


def beside(patch: Object, *, pods: bool = True) -> Cluster:
    """Give a cluster of a good node, and one changed by a patch."""
    found = stale("gpu-0", "gpu-1").change("node", patch, "gpu-1")
    return found if pods else found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        pytest.param(beside(labelled("gpu-1")), NodeState.STALE, Reason.PLUGIN_STALE, id="eligible"),
        pytest.param(beside(labelled("gpu-1", skip="true")), EXCLUDED, Reason.NODE_SKIPPED, id="skipped"),
        pytest.param(beside(labelled("gpu-1", skip="false")), NodeState.STALE, Reason.PLUGIN_STALE, id="not-skipped"),
        pytest.param(beside(labelled("gpu-1", deploy_driver="pre-installed")), EXCLUDED, Reason.HOST_DRIVER,
                     id="pre-installed-driver"),
        pytest.param(beside(labelled("gpu-1", deploy_driver="false")), EXCLUDED, Reason.DRIVER_NOT_DEPLOYED,
                     id="driver-not-deployed"),
        pytest.param(beside(labelled("gpu-1", deploy_operands="false")), EXCLUDED, Reason.DRIVER_NOT_DEPLOYED,
                     id="operands-disabled"),
        pytest.param(beside(labelled("gpu-1", deploy_driver=None), pods=False), EXCLUDED, Reason.DRIVER_NOT_DEPLOYED,
                     id="no-driver-label-and-no-pod"),
        pytest.param(beside(labelled("gpu-1", deploy_driver=None)), WAITING, Reason.LABELS_MISSING,
                     id="driver-label-vanished-while-a-driver-runs"),
        pytest.param(beside(labelled("gpu-1", deploy_driver="TRUE")), WAITING, Reason.LABELS_MISSING,
                     id="driver-label-of-no-known-value-while-a-driver-runs"),
        pytest.param(beside(labelled("gpu-1", deploy_driver="TRUE"), pods=False), EXCLUDED,
                     Reason.DRIVER_NOT_DEPLOYED, id="driver-label-of-no-known-value-and-no-pod"),
        pytest.param(beside(labelled("gpu-1", present="false")), WAITING, Reason.LABELS_MISSING,
                     id="gpu-label-vanished-while-a-driver-runs"),
        pytest.param(beside(labelled("gpu-1", present=None)).drop("driver-pod", "driver-gpu-1"), WAITING,
                     Reason.LABELS_MISSING, id="gpu-label-vanished-while-a-plugin-runs"),
        pytest.param(beside(labelled("gpu-1")).drop("node", "gpu-1"), WAITING, Reason.LABELS_MISSING,
                     id="node-unknown-while-pods-run"),
    ],
)  # fmt: skip
def test_a_node_is_eligible_or_excluded_with_a_reason(found: Cluster, state: NodeState, reason: Reason) -> None:
    """A node is never left out silently, and vanished labels with pods around are waited for."""
    judged = found.decide()[0].statuses[1]
    assert (state, reason) == (judged.state, judged.reason)


def test_a_node_that_lost_its_gpu_is_no_node_of_ours() -> None:
    """The operator leaves the label behind as ``false``; without a pod of ours there is nothing to wait for."""
    found = beside(labelled("gpu-1", present="false"), pods=False)
    assert ["gpu-0"] == [one.node for one in found.decide()[0].statuses]


def test_a_plugin_that_waits_where_no_gpu_is_holds_nothing_back() -> None:
    """The plugin's DaemonSet also selects by CPU vendor; there its init container waits for ever."""
    found = cluster("gpu-0").put(
        "plugin-pod", merged(INITIALISING, {"metadata": {"name": "b"}, "spec": {"nodeName": "b"}})
    )
    decision, _memory = found.decide()
    assert {"b": EXCLUDED, "gpu-0": NodeState.VERIFIED} == {one.node: one.state for one in decision.statuses}
    assert decision.phase is Phase.DONE


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(0, Reason.NODE_NOT_READY_BRIEFLY, id="just-now"),
        pytest.param(299, Reason.NODE_NOT_READY_BRIEFLY, id="a-blip"),
        pytest.param(300, Reason.NODE_NOT_READY, id="five-minutes"),
        pytest.param(86400, Reason.NODE_NOT_READY, id="a-day"),
        pytest.param(-60, Reason.NODE_NOT_READY_BRIEFLY, id="by-a-clock-ahead-of-ours"),
    ],
)
def test_a_node_that_is_not_ready_is_excluded_after_a_grace(seconds: int, expected: Reason) -> None:
    """By the condition's own time; a shorter blip is waited for, and nothing hangs on a lost node."""
    since = (LATER - timedelta(seconds=seconds)).isoformat()
    lost = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]}}
    assert expected == beside(lost).decide()[0].statuses[1].reason


def test_a_node_that_never_reported_is_excluded_after_the_same_grace() -> None:
    """Without a condition there is no time to go by but our own."""
    found = cluster("gpu-0", "gpu-1").change("node", "status: {conditions: []}", "gpu-1")
    first, memory = found.decide()
    second, _memory = found.decide(memory=memory, now=LATER + timedelta(minutes=5))
    assert [Reason.NODE_NOT_READY_BRIEFLY, Reason.NODE_NOT_READY] == [
        first.statuses[1].reason,
        second.statuses[1].reason,
    ]
    assert (Phase.WAIT, Phase.DONE) == (first.phase, second.phase)


def test_a_lost_node_does_not_hold_done_back() -> None:
    """The others are served; the lost one is reported."""
    decision, _memory = cluster("gpu-0", "gpu-1").change("node", not_ready_since(0), "gpu-1").decide()
    assert (Phase.DONE, [NodeState.VERIFIED, EXCLUDED]) == (
        decision.phase,
        [one.state for one in decision.statuses],
    )


OUTDATED = "metadata: {labels: {controller-revision-hash: old}}"
MANUAL = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"


@pytest.mark.parametrize(
    ("on_manual_upgrade", "state", "phase"),
    [
        pytest.param(OnManualUpgrade.REPORT, EXCLUDED, Phase.DONE, id="report"),
        pytest.param(OnManualUpgrade.WAIT, WAITING, Phase.WAIT, id="wait"),
        pytest.param(OnManualUpgrade.FAIL, NodeState.FAILED, Phase.FAIL, id="fail"),
    ],
)
def test_an_outdated_driver_that_nobody_rotates_is_handled_as_asked(
    on_manual_upgrade: OnManualUpgrade, state: NodeState, phase: Phase
) -> None:
    """With autoUpgrade off its plugin still matches it: by default it is reported and left alone."""
    found = cluster("gpu-0", "gpu-1").change("policy", MANUAL).change("driver-pod", OUTDATED, "driver-gpu-1")
    decision, _memory = found.decide(Settings(on_manual_upgrade=on_manual_upgrade))
    judged = decision.statuses[1]
    assert (state, Reason.MANUAL_UPGRADE, phase) == (judged.state, judged.reason, decision.phase)


def test_sandbox_workloads_make_upgrades_manual() -> None:
    """The upgrade controller does nothing while they are enabled, whatever autoUpgrade says."""
    found = cluster("gpu-0", "gpu-1").change("policy", "spec: {sandboxWorkloads: {enabled: true}}")
    decision, _memory = found.change("driver-pod", OUTDATED, "driver-gpu-1").decide()
    assert (Phase.DONE, Reason.MANUAL_UPGRADE) == (decision.phase, decision.statuses[1].reason)


def test_manual_upgrades_name_the_pod_to_delete() -> None:
    """Not the one that is on its way out already."""
    ending = obj("driver-pod", "metadata: {name: a, deletionTimestamp: '2026-01-01T10:00:00Z'}")
    found = cluster().change("policy", MANUAL).change("driver-pod", OUTDATED)
    found.only("driver-pod", ending, *found.of("driver-pod"))
    assert found.judge().subject == "gpu-operator/driver-gpu-0"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale(), Reason.PLUGIN_STALE, id="current-pods-are-served"),
        pytest.param(stale().drop("driver-pod"), Reason.DRIVER_MISSING, id="a-deleted-pod-is-waited-for"),
    ],
)
def test_manual_upgrades_leave_no_other_node_alone(found: Cluster, expected: Reason) -> None:
    """Somebody deleted the driver pod: that node is served like any other."""
    assert expected == found.change("policy", MANUAL).judge().reason


@pytest.mark.parametrize(
    ("part", "patch", "expected"),
    [
        pytest.param("driver-pod", "metadata: {uid: 7}", Reason.MALFORMED_OBJECT, id="driver-pod"),
        pytest.param("plugin-pod", "status: {containerStatuses: no}", Reason.MALFORMED_OBJECT, id="plugin-pod"),
        pytest.param("node", "status: {conditions: no}", Reason.MALFORMED_OBJECT, id="node"),
        pytest.param("slice", "spec: {devices: 8}", Reason.MALFORMED_OBJECT, id="slice"),
    ],
)
def test_a_node_with_an_unreadable_object_is_not_touched(part: str, patch: str, expected: Reason) -> None:
    """Not ready, not fresh, not absent: unknown."""
    decision, _memory = stale().change(part, patch).decide()
    assert ([expected], (), Phase.WAIT) == (
        [one.reason for one in decision.statuses],
        decision.actions,
        decision.phase,
    )


def test_an_unreadable_pod_of_an_unknown_node_closes_every_node() -> None:
    """It may be a second driver pod on any of them."""
    lost = obj("driver-pod", "{metadata: {name: x}, spec: {nodeName: [1]}}")
    decision, _memory = stale("gpu-0", "gpu-1").put("driver-pod", lost).decide()
    assert [Reason.MALFORMED_OBJECT] * 2 == [one.reason for one in decision.statuses]


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        pytest.param("driver-pod", driver_pod("gpu-9"), id="pod-of-another-node"),
        pytest.param("slice", obj("slice", "{metadata: {name: x}, spec: {nodeName: null}}"), id="slice-of-no-node"),
    ],
)
def test_an_unreadable_object_elsewhere_closes_no_other_node(part: str, broken: Object) -> None:
    """It holds done back, but the other nodes are served."""
    broken["spec"]["devices"] = broken["spec"]["containers"] = "broken"
    decision, _memory = stale().put(part, broken).decide()
    assert ("PluginStale", 1) == (decision.statuses[0].reason.value, len(decision.actions))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        pytest.param("policy", "cluster-policy", id="policy"),
        pytest.param("daemonset", "nvidia-driver-daemonset", id="driver-daemonset"),
        pytest.param("revision", "nvidia-driver-daemonset-new", id="revision"),
    ],
)
def test_nothing_is_touched_while_the_intent_cannot_be_read(part: str, name: str) -> None:
    """An unsettled node could look settled."""
    decision, _memory = stale().change(part, "{metadata: {uid: 7, creationTimestamp: 7}}", name).decide()
    assert (Phase.WAIT, Reason.MALFORMED_OBJECT, ()) == (decision.phase, decision.reason, decision.actions)
