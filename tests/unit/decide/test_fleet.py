"""Snapshots by node: which driver pod, revision and DaemonSet a node is evaluated by, and which plugins are found."""

from __future__ import annotations

from hook.decide.reasons import Reason
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.fixtures.objects import driver_pod, merged, obj, parsed
from tests.unit.decide.runs import wrong_decisions, wrong_nodes

DRIVER = "nvidia-driver-daemonset"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
NO_HASH = "metadata: {labels: {controller-revision-hash: null}}"
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
OLD_CONTAINER = "{name: nvidia-driver-ctr, image: 'nvcr.io/nvidia/driver:570.1-ubuntu22.04'}"
RENDERED_OLD = f"spec: {{template: {{spec: {{containers: [{OLD_CONTAINER}]}}}}}}"
LEFTOVER = f"{{metadata: {{name: left, uid: left}}, status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"


def owned_by(name: str, number: int, uid: str) -> str:
    """Return a patch of a revision with another owner, or with none."""
    owner = f"[{{uid: {uid}, controller: true}}]" if uid else "[]"
    labels = f"{{controller-revision-hash: {name}}}"
    return f"{{metadata: {{name: {name}, labels: {labels}, ownerReferences: {owner}}}, revision: {number}}}"


def with_daemonset(found: Cluster, patch: str) -> Cluster:
    """Add another driver DaemonSet."""
    return found.put("daemonset", merged(obj("driver-daemonset"), parsed(patch)))


def test_a_settled_driver_is_one_live_ready_pod_of_the_newest_revision() -> None:
    """Only then is the node's plugin evaluated. Each other case has its own reason."""
    gone = "metadata: {ownerReferences: [{uid: gone, controller: true}]}"
    another = merged(driver_pod(), parsed("{metadata: {name: b, uid: b}, spec: {nodeName: null}}"))
    lost = """
    status:
      conditions:
        - {type: Ready, status: "False", lastTransitionTime: "2026-01-01T10:30:00Z"}
        - {type: ContainersReady, status: "True", lastTransitionTime: "2026-01-01T10:01:10Z"}
    """
    assert {} == wrong_nodes({
        "settled": (stale(), Reason.PLUGIN_STALE),
        "another pod is not scheduled": (stale().put("driver-pod", another), Reason.PLUGIN_STALE),
        "orphaned": (stale().change("driver-pod", "metadata: {ownerReferences: []}"), Reason.DRIVER_ORPHANED),
        "its DaemonSet was replaced": (stale().change("driver-pod", gone), Reason.DRIVER_ORPHANED),
        "a new pod next to an orphan": (
            stale().change("driver-pod", "metadata: {ownerReferences: []}").put("driver-pod", merged(
                driver_pod(ready=None), parsed("metadata: {name: d1, uid: d1}"))), Reason.SEVERAL_DRIVER_PODS),
        "outdated": (stale().change("driver-pod", OLD_HASH), Reason.DRIVER_OUTDATED),
        "no hash": (stale().change("driver-pod", NO_HASH), Reason.DRIVER_OUTDATED),
        "no revision known": (stale().drop("revision"), Reason.DRIVER_OUTDATED),
        "revision of its template": (stale().change("revision", TEMPLATE), Reason.PLUGIN_STALE),
        "revision of a replaced DaemonSet": (
            stale().put("revision", obj("revision", owned_by("old", 7, ""))), Reason.PLUGIN_STALE),
        "newer revision of another DaemonSet": (
            stale().put("revision", obj("revision", owned_by("other", 9, "other-ds"))), Reason.PLUGIN_STALE),
        "not ready": (stale().put("driver-pod", driver_pod(ready=None)), Reason.DRIVER_NOT_READY),
        "not ready by a node outage": (stale().change("driver-pod", lost), Reason.DRIVER_NOT_READY),
    })  # fmt: skip


def test_a_revision_that_arrives_after_its_daemonset_is_waited_for() -> None:
    """The driver pod has the newest revision that is known, but the DaemonSet has another template by now.

    The DaemonSet controller creates the revision before it writes the status, but each kind has a watch of its own.
    """
    for name, before in OF_BEFORE.items():
        decision, _memory = stale().change("revision", before).decide()
        (status,) = decision.statuses
        assert (Reason.DRIVER_OUTDATED, ()) == (status.reason, decision.actions), name


def test_a_node_is_not_settled_before_its_daemonset_shows_the_policy() -> None:
    """The pod's DaemonSet must be observed and match the policy. A leftover without pods does not count."""
    next_chart = "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v27}}}"
    wants_none = f"{{status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"
    assert {} == wrong_nodes({
        "not observed": (stale().change("daemonset", "metadata: {generation: 3}", DRIVER), Reason.NOT_RENDERED),
        "old image": (stale().change("daemonset", RENDERED_OLD, DRIVER), Reason.NOT_RENDERED),
        "new version": (stale().change("policy", "spec: {driver: {version: '590.1'}}"), Reason.NOT_RENDERED),
        "new chart": (stale().change("policy", next_chart), Reason.NOT_RENDERED),
        "wants none but has pods": (stale().change("daemonset", wants_none, DRIVER), Reason.NOT_RENDERED),
        "leftover without pods": (with_daemonset(stale(), LEFTOVER), Reason.PLUGIN_STALE),
    })  # fmt: skip


def test_another_daemonset_that_is_not_rendered_blocks_the_end() -> None:
    """One that wants pods, or is not observed yet, may be the next one. A leftover is not."""
    new = "{metadata: {name: new, uid: new, generation: 1}, status: null}"
    wants_pods = "{metadata: {name: new, uid: new}, " + RENDERED_OLD + "}"
    assert {} == wrong_decisions({
        "just created": (with_daemonset(cluster(), new), Reason.NOT_RENDERED),
        "wants pods": (with_daemonset(cluster(), wants_pods), Reason.NOT_RENDERED),
        "leftover": (with_daemonset(cluster(), LEFTOVER), Reason.NOTHING_STALE),
    })  # fmt: skip
    found = cluster().drop("daemonset", DRIVER).drop("driver-pod").drop("revision")
    decision, _memory = found.decide()
    statuses = [status.reason for status in decision.statuses]
    assert (Reason.NOT_RENDERED, [Reason.DRIVER_MISSING]) == (decision.reason, statuses), "none for a moment"
