"""Pods: what is kept of them and of their containers."""

from __future__ import annotations

from typing import Any

import pytest

from hook.objects.pods import deleted_at, read_pod
from tests.fixtures.objects import Object, R, at, driver_pod, finished, merged, obj, plugin_pod, running, stamp, waiting


def test_a_settled_driver_pod_is_read() -> None:
    """Who made it, where it runs, and when its containers started and were ready."""
    pod = read_pod(obj("driver-pod"))
    assert ("gpu-operator/driver-gpu-0", "driver-gpu-0-uid", "100") == (str(pod), pod.uid, pod.resource_version)
    assert ("gpu-0", "driver-ds", "new", "") == (pod.node, pod.owner_uid, pod.hash, pod.unscheduled)
    assert (True, True, at(R), None) == (pod.live, pod.ready, pod.containers_ready_since, pod.created)
    (manager,), (driver,) = pod.init_containers, pod.containers
    assert ("k8s-driver-manager", True, at(-2), 8) == (
        manager.name, manager.succeeded, manager.finished_at, manager.lasted,
    )  # fmt: skip
    assert ("nvidia-driver-ctr", at(0), 0, "") == (driver.name, driver.started_at, driver.restarts, driver.waiting)


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        pytest.param({"deletionTimestamp": stamp(30), "deletionGracePeriodSeconds": 30}, 0, id="grace period"),
        pytest.param({"deletionTimestamp": stamp(30)}, 30, id="at once"),
        pytest.param({}, None, id="not shown"),
        pytest.param({"deletionTimestamp": "soon"}, None, id="no time"),
        pytest.param(
            {"deletionTimestamp": "0001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 9}, None, id="no date"
        ),
    ],
)
def test_the_answer_to_a_deletion_shows_when_it_was_accepted(metadata: Object, seconds: float | None) -> None:
    """The API server shows the end of the grace period. The rest of its answer does not matter."""
    assert deleted_at({"kind": "Pod", "metadata": {"name": "a", **metadata}}) == (
        None if seconds is None else at(seconds)
    )


def test_pods_of_one_revision_share_their_labels() -> None:
    """There are thousands of them."""
    first, second = read_pod(driver_pod("gpu-0")), read_pod(driver_pod("gpu-1"))
    assert first.labels is second.labels
    assert {"app.kubernetes.io/component": "nvidia-driver", "controller-revision-hash": "new"} == first.labels


@pytest.mark.parametrize(
    ("patch", "live"),
    [
        pytest.param("metadata: {deletionTimestamp: '2026-01-01T10:00:00Z'}", False, id="terminating"),
        pytest.param("status: {phase: Failed}", False, id="evicted"),
        pytest.param("status: {phase: Succeeded}", False, id="succeeded"),
        pytest.param("status: {phase: Pending}", True, id="pending"),
    ],
)
def test_a_pod_that_goes_or_has_ended_does_not_count(patch: str, live: bool) -> None:
    """The DaemonSet controller replaces it."""
    assert live is read_pod(obj("plugin-pod", patch)).live


@pytest.mark.parametrize(
    ("conditions", "ready", "since"),
    [
        ([("Ready", "True", R), ("ContainersReady", "True", R)], True, at(R)),
        ([("Ready", "False", R + 900), ("ContainersReady", "True", R)], False, at(R)),
        ([("Ready", "False", R), ("ContainersReady", "False", R)], False, None),
        ([("Ready", "True", R), ("ContainersReady", "True", None)], True, None),
        ([], False, None),
    ],
    ids=["ready", "node-lost", "not-ready", "without-a-time", "not-reported"],
)
def test_a_pod_is_ready_if_its_conditions_say_so(conditions: list[Any], ready: bool, since: object) -> None:
    """The moment at which all containers were ready needs a condition that holds, and a time."""
    listed = [
        {"type": kind, "status": status, "lastTransitionTime": None if time is None else stamp(time)}
        for kind, status, time in conditions
    ]
    pod = read_pod(obj("driver-pod", {"status": {"conditions": listed}}))
    assert (ready, since) == (pod.ready, pod.containers_ready_since)


CONTAINER_STATES: dict[str, tuple[Object, tuple[object, ...]]] = {
    "running": (running("gpus", R + 6), (at(R + 6), False, "", "", None)),
    "restarted": (
        running("gpus", R + 6, restarts=3, ended_before=R + 5),
        (at(R + 6), False, "", "", None),
    ),
    "crashing": (
        waiting("gpus", "CrashLoopBackOff", "b" * 2000),
        (None, False, "CrashLoopBackOff", "b" * 1024, None),
    ),
    "completed": (finished("gpus", 5), (None, True, "", "", None)),
    "failed": (finished("gpus", 5, 1), (None, False, "", "", None)),
    "being-created": ({"name": "gpus", "state": {}}, (None, False, "ContainerCreating", "", None)),
    "running-without-a-time": (
        {"name": "gpus", "state": {"running": {"startedAt": None}}},
        (None, False, "ContainerCreating", "", None),
    ),
    "failed-with-a-message": (
        {
            "name": "gpus",
            "state": {"terminated": {"exitCode": 2, "message": "boom", "startedAt": stamp(5), "finishedAt": stamp(9)}},
        },
        (None, False, "", "boom", 4),
    ),
}


@pytest.mark.parametrize(("status", "expected"), CONTAINER_STATES.values(), ids=CONTAINER_STATES)
def test_the_state_of_a_container_is_read(status: Object, expected: tuple[object, ...]) -> None:
    """It runs, waits for a reason, or has ended. A long message is cut."""
    pod = obj("plugin-pod", {"spec": {"containers": [{"name": "gpus"}]}, "status": {"containerStatuses": [status]}})
    (found,) = read_pod(pod).containers
    assert expected == (found.started_at, found.succeeded, found.waiting, found.message, found.lasted)


def test_the_run_before_the_last_restart_is_read() -> None:
    """Its end, and how often the container was restarted."""
    status = running("gpus", R + 6, restarts=3, ended_before=R + 5)
    pod = obj("plugin-pod", {"spec": {"containers": [{"name": "gpus"}]}, "status": {"containerStatuses": [status]}})
    (found,) = read_pod(pod).containers
    assert (3, at(R + 5)) == (found.restarts, found.last_finished_at)


@pytest.mark.parametrize(
    ("specified", "reported", "expected"),
    [
        ("ab", "b", [("a", "ContainerCreating"), ("b", "")]),
        ("a", "ab", [("a", ""), ("b", "")]),
        ("", "a", [("a", "")]),
    ],
    ids=["not-reported-yet", "not-in-the-spec", "without-a-spec"],
)
def test_every_container_has_a_status(specified: str, reported: str, expected: list[tuple[str, str]]) -> None:
    """A container that is not reported is not absent: it does not run yet."""
    spec = {"containers": [{"name": name} for name in specified]}
    status = {"containerStatuses": [running(name, R + 6) for name in reported]}
    pod = read_pod(obj("plugin-pod", {"spec": spec, "status": status}))
    assert expected == [(container.name, container.waiting) for container in pod.containers]


def test_a_sidecar_is_no_step_of_the_start() -> None:
    """An init container that keeps running may crash later; its end shows nothing about the start of the pod."""
    spec = {"initContainers": [{"name": "init-container"}, {"name": "mesh", "restartPolicy": "Always"}]}
    status = {"initContainerStatuses": [finished("init-container", 5), finished("mesh", R + 900, 1)]}
    pod = read_pod(merged(plugin_pod(), {"spec": spec, "status": status}))
    assert ["init-container"] == [container.name for container in pod.init_containers]


REQUIRED = {"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}


@pytest.mark.parametrize(
    ("fields", "conditions", "expected"),
    [
        ([REQUIRED], [{"type": "PodScheduled", "message": "0/3 nodes"}], ("gpu-7", "0/3 nodes")),
        ([{**REQUIRED, "values": []}], [], ("", "it is not scheduled yet")),
        ([{**REQUIRED, "operator": "NotIn"}], [], ("", "it is not scheduled yet")),
        ([], [], ("", "it is not scheduled yet")),
    ],
    ids=["does-not-fit", "no-value", "another-operator", "no-affinity"],
)
def test_a_pod_that_is_not_scheduled_belongs_to_a_node(
    fields: list[Object], conditions: list[Object], expected: tuple[str, str]
) -> None:
    """The DaemonSet controller names the node of each pod in its affinity."""
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    patch = {"spec": {"nodeName": None, "affinity": affinity}, "status": {"conditions": conditions}}
    pod = read_pod(obj("plugin-pod", patch))
    assert expected == (pod.node, pod.unscheduled)
