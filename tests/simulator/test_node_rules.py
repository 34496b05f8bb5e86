"""The simulated kubelet's rules: statuses, versions, what a GPU pod dies of."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from devcluster.fleet import status
from devcluster.fleet.bay import Driver, Held
from devcluster.fleet.driver import is_paused, loaded_version, paused, resumed
from devcluster.fleet.journal import Journal
from devcluster.fleet.knobs import Knobs
from devcluster.fleet.node import Node
from devcluster.fleet.slices import Devices, describe, listed, semantic, spelled
from devcluster.fleet.workload import workload_error

if TYPE_CHECKING:
    from collections.abc import Iterator
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


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Make a node without a driver."""
    with Journal(tmp_path / "truth.jsonl") as journal:
        yield Node("gpu-0", "uid", journal)


def conditions(pod: status.PodStatus) -> dict[str, tuple[str, str]]:
    """Return each condition's status and time."""
    return {each["type"]: (each["status"], each["lastTransitionTime"]) for each in pod.render()["conditions"]}


def test_a_pods_way_to_ready(clock: list[str]) -> None:
    """Conditions follow the containers and move their time only when they change."""
    pod = status.PodStatus.of(POD)
    pod.begin()
    assert conditions(pod)["Initialized"] == ("False", "t0")
    assert pod.phase == "Pending"
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


def test_times_jump_together_and_nothing_else_does() -> None:
    """Starts, ends and transitions move by as much as was asked for; absent times stay absent."""
    before = {
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:01Z"}],
        "containerStatuses": [{"restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T23:59:58Z"}}}],
    }
    assert status.later(before, 0) == before
    assert status.later(before, 61) == {
        "startTime": "2026-01-01T00:01:01Z",
        "conditions": [{"type": "Ready", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:01:02Z"}],
        "containerStatuses": [{"restartCount": 1, "state": {"running": {"startedAt": "2026-01-02T00:00:59Z"}}}],
    }


def test_a_restart_in_place_keeps_the_init_container(clock: list[str]) -> None:
    """The last state tells the end of the previous run, and the count grows."""
    pod = ready_pod()
    clock.append("t1")
    pod.mains[0].crash(status.CRASH_LOOP)
    pod.mains[0].run()
    rendered = pod.render()
    assert rendered["initContainerStatuses"][0]["restartCount"] == 0
    main = rendered["containerStatuses"][0]
    assert main["restartCount"] == 1
    assert main["lastState"]["terminated"]["finishedAt"] == "t1"
    assert main["state"] == {"running": {"startedAt": "t1"}}
    assert conditions(pod)["ContainersReady"] == ("False", "t1")


def test_a_reboot_reruns_everything(clock: list[str]) -> None:
    """The same pod: init and main containers all have a previous life."""
    pod = ready_pod()
    clock.append("t1")
    pod.lose_node()
    pod.begin()
    assert pod.phase == "Pending"
    assert conditions(pod)["Initialized"] == ("False", "t1")
    pod.inits[0].run()
    assert pod.inits[0].restarts == 1
    assert pod.mains[0].last_state["terminated"]["reason"] == "Unknown"


def test_a_deleted_pod_turns_not_ready_first(clock: list[str]) -> None:
    """So that its DaemonSet stops counting it as available."""
    pod = ready_pod()
    clock.append("t1")
    pod.stop()
    assert conditions(pod)["Ready"] == ("False", "t1")
    assert "terminated" in pod.render()["containerStatuses"][0]["state"]


def test_an_outage_moves_ready_alone(clock: list[str]) -> None:
    """A kubelet that comes back writes Ready anew; no container restarted."""
    pod = ready_pod()
    before = conditions(pod)
    clock.append("t1")
    pod.touch_ready()
    assert conditions(pod) == before | {"Ready": ("True", "t1")}


def test_ready_is_never_older_than_containers_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second may begin between the two; a kubelet stamps ContainersReady first."""
    ticks = itertools.count()
    monkeypatch.setattr(status, "now", lambda: f"t{next(ticks):03}")
    found = conditions(ready_pod())
    assert found["ContainersReady"][1] <= found["Ready"][1]


def ready_pod() -> status.PodStatus:
    """Make a pod that is Ready since t0."""
    pod = status.PodStatus.of(POD)
    pod.begin()
    pod.inits[0].run()
    pod.inits[0].end()
    for main in pod.mains:
        main.run()
        main.succeed_startup()
    pod.render()
    return pod


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("nvcr.io/nvidia/driver:580.105.08-ubuntu22.04", "580.105.08", id="compiled"),
        pytest.param("nvcr.io/nvidia/driver:580-5.15.0-139-generic-ubuntu22.04", "580.95.05", id="precompiled"),
    ],
)
def test_the_loaded_version_comes_from_the_tag(image: str, expected: str) -> None:
    """A precompiled tag names a branch, but what is loaded has a full version."""
    assert expected == loaded_version(image, "95.05")


def test_slices_carry_semantic_versions() -> None:
    """Leading zeros are dropped, as by the real library."""
    assert semantic("580.105.08") == "580.105.8"
    devices = listed(Devices.GPU, "580.105.08", Knobs(devices_per_node=2))
    nested = spelled(devices, "v1beta1")[0]
    assert nested == {"name": "gpu-0", "basic": {key: devices[0][key] for key in ("attributes", "capacity")}}
    assert spelled(devices, "v1beta2") == spelled(devices, "v1") == devices
    slice_ = describe("gpu-0", "uid", "gpu.nvidia.com", devices)
    assert [each["name"] for each in slice_["spec"]["devices"]] == ["gpu-0", "gpu-1"]
    assert slice_["spec"]["devices"][0]["attributes"]["driverVersion"] == {"version": "580.105.8"}


@pytest.mark.parametrize(
    ("devices", "kind", "count", "versioned"),
    [
        pytest.param(Devices.GPU, "gpu", 2, True, id="whole-gpus"),
        pytest.param(Devices.MIG, "mig", 4, True, id="parts-of-gpus"),
        pytest.param(Devices.UNVERSIONED, "gpu", 2, False, id="bound-to-vfio"),
        pytest.param(Devices.CHANNELS, "channel", 2, False, id="compute-domain"),
    ],
)
def test_what_a_plugin_publishes(devices: Devices, kind: str, count: int, versioned: bool) -> None:
    """Not everything tells the driver's version; parts of GPUs do."""
    found = listed(devices, "580.105.08", Knobs(devices_per_node=2))
    assert len({each["name"] for each in found}) == count
    for each in found:
        assert each["attributes"]["type"] == {"string": kind}
        assert versioned is ("driverVersion" in each["attributes"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("true", "paused-for-driver-upgrade", id="on"),
        pytest.param("custom", "custom_paused-for-driver-upgrade", id="any-other-value"),
        pytest.param("false", "false", id="off-stays-off"),
        pytest.param("paused-for-driver-upgrade", "paused-for-driver-upgrade", id="paused-already"),
    ],
)
def test_pausing_a_label(value: str, expected: str) -> None:
    """As k8s-driver-manager spells it, and back."""
    assert paused(value) == expected
    if value != expected:
        assert is_paused(expected)
        assert resumed(expected) == value


def test_older_news_of_a_node_is_ignored(node: Node) -> None:
    """The answer to our own write may come before the watch's older events."""
    node.update({"metadata": {"resourceVersion": "10", "labels": {"a": "new"}}})
    node.update({"metadata": {"resourceVersion": "9", "labels": {"a": "old"}}})
    assert node.labels == {"a": "new"}


def test_unknown_knobs_are_refused() -> None:
    """A typo must not silently be a default."""
    assert Knobs.parse('{"jitter": 0}').jitter == 0
    assert Knobs.parse("") == Knobs()
    with pytest.raises(ValueError, match="driver_speed"):
        Knobs.parse('{"driver_speed": 1}')


@pytest.mark.parametrize(
    ("held", "loaded", "expected"),
    [
        pytest.param(None, Driver(1, "580.1", ""), "not registered", id="no-plugin"),
        pytest.param(Held(1, "580.1", "gpu.nvidia.com"), Driver(1, "580.1", ""), "", id="fresh"),
        pytest.param(
            Held(1, "580.1", "gpu.nvidia.com"),
            Driver(2, "580.2", ""),
            "Driver/library version mismatch",
            id="another-version",
        ),
        pytest.param(Held(1, "580.1", "gpu.nvidia.com"), Driver(2, "580.1", ""), "empty device edits", id="remounted"),
        pytest.param(
            Held(1, "580.1", "gpu.nvidia.com", toolkit=3),
            Driver(1, "580.1", ""),
            "empty device edits",
            id="another-toolkit",
        ),
        pytest.param(Held(1, "580.1", "gpu.nvidia.com"), None, "empty device edits", id="no-driver"),
        pytest.param(Held(1, "580.1", "other.example.com"), Driver(1, "580.1", ""), "not registered", id="other"),
    ],
)
def test_what_a_gpu_pod_dies_of(node: Node, held: Held | None, loaded: Driver | None, expected: str) -> None:
    """The words are those that users search for."""
    node.gpu.loaded = loaded
    if held is not None:
        node.gpu.hold("plugin", held)
    error = workload_error(node, claim="c")
    assert (expected in error) if expected else not error
