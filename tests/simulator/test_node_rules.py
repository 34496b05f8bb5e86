"""The simulated kubelet's rules: statuses, labels, and why a GPU pod fails.

What plugins publish, and what is loaded: live/test_fleet.py, tests/e2e/test_conditions_drivers.py.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.fleet import status
from devcluster.fleet.bay import Driver, Held
from devcluster.fleet.driver import is_paused, paused, resumed
from devcluster.fleet.journal import Journal
from devcluster.fleet.knobs import Knobs
from devcluster.fleet.node import Node
from devcluster.fleet.workload import workload_error

if TYPE_CHECKING:
    from pathlib import Path

POD: dict[str, Any] = {
    "spec": {
        "initContainers": [{"name": "init", "image": "i"}],
        "containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}],
    }
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the kubelet's clock by a list whose last entry is now."""
    times = ["t0"]
    monkeypatch.setattr(status, "now", lambda: times[-1])
    return times


def conditions(pod: status.PodStatus) -> dict[str, tuple[str, str]]:
    """Return each condition's status and time."""
    return {each["type"]: (each["status"], each["lastTransitionTime"]) for each in pod.render()["conditions"]}


def test_conditions_follow_the_containers(clock: list[str]) -> None:
    """Their times move only when they change; a deleted pod is not Ready; after a reboot everything runs anew."""
    pod = status.PodStatus.of(POD)
    pod.begin()
    assert (conditions(pod)["Initialized"], pod.phase) == (("False", "t0"), "Pending")
    pod.inits[0].run()
    clock.append("t1")
    pod.inits[0].end()
    assert conditions(pod)["Initialized"] == ("True", "t1")
    for main in pod.mains:
        main.run()
    clock.append("t2")
    pod.mains[0].succeed_startup()
    assert (conditions(pod)["Ready"], pod.phase) == (("False", "t0"), "Running")
    pod.mains[1].succeed_startup()
    assert conditions(pod)["Ready"] == conditions(pod)["ContainersReady"] == ("True", "t2")
    assert conditions(pod)["PodReadyToStartContainers"][0] == "True"
    assert pod.render()["containerStatuses"][0]["state"] == {"running": {"startedAt": "t1"}}
    clock.append("t3")
    pod.lose_node()
    pod.begin()
    assert (conditions(pod)["Initialized"], pod.phase) == (("False", "t3"), "Pending")
    assert pod.mains[0].last_state["terminated"]["reason"] == "Unknown"
    deleted = ready_pod()
    clock.append("t4")
    deleted.stop()
    assert conditions(deleted)["Ready"] == ("False", "t4")
    assert "terminated" in deleted.render()["containerStatuses"][0]["state"]


def test_ready_is_never_older_than_containers_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second may begin between the two; a kubelet stamps ContainersReady first."""
    ticks = itertools.count()
    monkeypatch.setattr(status, "now", lambda: f"t{next(ticks):03}")
    found = conditions(ready_pod())
    assert found["ContainersReady"][1] <= found["Ready"][1]


def ready_pod() -> status.PodStatus:
    """Make a pod that is Ready."""
    pod = status.PodStatus.of(POD)
    pod.begin()
    pod.inits[0].run()
    pod.inits[0].end()
    for main in pod.mains:
        main.run()
        main.succeed_startup()
    pod.render()
    return pod


def test_pausing_a_label() -> None:
    """As k8s-driver-manager spells it, and back; what is off or paused already stays so."""
    for value, expected in (
        ("true", "paused-for-driver-upgrade"),
        ("custom", "custom_paused-for-driver-upgrade"),
        ("false", "false"),
        ("paused-for-driver-upgrade", "paused-for-driver-upgrade"),
    ):
        assert paused(value) == expected, value
        if value != expected:
            assert is_paused(expected), value
            assert resumed(expected) == value, value


def test_older_events_of_a_node_are_ignored(tmp_path: Path) -> None:
    """The answer to our own write may come before the watch's older events."""
    with Journal(tmp_path / "truth.jsonl") as journal:
        node = Node("gpu-0", "uid", journal)
        node.update({"metadata": {"resourceVersion": "10", "labels": {"a": "new"}}})
        node.update({"metadata": {"resourceVersion": "9", "labels": {"a": "old"}}})
    assert node.labels == {"a": "new"}


def test_unknown_knobs_are_refused() -> None:
    """A typo must not silently be a default."""
    assert Knobs.parse('{"jitter": 0}').jitter == 0
    assert Knobs.parse("") == Knobs()
    with pytest.raises(ValueError, match="driver_speed"):
        Knobs.parse('{"driver_speed": 1}')


def test_why_a_gpu_pod_fails(tmp_path: Path) -> None:
    """The words are those that users search for."""
    gpu = "gpu.nvidia.com"
    first, second, remounted = Driver(1, "580.1", ""), Driver(2, "580.2", ""), Driver(2, "580.1", "")
    for name, held, loaded, expected in (
        ("no plugin", None, first, "not registered"),
        ("fresh", Held(1, "580.1", gpu), first, ""),
        ("another version", Held(1, "580.1", gpu), second, "Driver/library version mismatch"),
        ("remounted", Held(1, "580.1", gpu), remounted, "empty device edits"),
        ("another toolkit", Held(1, "580.1", gpu, toolkit=3), first, "empty device edits"),
        ("no driver", Held(1, "580.1", gpu), None, "empty device edits"),
        ("another plugin", Held(1, "580.1", "other.example.com"), first, "not registered"),
    ):
        with Journal(tmp_path / f"{name}.jsonl") as journal:
            node = Node("gpu-0", "uid", journal)
            node.gpu.loaded = loaded
            if held is not None:
                node.gpu.hold("plugin", held)
            error = workload_error(node, claim="c")
        assert (expected in error) if expected else not error, name
