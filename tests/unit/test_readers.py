"""Views of API objects: what is kept of each, and which ones cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.cluster import cluster, stale, stale_plugin
from tests.fixtures.objects import (
    Object,
    R,
    at,
    conditions,
    driver_pod,
    finished,
    merged,
    obj,
    plugin_pod,
    raw,
    running,
    stamp,
    waiting,
)

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


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param("status: null", id="no-status"),
        pytest.param("status: {conditions: []}", id="no-condition"),
        pytest.param("status: {conditions: [{type: Ready, status: Unknown}]}", id="unknown"),
    ],
)
def test_only_a_true_condition_makes_a_node_ready(patch: str) -> None:
    """Whatever is not said is not ready."""
    assert not readers.node(obj("node", patch)).ready


def test_a_driver_daemonset_is_read() -> None:
    """Generation, counts, selector, template label and images."""
    found = readers.daemonset(obj("driver-daemonset", "status: {updatedNumberScheduled: 0}"))
    expected = views.DaemonSet(
        namespace="gpu-operator",
        name="nvidia-driver-daemonset",
        uid="driver-ds",
        generation=2,
        observed_generation=2,
        desired=1,
        misscheduled=0,
        updated=0,
        labels={"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"},
        selector=(("app", "nvidia-driver-daemonset"),),
        owner_kind="ClusterPolicy",
        owner_uid="policy-uid",
        template_labels={
            "app": "nvidia-driver-daemonset",
            "app.kubernetes.io/component": "nvidia-driver",
            "helm.sh/chart": "gpu-operator-v26.3.4",
        },
        node_selector={"nvidia.com/gpu.deploy.driver": "true"},
        images={"nvidia-driver-ctr": "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"},
        tolerations=(),
        rolling=False,
    )
    assert (expected, "gpu-operator/nvidia-driver-daemonset") == (found, str(found))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", True, id="stated"),
        pytest.param("spec: {updateStrategy: null}", True, id="by-default"),
        pytest.param("spec: {updateStrategy: {type: OnDelete}}", False, id="on-delete"),
    ],
)
def test_a_daemonset_rolls_unless_it_says_on_delete(patch: str, expected: bool) -> None:
    """RollingUpdate is the API's default."""
    assert expected == readers.daemonset(obj("plugin-daemonset", patch)).rolling


def test_a_revision_is_read() -> None:
    """The hash that its pods carry, the number that orders it, and its owner's UID."""
    expected = views.Revision(
        namespace="gpu-operator",
        name="nvidia-driver-daemonset-new",
        owner_uid="driver-ds",
        revision=2,
        hash="new",
        created=at(-60),
    )
    assert expected == readers.revision(obj("revision"))


def test_a_revision_records_its_template() -> None:
    """The labels and the images, as far as they are there."""
    containers = "{template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: d}, {name: e}]}}}"
    recorded = readers.revision(obj("revision", f"data: {{spec: {containers}}}")).template
    assert recorded == views.Template.of({"a": "b"}, {"c": "d", "e": ""})
    assert readers.revision(obj("revision", "data: {spec: {template: {}}}")).template == views.Template.of({}, {})
    assert readers.revision(obj("revision", "data: {spec: {}}")).template is None


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        pytest.param("[]", "", id="orphaned"),
        pytest.param("[{kind: DaemonSet, uid: a}]", "", id="an-owner-that-does-not-control"),
        pytest.param("[{uid: a, controller: false}, {uid: b, controller: true}]", "b", id="the-controlling-one"),
    ],
)
def test_only_the_controlling_owner_counts(references: str, expected: str) -> None:
    """An orphaned object has no owner, whatever it was called after."""
    assert expected == readers.revision(obj("revision", f"metadata: {{ownerReferences: {references}}}")).owner_uid


def test_a_driver_pod_is_read() -> None:
    """Ownership, placement, and what its containers did and when."""
    found = readers.pod(driver_pod(restarts=1, ended_before=-5))
    unloader = views.Container("k8s-driver-manager", None, at(-2), succeeded=True, last_finished_at=None, restarts=0,
                               waiting="", message="")  # fmt: skip
    driver = views.Container("nvidia-driver-ctr", at(0), None, succeeded=False, last_finished_at=at(-5), restarts=1,
                             waiting="", message="")  # fmt: skip
    expected = views.Pod(
        namespace="gpu-operator",
        name="driver-gpu-0",
        uid="driver-gpu-0-uid",
        resource_version="100",
        node="gpu-0",
        owner_uid="driver-ds",
        hash="new",
        deleting=False,
        ended=False,
        ready=True,
        containers_ready_since=at(R),
        init_containers=(unloader,),
        containers=(driver,),
        labels={"app.kubernetes.io/component": "nvidia-driver", "controller-revision-hash": "new"},
    )
    assert (expected, "gpu-operator/driver-gpu-0") == (found, str(found))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", True, id="running"),
        pytest.param("metadata: {deletionTimestamp: '2026-01-01T10:00:00Z'}", False, id="deleting"),
        pytest.param("status: {phase: Succeeded}", False, id="succeeded"),
        pytest.param("status: {phase: Failed}", False, id="failed-or-evicted"),
        pytest.param("status: {phase: Unknown}", True, id="node-lost"),
    ],
)
def test_a_pod_counts_until_it_is_deleted_or_over(patch: str, expected: bool) -> None:
    """A pod that the DaemonSet controller will replace is not live."""
    assert expected == readers.pod(obj("plugin-pod", patch)).live


def test_a_pod_that_is_not_ready_has_no_ready_time() -> None:
    """The transition to not ready is no proof of anything."""
    pod = readers.pod(plugin_pod(ready=None))
    assert (False, None) == (pod.ready, pod.containers_ready_since)


def test_ready_and_containers_ready_are_read_apart() -> None:
    """The node controller moves Ready when a node is lost, never ContainersReady."""
    lost = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T11:00:00Z"}, conditions(R)[1]]
    pod = readers.pod(merged(driver_pod(), {"status": {"conditions": lost}}))
    assert (False, at(R)) == (pod.ready, pod.containers_ready_since)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(running("gpus", R + 6), (at(R + 6), False, "", ""), id="running"),
        pytest.param(waiting("gpus", "CrashLoopBackOff", "back-off"), (None, False, "CrashLoopBackOff", "back-off"),
                     id="waiting"),
        pytest.param(finished("gpus", 5), (None, True, "", ""), id="succeeded"),
        pytest.param(finished("gpus", 5, 1), (None, False, "", ""), id="failed"),
        pytest.param({"name": "gpus", "state": {"terminated": {}}}, (None, False, "", ""), id="ended-without-a-code"),
        pytest.param({"name": "gpus", "state": {"terminated": {"exitCode": None}}}, (None, False, "", ""),
                     id="ended-with-a-null-code"),
        pytest.param({"name": "gpus"}, (None, False, "ContainerCreating", ""), id="nothing-known"),
        pytest.param({"name": "gpus", "state": {"running": {}}}, (None, False, "ContainerCreating", ""),
                     id="running-since-never"),
        pytest.param({"name": "gpus", "state": {"terminated": {"exitCode": 2, "message": "boom"}}},
                     (None, False, "", "boom"), id="ended-with-a-message"),
    ],
)  # fmt: skip
def test_a_containers_state_is_read(status: Object, expected: tuple[object, bool, str, str]) -> None:
    """Running, waiting with a reason, or ended; what is not reported is being created."""
    pod = readers.pod(
        obj("plugin-pod", {"spec": {"containers": [{"name": "gpus"}]}, "status": {"containerStatuses": [status]}})
    )
    (found,) = pod.containers
    assert expected == (found.started_at, found.succeeded, found.waiting, found.message)


@pytest.mark.parametrize(
    ("spec", "reported", "expected"),
    [
        pytest.param(["a", "b"], ["b"], [("a", "ContainerCreating"), ("b", "")], id="one-is-not-reported-yet"),
        pytest.param([], ["b"], [("b", "")], id="spec-left-out"),
        pytest.param(["a"], ["a", "b"], [("a", ""), ("b", "")], id="one-that-the-spec-does-not-name"),
    ],
)
def test_every_container_of_the_spec_counts(
    spec: list[str], reported: list[str], expected: list[tuple[str, str]]
) -> None:
    """A container without a status is not running, rather than absent."""
    containers = [{"name": name} for name in spec]
    status = {"containerStatuses": [running(name, R + 6) for name in reported]}
    pod = readers.pod(obj("plugin-pod", {"spec": {"containers": containers}, "status": status}))
    assert expected == [(one.name, one.waiting) for one in pod.containers]


V1BETA1 = """
apiVersion: resource.k8s.io/v1beta1
spec:
  devices:
    - name: gpu-0
      basic: {attributes: {driverVersion: {version: 580.105.8}}}
"""
MIG = """
spec:
  devices:
    - {name: gpu-0-mig-1g, attributes: {type: {string: mig}}}
    - {name: gpu-0, attributes: {driverVersion: {version: 580.126.20}}}
    - {name: gpu-1, attributes: {driverVersion: {version: 580.126.20}}}
"""


@pytest.mark.parametrize(
    ("patch", "devices", "versions"),
    [
        pytest.param("{}", 1, {"580.126.20"}, id="v1"),
        pytest.param(V1BETA1, 1, {"580.105.8"}, id="v1beta1-keeps-attributes-deeper"),
        pytest.param(MIG, 3, {"580.126.20"}, id="several-devices"),
        pytest.param("spec: {devices: null}", 0, set(), id="no-devices"),
        pytest.param("spec: {devices: [{name: vfio}]}", 1, set(), id="no-version-published"),
        pytest.param(
            "spec: {devices: [{name: x, attributes: {driverVersion: {string: a}}}]}", 1, set(), id="no-version-type"
        ),
    ],
)
def test_a_slice_is_read(patch: str, devices: int, versions: set[str]) -> None:
    """How many devices, and which driver versions they say."""
    expected = views.DeviceSlice("gpu-0", devices, "gpu-0", 1, frozenset(versions))
    assert expected == readers.device_slice(obj("slice", patch))


def test_a_deployment_is_read() -> None:
    """What tells whether it is rolled out."""
    expected = views.Deployment(
        namespace="gpu-operator", name="gpu-operator", uid="operator", revision="2", generation=2,
        observed_generation=2, wanted=1, total=1, updated=1, available=1,
    )  # fmt: skip
    assert expected == readers.deployment(obj("deployment"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", True, id="rolled-out"),
        pytest.param("spec: {replicas: null}", True, id="one-replica-by-default"),
        pytest.param("metadata: {generation: 3}", False, id="stale-generation"),
        pytest.param("status: {replicas: 2}", False, id="an-old-pod-is-left"),
        pytest.param("status: {updatedReplicas: null}", False, id="no-new-pod-yet"),
        pytest.param("status: {availableReplicas: 0}", False, id="not-available"),
        pytest.param("spec: {replicas: 2}", False, id="one-of-two"),
        pytest.param("status: null", False, id="no-status"),
    ],
)
def test_a_deployment_is_rolled_out_when_all_its_pods_are_new_and_available(patch: str, expected: bool) -> None:
    """As ``kubectl rollout status`` has it."""
    assert expected == readers.deployment(obj("deployment", patch)).rolled_out


def test_a_replicaset_is_read() -> None:
    """Its owner, and which revision of it it is."""
    expected = views.ReplicaSet("gpu-operator-5ddc6f64ff", "operator", "2")
    assert expected == readers.replicaset(obj("replicaset"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", ("gpu-operator-5ddc6f64ff-dtlr4_0e3f4b9a-8a0e-4a51-9c5e-3b7d8f1a2c44", -58), id="held"),
        pytest.param("spec: null", ("", None), id="never-held"),
    ],
)
def test_a_lease_is_read(patch: str, expected: tuple[str, float | None]) -> None:
    """Who holds it, since when."""
    holder, seconds = expected
    lease = views.Lease("gpu-operator", holder, None if seconds is None else at(seconds))
    assert lease == readers.lease(obj("lease", patch))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            obj("driver-pod", "metadata: {uid: 7}"), ("gpu-operator", "driver-gpu-0", "gpu-0"), id="whose-it-is"
        ),
        pytest.param(
            {"metadata": {"name": ["a"], "namespace": 3}, "spec": []}, ("", "", ""), id="not-even-whose-it-is"
        ),
    ],
)
def test_what_cannot_be_read_is_set_apart(found: Object, expected: tuple[str, str, str]) -> None:
    """A malformed object is kept as such, with as much of its identity as can be told."""
    malformed = readers.entry(readers.pod, "Pod", raw(found)).view
    assert isinstance(malformed, views.Malformed)
    assert ("Pod", *expected) == (malformed.kind, malformed.namespace, malformed.name, malformed.node)


def test_what_can_be_read_is_a_view() -> None:
    """With what names it, and the version that it is at."""
    found = obj("driver-pod")
    assert (("gpu-operator", "driver-gpu-0"), "100", readers.pod(found)) == readers.entry(
        readers.pod, "Pod", raw(found)
    )


# Times of a pod that cannot be true together: it is unreadable, so it is neither fresh nor restarted.

FUTURE = 10**8


def since(ready: float, containers_ready: float, status: str = "True") -> Sequence[Object]:
    """Give conditions of two moments."""
    first, second = conditions(ready)[0], conditions(containers_ready)[1]
    return [{**first, "status": status}, second]


def reported(pod: Object, **status: object) -> Object:
    """Change what a pod's status says."""
    changed: Object = merged(pod, {"status": status})
    return changed


SIDECAR = merged(
    reported(plugin_pod(), initContainerStatuses=[finished("init-container", 5), finished("mesh", R + 900, 1)]),
    {"spec": {"initContainers": [{"name": "init-container"}, {"name": "mesh", "restartPolicy": "Always"}]}},
)
IMPOSSIBLE = {
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
POSSIBLE = {
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


@pytest.mark.parametrize("pod", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_pod_that_contradicts_itself_is_refused(pod: Object) -> None:
    """No proof can rest on it."""
    with pytest.raises(MalformedObjectError):
        readers.pod(pod)


@pytest.mark.parametrize("pod", POSSIBLE.values(), ids=POSSIBLE)
def test_what_can_be_true_is_read(pod: Object) -> None:
    """Whole seconds make equal times of what came one after the other."""
    assert readers.pod(pod).name == pod["metadata"]["name"]


def test_a_stale_plugin_that_claims_a_later_start_is_neither_done_nor_restarted() -> None:
    """Its node waits, and says which pod cannot be read; the other node is served."""
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


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade.skip": "true"}}}, Reason.NODE_SKIPPED),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": stamp(-900)}]}},
         Reason.NODE_NOT_READY),
    ],
    ids=["skipped", "lost"],
)  # fmt: skip
def test_a_node_that_is_left_alone_holds_nobody_back(node: Object, reason: Reason) -> None:
    """Whatever its pods say; a person who skips it has dealt with it."""
    odd = reported(stale_plugin("b"), initContainerStatuses=[finished("init-container", R)])
    found = cluster("a", "b").put("plugin-pod", odd)
    assert Phase.WAIT is found.decide()[0].phase
    decision, _memory = found.change("node", node, "b").decide()
    assert (Phase.DONE, reason) == (decision.phase, decision.statuses[1].reason)


def test_the_base_objects_are_possible() -> None:
    """Else the tables above would show nothing."""
    for name in ("driver-pod", "plugin-pod", "exporter/pod", "toolkit/pod", "network/driver-pod", "network/plugin-pod"):
        readers.pod(obj(name))
