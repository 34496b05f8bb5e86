"""Whether a node's driver is the one that the policy asks for, and is Ready."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.fixtures.objects import driver_pod, merged, obj, parsed, waiting

DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:30:00Z'}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
REPLACED = """
metadata: {name: nvidia-driver-daemonset-old, labels: {controller-revision-hash: old}, ownerReferences: []}
revision: 7
"""
TEMPLATE = """
data:
  spec:
    template:
      metadata:
        labels:
          app: nvidia-driver-daemonset
          app.kubernetes.io/component: nvidia-driver
          helm.sh/chart: gpu-operator-v26.3.4
      spec: {containers: [{name: nvidia-driver-ctr, image: "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"}]}
"""
"""That of the DaemonSet, in its ControllerRevision."""
OF_BEFORE = {
    "image": TEMPLATE.replace("580.126.20", "580.105.08"),
    "chart": TEMPLATE.replace("v26.3.4", "v26.3.3"),
}
OTHER_POOL = """
metadata:
  name: other-pool
  labels: {controller-revision-hash: other}
  ownerReferences: [{uid: other-ds, controller: true}]
revision: 9
"""


def second_pod(patch: str = "{}") -> Cluster:
    """Give a cluster with another driver pod on the same node."""
    another = merged(driver_pod(), parsed("metadata: {name: driver-b, uid: driver-b}"))
    return stale().put("driver-pod", merged(another, parsed(patch)))


def container_waits(reason: str, where: str = "containerStatuses") -> Cluster:
    """Give a cluster whose driver pod has a container that does not start."""
    name = "nvidia-driver-ctr" if where == "containerStatuses" else "k8s-driver-manager"
    return stale().put(
        "driver-pod", merged(driver_pod(ready=None), {"status": {where: [waiting(name, reason, "why")]}})
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale(), Reason.PLUGIN_STALE, id="settled"),
        pytest.param(stale().drop("driver-pod"), Reason.DRIVER_MISSING, id="no-driver-pod"),
        pytest.param(stale().change("driver-pod", DELETING), Reason.DRIVER_MISSING, id="driver-pod-terminating"),
        pytest.param(stale().change("driver-pod", "status: {phase: Failed}"), Reason.DRIVER_MISSING, id="evicted"),
        pytest.param(second_pod(), Reason.SEVERAL_DRIVER_PODS, id="two-driver-pods"),
        pytest.param(second_pod(DELETING), Reason.PLUGIN_STALE, id="the-second-is-terminating"),
        pytest.param(second_pod("spec: {nodeName: null}"), Reason.PLUGIN_STALE, id="the-second-is-not-scheduled"),
        pytest.param(stale().change("driver-pod", "metadata: {ownerReferences: []}"), Reason.DRIVER_ORPHANED,
                     id="orphaned"),
        pytest.param(stale().change("driver-pod", "metadata: {ownerReferences: [{uid: gone, controller: true}]}"),
                     Reason.DRIVER_ORPHANED, id="its-daemonset-was-replaced"),
        pytest.param(stale().change("driver-pod", OLD_HASH), Reason.DRIVER_OUTDATED, id="outdated"),
        pytest.param(stale().change("driver-pod", "metadata: {labels: {controller-revision-hash: null}}"),
                     Reason.DRIVER_OUTDATED, id="no-hash"),
        pytest.param(stale().drop("revision"), Reason.DRIVER_OUTDATED, id="no-revision-known"),
        pytest.param(stale().change("revision", TEMPLATE), Reason.PLUGIN_STALE, id="revision-of-its-template"),
        pytest.param(stale().put("revision", obj("revision", REPLACED)), Reason.PLUGIN_STALE,
                     id="revision-of-a-replaced-daemonset"),
        pytest.param(stale().put("revision", obj("revision", OTHER_POOL)), Reason.PLUGIN_STALE,
                     id="newer-revision-of-another-daemonset"),
        pytest.param(stale().put("driver-pod", driver_pod(ready=None)), Reason.DRIVER_NOT_READY, id="not-ready"),
        pytest.param(container_waits("CrashLoopBackOff"), Reason.DRIVER_FAILING, id="crash-loop"),
        pytest.param(container_waits("ImagePullBackOff"), Reason.DRIVER_FAILING, id="image-pull"),
        pytest.param(container_waits("ErrImagePull", "initContainerStatuses"), Reason.DRIVER_FAILING,
                     id="init-image-pull"),
        pytest.param(container_waits("PodInitializing"), Reason.DRIVER_NOT_READY, id="initialising"),
    ],
)  # fmt: skip
def test_settled_is_one_live_newest_ready_driver_pod(found: Cluster, expected: Reason) -> None:
    """Only then is the node's plugin judged; each other case has its own reason."""
    assert expected == found.judge().reason


@pytest.mark.parametrize("before", OF_BEFORE.values(), ids=OF_BEFORE)
def test_a_revision_that_arrives_after_its_daemonset_is_waited_for(before: str) -> None:
    """The driver pod is of the newest revision that is known, but the DaemonSet has another template by now.

    The DaemonSet controller creates the revision before it writes the status, but each kind has a watch of its own.
    """
    decision, _memory = stale().change("revision", before).decide()
    (status,) = decision.statuses
    assert status.reason is Reason.DRIVER_OUTDATED
    assert status.message == "driver pod driver-gpu-0 is of revision new, newest is ?"
    assert decision.actions == ()


def test_ready_moved_by_a_node_outage_is_not_ready() -> None:
    """Both conditions must hold: Ready itself, and the containers for the time that counts."""
    lost = """
    status:
      conditions:
        - {type: Ready, status: "False", lastTransitionTime: "2026-01-01T10:30:00Z"}
        - {type: ContainersReady, status: "True", lastTransitionTime: "2026-01-01T10:01:10Z"}
    """
    assert stale().change("driver-pod", lost).judge().reason is Reason.DRIVER_NOT_READY


def test_a_driver_that_fails_without_a_message_is_named_all_the_same() -> None:
    """The waiting reason is enough."""
    failing = merged(
        driver_pod(ready=None), {"status": {"containerStatuses": [waiting("nvidia-driver-ctr", "ErrImagePull")]}}
    )
    assert "ErrImagePull" in stale().put("driver-pod", failing).judge().message


OLD_CONTAINER = "{name: nvidia-driver-ctr, image: 'nvcr.io/nvidia/driver:570.1-ubuntu22.04'}"
RENDERED_OLD = f"spec: {{template: {{spec: {{containers: [{OLD_CONTAINER}]}}}}}}"
DRIVER = "nvidia-driver-daemonset"
LEFTOVER = f"{{metadata: {{name: left, uid: left}}, status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"
NEXT_CHART = "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v27}}}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale().change("daemonset", "metadata: {generation: 3}", DRIVER), Reason.NOT_RENDERED,
                     id="stale-generation"),
        pytest.param(stale().change("daemonset", RENDERED_OLD, DRIVER), Reason.NOT_RENDERED, id="old-image"),
        pytest.param(stale().change("policy", "spec: {driver: {version: '590.1'}}"), Reason.NOT_RENDERED,
                     id="new-intent"),
        pytest.param(stale().change("policy", NEXT_CHART), Reason.NOT_RENDERED, id="new-chart"),
        pytest.param(stale().change("daemonset", f"{{status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}", DRIVER),
                     Reason.NOT_RENDERED, id="wants-none-but-has-pods"),
        pytest.param(stale().put("daemonset", merged(obj("driver-daemonset"), parsed(LEFTOVER))), Reason.PLUGIN_STALE,
                     id="leftover-without-pods"),
    ],
)  # fmt: skip
def test_a_node_is_not_settled_before_its_daemonset_shows_the_policy(found: Cluster, expected: Reason) -> None:
    """The pod's DaemonSet must be observed and carry what the policy asks for; a leftover does not count."""
    assert expected == found.judge().reason


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param("{metadata: {name: new, uid: new, generation: 1}, status: null}", id="just-created-not-observed"),
        pytest.param("{metadata: {name: new, uid: new}, " + RENDERED_OLD + "}", id="wants-pods"),
    ],
)
def test_another_daemonset_that_is_not_rendered_holds_done_back(patch: str) -> None:
    """One that wants pods, or nobody has looked at yet, may be the one that comes next."""
    found = cluster().put("daemonset", merged(obj("driver-daemonset"), parsed(patch)))
    assert found.decide()[0].reason is Reason.NOT_RENDERED


def test_a_leftover_daemonset_does_not_hold_done_back() -> None:
    """It wants no pods, has none, and its controller has seen it: whatever it shows is of no account."""
    found = cluster().put("daemonset", merged(obj("driver-daemonset"), parsed(LEFTOVER)))
    assert found.decide()[0].reason is Reason.NOTHING_STALE


def test_no_driver_daemonset_is_never_a_reason_to_skip() -> None:
    """For seconds there is none when one replaces another."""
    found = cluster().drop("daemonset", DRIVER).drop("driver-pod").drop("revision")
    decision, _memory = found.decide()
    assert (Reason.NOT_RENDERED, [Reason.DRIVER_MISSING]) == (
        decision.reason,
        [one.reason for one in decision.statuses],
    )
