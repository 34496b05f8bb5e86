"""Snapshots by node: which driver pod, revision and DaemonSet a node is evaluated by, and which plugins are found."""

from __future__ import annotations

from hook.decide.reasons import Reason
from tests.fixtures.cluster import Cluster, cluster, reasons, stale
from tests.fixtures.objects import R, conditions, driver_pod, merged, obj, parsed
from tests.unit.decide.runs import DRIVER, wrong_decisions, wrong_nodes

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
OF_BEFORE = {"image": TEMPLATE.replace("580.126.20", "580.105.08"), "chart": TEMPLATE.replace("v26.3.4", "v26.3.3")}
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
    """Of its own DaemonSet, which must exist. The node controller moves Ready in an outage, never ContainersReady."""
    gone = "metadata: {ownerReferences: [{uid: gone, controller: true}]}"
    another = merged(driver_pod(), parsed("{metadata: {name: b, uid: b}, spec: {nodeName: null}}"))
    orphan, lost = "metadata: {ownerReferences: []}", [conditions(None)[0], conditions(R)[1]]
    assert {} == wrong_nodes({
        "another pod is not scheduled": (stale().put("driver-pod", another), Reason.PLUGIN_STALE),
        "its DaemonSet was replaced": (stale().change("driver-pod", gone), Reason.DRIVER_ORPHANED),
        "a new pod next to an orphan": (stale().change("driver-pod", orphan).put("driver-pod", merged(
            driver_pod(ready=None), parsed("metadata: {name: d1, uid: d1}"))), Reason.SEVERAL_DRIVER_PODS),
        "no hash": (stale().change("driver-pod", NO_HASH), Reason.DRIVER_OUTDATED),
        "no revision known": (stale().drop("revision"), Reason.DRIVER_OUTDATED),
        "revision of its template": (stale().change("revision", TEMPLATE), Reason.PLUGIN_STALE),
        "revision of a replaced DaemonSet": (
            stale().put("revision", obj("revision", owned_by("old", 7, ""))), Reason.PLUGIN_STALE),
        "newer revision of another DaemonSet": (
            stale().put("revision", obj("revision", owned_by("other", 9, "other-ds"))), Reason.PLUGIN_STALE),
        "not ready by a node outage": (
            stale().change("driver-pod", {"status": {"conditions": lost}}), Reason.DRIVER_NOT_READY),
    })  # fmt: skip


def test_a_revision_that_arrives_after_its_daemonset_is_waited_for() -> None:
    """The driver pod has the newest revision that is known, but the DaemonSet has another template by now."""
    # The DaemonSet controller creates the revision before it writes the status, but each kind has a watch of its own.
    for name, before in OF_BEFORE.items():
        decision, _memory = stale().change("revision", before).decide()
        (status,) = decision.statuses
        assert (Reason.DRIVER_OUTDATED, ()) == (status.reason, decision.actions), name


def test_a_daemonset_counts_if_it_has_pods_or_wants_them() -> None:
    """Or if it is not observed yet, so that it may be the next one. A leftover without pods does not count."""
    wants_none = f"{{status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"
    new = "{metadata: {name: new, uid: new, generation: 1}, status: null}"
    wants_pods = "{metadata: {name: new, uid: new}, " + RENDERED_OLD + "}"
    assert {} == wrong_nodes({
        "wants none but has pods": (stale().change("daemonset", wants_none, DRIVER), Reason.NOT_RENDERED),
        "leftover without pods": (with_daemonset(stale(), LEFTOVER), Reason.PLUGIN_STALE),
    })  # fmt: skip
    assert {} == wrong_decisions({
        "just created": (with_daemonset(cluster(), new), Reason.NOT_RENDERED),
        "wants pods": (with_daemonset(cluster(), wants_pods), Reason.NOT_RENDERED),
        "leftover": (with_daemonset(cluster(), LEFTOVER), Reason.NOTHING_STALE),
    })  # fmt: skip
    decision, _memory = cluster().drop("daemonset", DRIVER).drop("driver-pod").drop("revision").decide()
    assert (Reason.NOT_RENDERED, ["DriverMissing"]) == (decision.reason, reasons(decision.statuses)), "for a moment"
