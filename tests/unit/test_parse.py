"""Cutting API objects down to views."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from hook.core import parse, policies
from hook.objects import views
from hook.objects.policy import Policy, UpgradePolicy
from tests.fixtures.objects import R, at, conditions, driver_pod, finished, merged, obj, plugin_pod, running, waiting

if TYPE_CHECKING:
    from tests.fixtures.objects import Object


def test_a_policy_is_read() -> None:
    """Intent, status and the operator's namespace."""
    expected = Policy(
        kind="ClusterPolicy",
        name="cluster-policy",
        uid="policy-uid",
        created=datetime(2025, 6, 1, 8, tzinfo=UTC),
        generation=2,
        state="ready",
        namespace="gpu-operator",
        driver_enabled=True,
        repository="nvcr.io/nvidia",
        image="driver",
        version="580.126.20",
        precompiled=False,
        chart="gpu-operator-v26.3.4",
        manual="",
        halted="",
        pooled=False,
        ready_since=None,
        rdma=False,
        eviction_label="",
        changed=None,
        upgrade=UpgradePolicy(stated=True, parallel=1, unavailable="25%"),
    )
    assert expected == policies.cluster_policy(obj("policy"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("spec: {driver: {enabled: null}}", (True, False, True), id="enabled-by-default"),
        pytest.param("spec: {driver: {enabled: false}}", (False, False, True), id="disabled"),
        pytest.param("spec: {driver: {usePrecompiled: true}}", (True, True, True), id="precompiled"),
        pytest.param("spec: {driver: {upgradePolicy: null}}", (True, False, False), id="manual-by-default"),
        pytest.param("spec: {driver: {upgradePolicy: {autoUpgrade: false}}}", (True, False, False), id="manual"),
        pytest.param("spec: {sandboxWorkloads: {enabled: true}}", (True, False, False), id="sandbox-workloads"),
        pytest.param("spec: {sandboxWorkloads: {enabled: false}}", (True, False, True), id="no-sandbox-workloads"),
    ],
)
def test_a_policys_switches_have_the_operators_defaults(patch: str, expected: tuple[bool, bool, bool]) -> None:
    """What the operator assumes where the field is absent."""
    policy = policies.cluster_policy(obj("policy", patch))
    assert expected == (policy.driver_enabled, policy.precompiled, not policy.manual)


def test_a_policy_that_was_never_reconciled_has_no_state() -> None:
    """No status is not ready."""
    policy = policies.cluster_policy(obj("policy", "status: null"))
    assert ("", "") == (policy.state, policy.namespace)


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
    assert expected == parse.node(obj("node"))


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
    assert not parse.node(obj("node", patch)).ready


def test_a_driver_daemonset_is_read() -> None:
    """Generation, counts, selector, template label and images."""
    found = parse.daemonset(obj("driver-daemonset", "status: {updatedNumberScheduled: 0}"))
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
    assert expected == parse.daemonset(obj("plugin-daemonset", patch)).rolling


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
    assert expected == parse.revision(obj("revision"))


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
    assert expected == parse.revision(obj("revision", f"metadata: {{ownerReferences: {references}}}")).owner_uid


def test_a_driver_pod_is_read() -> None:
    """Ownership, placement, and what its containers did and when."""
    found = parse.pod(driver_pod(restarts=1, ended_before=-5))
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
    assert expected == parse.pod(obj("plugin-pod", patch)).live


def test_a_pod_that_is_not_ready_has_no_ready_time() -> None:
    """The transition to not ready is no proof of anything."""
    pod = parse.pod(plugin_pod(ready=None))
    assert (False, None) == (pod.ready, pod.containers_ready_since)


def test_ready_and_containers_ready_are_read_apart() -> None:
    """The node controller moves Ready when a node is lost, never ContainersReady."""
    lost = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T11:00:00Z"}, conditions(R)[1]]
    pod = parse.pod(merged(driver_pod(), {"status": {"conditions": lost}}))
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
    pod = parse.pod(
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
    pod = parse.pod(obj("plugin-pod", {"spec": {"containers": containers}, "status": status}))
    assert expected == [(one.name, one.waiting) for one in pod.containers]
