"""Pods: the states of their containers, the node that they are for, and when one was deleted."""

from __future__ import annotations

import pytest

from hook.objects.pods import deleted_at, read_pod
from tests.fixtures.objects import Object, R, at, driver_pod, finished, merged, obj, plugin_pod, running, stamp, waiting


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


BOOM: Object = {"exitCode": 2, "message": "boom", "startedAt": stamp(5), "finishedAt": stamp(9)}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            running("gpus", R + 6), {"started_at": at(R + 6), "waiting": "", "succeeded": False}, id="running"
        ),
        pytest.param(
            running("gpus", R + 6, restarts=3, ended_before=R + 5),
            {"started_at": at(R + 6), "restarts": 3, "last_finished_at": at(R + 5)},
            id="restarted",
        ),
        pytest.param(
            waiting("gpus", "CrashLoopBackOff", "b" * 2000),
            {"started_at": None, "waiting": "CrashLoopBackOff", "message": "b" * 1024},
            id="crashing",
        ),
        pytest.param(finished("gpus", 5), {"succeeded": True, "waiting": "", "lasted": None}, id="completed"),
        pytest.param(finished("gpus", 5, 1), {"succeeded": False, "waiting": "", "finished_at": at(5)}, id="failed"),
        pytest.param({"name": "gpus", "state": {}}, {"waiting": "ContainerCreating"}, id="being created"),
        pytest.param({"name": "gpus", "state": {"running": {}}}, {"waiting": "ContainerCreating"}, id="without a time"),
        pytest.param(
            {"name": "gpus", "state": {"terminated": BOOM}}, {"message": "boom", "lasted": 4}, id="with a message"
        ),
    ],
)
def test_the_state_of_a_container_is_read(status: Object, expected: dict[str, object]) -> None:
    """It runs, waits for a reason, or has ended. A long message is cut."""
    pod = obj("plugin-pod", {"spec": {"containers": [{"name": "gpus"}]}, "status": {"containerStatuses": [status]}})
    (found,) = read_pod(pod).containers
    assert expected == {field: getattr(found, field) for field in expected}


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
