"""Views of API objects: what is kept of each, and which cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.cluster import cluster, labelled, not_ready_since, stale, stale_plugin
from tests.fixtures.objects import (
    Object,
    R,
    at,
    conditions,
    driver_pod,
    error_of,
    finished,
    merged,
    obj,
    plugin_pod,
    raw,
    running,
    stamp,
    waiting,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_a_node_keeps_only_the_labels_that_matter() -> None:
    """Five thousand nodes carry dozens of labels each."""
    expected = views.Node(
        name="gpu-0",
        labels={
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.deploy.driver": "true",
            "nvidia.com/gpu.deploy.device-plugin": "true",
            "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        },
        ready=True,
        ready_since=datetime(2025, 12, 1, 8, tzinfo=UTC),
    )
    assert expected == readers.node(obj("node"))


def test_only_a_true_condition_makes_a_node_ready() -> None:
    """A node without the condition is not ready."""
    for patch in (
        "status: null",
        "status: {conditions: []}",
        "status: {conditions: [{type: Ready, status: Unknown}]}",
    ):
        assert not readers.node(obj("node", patch)).ready, patch


def test_the_time_of_a_label_is_kept_only_if_it_is_wanted() -> None:
    """The last write of any manager of the label counts. Thousands of nodes have large `managedFields`."""
    owned = "fieldsV1: {'f:metadata': {'f:labels': {'f:mig': {}}}}"
    time = "time: '2026-01-01T10:00:0"
    read = readers.node_with_writes(["mig", "other"])
    for writes, expected in (
        (f"[{{{time}5Z', {owned}}}, {{{time}7.9Z', {owned}}}, {{{time}6Z', {owned}}}]", {"mig": at(7)}),
        (f"[{{{time}9Z', fieldsV1: {{'f:metadata': {{'f:labels': {{'f:more': {{}}}}}}}}}}]", {}),
        (f"[{{{time}9Z', fieldsV1: {{'f:metadata': {{}}}}}}, {{{time}9Z', fieldsV1: {{}}}}, {{{time}9Z'}}]", {}),
        (f"[{{{owned}}}]", {}),
        ("null", {}),
    ):
        node = obj("node", f"metadata: {{managedFields: {writes}}}")
        assert expected == read(node).written, writes
        assert {} == readers.node(node).written


def test_a_driver_daemonset_is_read() -> None:
    """Generation, counts, selector, template label and images."""
    found = readers.daemonset(obj("driver-daemonset", "status: {updatedNumberScheduled: 0}"))
    labels = {"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"}
    expected = views.DaemonSet(
        namespace="gpu-operator", name="nvidia-driver-daemonset", uid="driver-ds", generation=2, observed_generation=2,
        desired=1, misscheduled=0, updated=0, labels=labels, selector=(("app", "nvidia-driver-daemonset"),),
        owner_kind="ClusterPolicy", owner_uid="policy-uid",
        template_labels={**labels, "helm.sh/chart": "gpu-operator-v26.3.4"},
        node_selector={"nvidia.com/gpu.deploy.driver": "true"},
        images={"nvidia-driver-ctr": "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"}, tolerations=(), rolling=False,
    )  # fmt: skip
    assert (expected, "gpu-operator/nvidia-driver-daemonset") == (found, str(found))


def test_a_daemonset_rolls_unless_it_says_on_delete() -> None:
    """RollingUpdate is the API's default."""
    for patch, expected in (
        ("{}", True),
        ("spec: {updateStrategy: null}", True),
        ("spec: {updateStrategy: {type: OnDelete}}", False),
    ):
        assert expected == readers.daemonset(obj("plugin-daemonset", patch)).rolling, patch


def test_a_revision_is_read() -> None:
    """The hash that its pods carry, the number that orders it, and its owner's UID."""
    expected = views.Revision("gpu-operator", "nvidia-driver-daemonset-new", "driver-ds", 2, "new", created=at(-60))
    assert expected == readers.revision(obj("revision"))


def test_a_revision_records_its_template() -> None:
    """The labels and the images, as far as they are there."""
    containers = "{template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}, {name: e}]}}}"
    recorded = readers.revision(obj("revision", f"data: {{spec: {containers}}}")).template
    assert recorded == views.Template.of({"a": "b"}, {"c": "d", "e": ""})
    assert readers.revision(obj("revision", "data: {spec: {template: {}}}")).template == views.Template.of({}, {})
    assert readers.revision(obj("revision", "data: {spec: {}}")).template is None


def test_only_the_controlling_owner_counts() -> None:
    """An orphaned object has no owner, whatever it was called after."""
    for references, expected in (
        ("[]", ""),
        ("[{kind: DaemonSet, uid: a}]", ""),
        ("[{uid: a, controller: false}, {uid: b, controller: true}]", "b"),
    ):
        found = readers.revision(obj("revision", f"metadata: {{ownerReferences: {references}}}"))
        assert expected == found.owner_uid, references


def test_a_driver_pod_is_read() -> None:
    """Ownership, placement, and what its containers did and when."""
    found = readers.pod(driver_pod(restarts=1, ended_before=-5))
    unloader = views.Container("k8s-driver-manager", None, at(-2), succeeded=True, last_finished_at=None, restarts=0,
                               waiting="", message="")  # fmt: skip
    driver = views.Container("nvidia-driver-ctr", at(0), None, succeeded=False, last_finished_at=at(-5), restarts=1,
                             waiting="", message="")  # fmt: skip
    expected = views.Pod(
        namespace="gpu-operator", name="driver-gpu-0", uid="driver-gpu-0-uid", resource_version="100", node="gpu-0",
        owner_uid="driver-ds", hash="new", deleting=False, ended=False, ready=True, containers_ready_since=at(R),
        init_containers=(unloader,), containers=(driver,),
        labels={"app.kubernetes.io/component": "nvidia-driver", "controller-revision-hash": "new"},
    )  # fmt: skip
    assert (expected, "gpu-operator/driver-gpu-0") == (found, str(found))


def test_a_pod_that_is_not_ready_has_no_ready_time() -> None:
    """The transition to not ready is no proof of anything."""
    pod = readers.pod(plugin_pod(ready=None))
    assert (False, None) == (pod.ready, pod.containers_ready_since)


def test_ready_and_containers_ready_are_read_apart() -> None:
    """The node controller moves Ready when a node is lost, never ContainersReady."""
    lost = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T11:00:00Z"}, conditions(R)[1]]
    pod = readers.pod(merged(driver_pod(), {"status": {"conditions": lost}}))
    assert (False, at(R)) == (pod.ready, pod.containers_ready_since)


STATES: Final[tuple[tuple[Object, tuple[object, bool, str, str]], ...]] = (
    (running("gpus", R + 6), (at(R + 6), False, "", "")),
    (waiting("gpus", "CrashLoopBackOff", "back-off"), (None, False, "CrashLoopBackOff", "back-off")),
    (finished("gpus", 5), (None, True, "", "")),
    (finished("gpus", 5, 1), (None, False, "", "")),
    ({"name": "gpus", "state": {"terminated": {}}}, (None, False, "", "")),
    ({"name": "gpus", "state": {"terminated": {"exitCode": None}}}, (None, False, "", "")),
    ({"name": "gpus"}, (None, False, "ContainerCreating", "")),
    ({"name": "gpus", "state": {"running": {}}}, (None, False, "ContainerCreating", "")),
    ({"name": "gpus", "state": {"terminated": {"exitCode": 2, "message": "boom"}}}, (None, False, "", "boom")),
)


def plugin_with(containers: Sequence[str], statuses: Sequence[Object]) -> views.Pod:
    """Read a plugin's pod with these containers and statuses."""
    spec = {"containers": [{"name": name} for name in containers]}
    return readers.pod(obj("plugin-pod", {"spec": spec, "status": {"containerStatuses": statuses}}))


def test_a_containers_state_is_read() -> None:
    """It runs, waits with a reason, or ended; what is not reported is being created."""
    for status, expected in STATES:
        (found,) = plugin_with(["gpus"], [status]).containers
        assert expected == (found.started_at, found.succeeded, found.waiting, found.message), status


def test_every_container_of_the_spec_counts() -> None:
    """A container without a status is not running, rather than absent."""
    for spec, reported, expected in (
        ("ab", "b", [("a", "ContainerCreating"), ("b", "")]),
        ("", "b", [("b", "")]),
        ("a", "ab", [("a", ""), ("b", "")]),
    ):
        pod = plugin_with(spec, [running(name, R + 6) for name in reported])
        assert expected == [(one.name, one.waiting) for one in pod.containers], (spec, reported)


V1BETA1: Final = """
apiVersion: resource.k8s.io/v1beta1
spec:
  devices:
    - name: gpu-0
      basic: {attributes: {driverVersion: {version: 580.105.8}}}
"""
MIG: Final = """
spec:
  devices:
    - {name: gpu-0-mig-1g, attributes: {type: {string: mig}}}
    - {name: gpu-0, attributes: {driverVersion: {version: 580.126.20}}}
    - {name: gpu-1, attributes: {driverVersion: {version: 580.126.20}}}
"""


def test_a_slice_is_read() -> None:
    """How many devices it has, and which driver versions they publish."""
    for patch, devices, versions in (
        ("{}", 1, {"580.126.20"}),
        (V1BETA1, 1, {"580.105.8"}),
        (MIG, 3, {"580.126.20"}),
        ("spec: {devices: null}", 0, set()),
        ("spec: {devices: [{name: vfio}]}", 1, set()),
        ("spec: {devices: [{name: x, attributes: {driverVersion: {string: a}}}]}", 1, set()),
    ):
        expected = views.DeviceSlice("gpu-0", devices, "gpu-0", 1, frozenset(versions))
        assert expected == readers.device_slice(obj("slice", patch)), patch


def test_a_deployment_is_read() -> None:
    """What tells whether it is rolled out."""
    expected = views.Deployment(
        namespace="gpu-operator", name="gpu-operator", uid="operator", revision="2", generation=2,
        observed_generation=2, wanted=1, total=1, updated=1, available=1,
    )  # fmt: skip
    assert expected == readers.deployment(obj("deployment"))


def test_a_replicaset_and_a_lease_are_read() -> None:
    """A ReplicaSet has an owner and its revision; a Lease a holder and the time of its acquisition, or neither."""
    assert views.ReplicaSet("gpu-operator-5ddc6f64ff", "operator", "2") == readers.replicaset(obj("replicaset"))
    holder = "gpu-operator-5ddc6f64ff-dtlr4_0e3f4b9a-8a0e-4a51-9c5e-3b7d8f1a2c44"
    assert views.Lease("gpu-operator", holder, at(-58)) == readers.lease(obj("lease"))
    assert views.Lease("gpu-operator", "", None) == readers.lease(obj("lease", "spec: null"))


def test_what_cannot_be_read_is_set_apart() -> None:
    """A malformed object keeps as much of its identity as can be read."""
    nameless: Object = {"metadata": {"name": ["a"], "namespace": 3}, "spec": []}
    for found, expected in (
        (obj("driver-pod", "metadata: {uid: 7}"), ("gpu-operator", "driver-gpu-0", "gpu-0")),
        (nameless, ("", "", "")),
    ):
        malformed = readers.entry(readers.pod, "Pod", raw(found)).view
        assert isinstance(malformed, views.Malformed), found
        assert ("Pod", *expected) == (malformed.kind, malformed.namespace, malformed.name, malformed.node)


def test_what_can_be_read_is_a_view() -> None:
    """It comes with its key and its version."""
    found, key = obj("driver-pod"), ("gpu-operator", "driver-gpu-0")
    assert (key, "100", readers.pod(found)) == readers.entry(readers.pod, "Pod", raw(found))


# Times of a pod that cannot be true together: it is malformed, so it is neither fresh nor restarted.

FUTURE: Final = 10**8


def since(ready: float, containers_ready: float, status: str = "True") -> Sequence[Object]:
    """Return conditions of two moments."""
    first, second = conditions(ready)[0], conditions(containers_ready)[1]
    return [{**first, "status": status}, second]


def reported(pod: Object, **status: object) -> Object:
    """Return a pod with another status."""
    changed: Object = merged(pod, {"status": status})
    return changed


SIDECAR: Final = merged(
    reported(plugin_pod(), initContainerStatuses=[finished("init-container", 5), finished("mesh", R + 900, 1)]),
    {"spec": {"initContainers": [{"name": "init-container"}, {"name": "mesh", "restartPolicy": "Always"}]}},
)
IMPOSSIBLE: Final = {
    "plugin-started-in-the-future": reported(stale_plugin(), containerStatuses=[
        running("compute-domains", -499), running("gpus", FUTURE)]),
    "driver-started-after-it-was-ready": driver_pod(started=R + 1, ready=R),
    "driver-ready-in-the-future-but-not-the-pod": reported(driver_pod(), conditions=since(R, FUTURE)),
    "plugin-waited-until-after-its-start": reported(stale_plugin(),
                                                    initContainerStatuses=[finished("init-container", R)]),
    "driver-started-before-the-old-one-was-unloaded": driver_pod(started=0, unloaded=5),
    "driver-started-before-its-last-run-ended": driver_pod(started=0, ended_before=5, restarts=1),
    "ended-before-it-started": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": stamp(6)}}})]),
    "container-reported-twice": reported(stale_plugin(), containerStatuses=[
        running("gpus", -499), running("compute-domains", -499), running("gpus", R + 5)]),
    "container-wanted-twice": merged(plugin_pod(), {"spec": {"containers": [{"name": "gpus"}] * 2}}),
}  # fmt: skip
POSSIBLE: Final = {
    "all-in-one-second": plugin_pod(waited=R, started=R),
    "driver-unloaded-and-started-in-one-second": driver_pod(started=0, unloaded=0, ended_before=0, restarts=1, ready=0),
    "lost-and-back": reported(driver_pod(), conditions=since(R + 900, R)),
    "lost-and-not-ready": reported(driver_pod(), conditions=since(R - 900, R, "False")),
    "ready-since-never": reported(driver_pod(), conditions=[{"type": "Ready", "status": "True"}, conditions(R)[1]]),
    "not-ready-yet": driver_pod(started=5, ready=None),
    "ended-in-the-second-of-its-start": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": stamp(5)}}})]),
    "without-init-containers": plugin_pod(waited=None),
    "restarted-by-its-liveness-probe": reported(plugin_pod(), containerStatuses=[
        running("gpus", R + 900, restarts=1, ended_before=R + 899), running("compute-domains", R + 5)]),
    "a-sidecar-that-crashed": SIDECAR,
}  # fmt: skip


def test_a_pod_that_contradicts_itself_is_refused() -> None:
    """No proof can rest on it."""
    for name, pod in IMPOSSIBLE.items():
        assert error_of(MalformedObjectError, readers.pod, pod), name


def test_what_can_be_true_is_read() -> None:
    """Whole seconds make equal times of what came one after the other. The base objects are possible, too."""
    base = ("driver-pod", "plugin-pod", "exporter/pod", "toolkit/pod", "network/driver-pod", "network/plugin-pod")
    for name, pod in {**POSSIBLE, **{name: obj(name) for name in base}}.items():
        assert not error_of(MalformedObjectError, readers.pod, pod), name


def test_a_stale_plugin_that_claims_a_later_start_is_neither_done_nor_restarted() -> None:
    """Its node waits, and its message names the pod; the other node is refreshed."""
    forged = reported(
        stale_plugin("b"), containerStatuses=[running("gpus", FUTURE), running("compute-domains", FUTURE)]
    )
    decision, _memory = stale("a", "b").put("plugin-pod", forged).decide()
    assert Phase.WAIT is decision.phase
    assert [("a", NodeState.STALE, Reason.PLUGIN_STALE), ("b", NodeState.WAITING, Reason.MALFORMED_OBJECT)] == [
        (one.node, one.state, one.reason) for one in decision.statuses
    ]
    assert ["a"] == [one.node for one in decision.actions if hasattr(one, "node")]
    assert "plugin-b" in decision.statuses[1].message


def test_a_plugin_whose_liveness_probe_restarted_it_is_judged_as_any_other() -> None:
    """Its containers never seemed unready; when they started is what counts."""
    again = {"restarts": 1, "ended_before": R + 899}
    statuses = [running("gpus", R + 900, **again), running("compute-domains", R + 900, **again)]
    found = stale("a").put("plugin-pod", merged(stale_plugin("a"), {"status": {"containerStatuses": statuses}}))
    assert [Reason.VERIFIED] == [one.reason for one in found.decide()[0].statuses]


def test_a_driver_that_seems_ready_since_an_earlier_run_is_not_settled() -> None:
    """When it is ready is part of the proof, and nobody knows."""
    early = driver_pod("a", started=R + 900, ended_before=R + 899, restarts=1, ready=R)
    decision, _memory = stale("a").put("driver-pod", early).decide()
    assert [(NodeState.WAITING, Reason.DRIVER_NOT_READY)] == [(one.state, one.reason) for one in decision.statuses]


def test_an_excluded_node_holds_nothing_back() -> None:
    """Whatever its pods say: an administrator skips it, or it is lost."""
    odd = reported(stale_plugin("b"), initContainerStatuses=[finished("init-container", R)])
    for patch, reason in (
        (labelled("b", skip="true"), Reason.NODE_SKIPPED),
        (not_ready_since(-900), Reason.NODE_NOT_READY),
    ):
        found = cluster("a", "b").put("plugin-pod", odd)
        assert Phase.WAIT is found.decide()[0].phase, reason
        decision, _memory = found.change("node", patch, "b").decide()
        assert (Phase.DONE, reason) == (decision.phase, decision.statuses[1].reason)
