"""The simulated nodes on a real control plane: loads, stale plugins, and every fault there is a switch for."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.history import recorded
from tests.simulator.stage import NODES, condition, container

if TYPE_CHECKING:
    from tests.simulator.stage import Stage

pytestmark = pytest.mark.e2e

DRIVER = "nvidia-driver-ctr"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def probe(stage: Stage) -> Any:  # noqa: ANN401 - a function on pods as the API sends them
    """Run GPU pods on a node: a function that starts one and returns its status when it said something."""
    started: list[str] = []

    def run(node: str) -> dict[str, Any]:
        name = f"probe-{len(started)}-{node}"
        pod = {
            "metadata": {"name": name, "labels": {"devcluster/probe": "gpu-workload"}},
            "spec": {"nodeName": node, "containers": [{"name": "cuda", "image": "cuda"}]},
        }
        stage.cluster.create("/api/v1/namespaces/default/pods", pod)
        started.append(name)
        return stage.until(lambda: _verdict(stage, name))

    yield run
    for name in started:
        stage.cluster.delete(f"/api/v1/namespaces/default/pods/{name}")


def _verdict(stage: Stage, name: str) -> dict[str, Any]:
    """Return the container's state once it runs or says why not."""
    pod = stage.cluster.get(f"/api/v1/namespaces/default/pods/{name}")
    for each in pod["status"].get("containerStatuses", []):
        state: dict[str, Any] = each["state"]
        if "running" in state or "message" in state.get("waiting", {}):
            return state
    return {}


def test_a_fresh_install_is_not_stale(stage: Stage) -> None:
    """Plugins wait for the driver; their init containers end after the driver container's start (D)."""
    assert stage.truth.stale_now() == ()
    drivers, plugins = stage.drivers(), stage.plugins()
    for node in NODES:
        seen = container(plugins[node], "init-container")["state"]["terminated"]["finishedAt"]
        assert seen > container(drivers[node], DRIVER)["state"]["running"]["startedAt"]


def test_slices_report_the_drivers_version(stage: Stage) -> None:
    """One slice a node with all devices; the version has no leading zeros."""
    slices = stage.cluster.list(SLICES, fieldSelector="spec.driver=gpu.nvidia.com")
    assert sorted(each["spec"]["nodeName"] for each in slices) == list(NODES)
    for each in slices:
        assert each["spec"]["pool"] == {"name": each["spec"]["nodeName"], "generation": 1, "resourceSliceCount": 1}
        assert len(each["spec"]["devices"]) == 8
        version = each["spec"]["devices"][0]["attributes"]["driverVersion"]["version"]
        assert version == stage.version.replace(".01", ".1")


def test_a_migration_leaves_every_plugin_stale_and_ready(stage: Stage, probe: Any) -> None:  # noqa: ANN401
    """Nothing in the API tells: the pods stay Ready, the slices keep the old version, new GPU pods fail."""
    assert "running" in probe("gpu-0")
    before = stage.plugins()
    asked = stage.migrate()
    stage.until(lambda: all(stage.saw("driver-ready", node, asked) for node in NODES))
    assert stage.truth.stale_now() == NODES
    assert stage.plugins() == before
    assert "Driver/library version mismatch" in probe("gpu-1")["waiting"]["message"]
    stage.calm()
    assert "running" in probe("gpu-1")


def test_the_operands_are_paused_while_the_driver_unloads(stage: Stage) -> None:
    """k8s-driver-manager pauses their labels and resumes them before the new driver is there."""
    label = "nvidia.com/gpu.deploy.device-plugin"
    stage.annotate("gpu-0", driver_fault="image-pull")
    with recorded(stage.cluster, "node", "gpu-0") as events:

        def values() -> list[str]:
            return [value for value, _same in groupby(each["object"]["metadata"]["labels"][label] for each in events())]

        stage.until(values)
        asked = stage.migrate()
        stage.until(lambda: len(values()) == 3)
        assert values() == ["true", "paused-for-driver-upgrade", "true"]
    assert not stage.saw("driver-loaded", "gpu-0", asked)
    stage.annotate("gpu-0", driver_fault=None)
    stage.calm()


def test_the_plugin_may_start_between_loaded_and_ready(stage: Stage) -> None:
    """After a reboot it finds the driver before the driver's pod is Ready, and is fresh for good."""
    stage.annotate("gpu-0", driver_fault="unready")
    uids = {pod["metadata"]["uid"] for pod in stage.pods_on("gpu-0")}
    boot = stage.cluster.get("/api/v1/nodes/gpu-0")["status"]["nodeInfo"]["bootID"]
    asked = stage.annotate("gpu-0", reboot="1")
    stage.until(lambda: stage.saw("plugin-started", "gpu-0", asked))
    stage.annotate("gpu-0", driver_fault=None)
    stage.until(lambda: stage.saw("driver-ready", "gpu-0", asked) and "gpu-0" in stage.plugins())
    (started,) = stage.saw("plugin-started", "gpu-0", asked)
    (ready,) = stage.saw("driver-ready", "gpu-0", asked)
    assert started.t < ready.t
    assert stage.truth.stale_now() == ()
    assert {pod["metadata"]["uid"] for pod in stage.pods_on("gpu-0")} == uids
    assert stage.cluster.get("/api/v1/nodes/gpu-0")["status"]["nodeInfo"]["bootID"] != boot
    for name in ("k8s-driver-manager", DRIVER):
        assert container(stage.drivers()["gpu-0"], name)["restartCount"] == 1


def test_times_jump_and_nothing_reloads(stage: Stage) -> None:
    """The API shows a driver that is younger than the plugin; in truth it is the same, and the times come back."""

    def times() -> tuple[str, str]:
        driver = stage.drivers()["gpu-2"]
        return container(driver, DRIVER)["state"]["running"]["startedAt"], condition(driver, "ContainersReady")[1]

    before, plugin = times(), container(stage.plugins()["gpu-2"], "gpus")["state"]["running"]["startedAt"]
    asked = stage.annotate("gpu-2", time_jump="86400")
    stage.until(lambda: times() > (plugin, plugin))
    stage.annotate("gpu-2", time_jump=None)
    stage.until(lambda: times() == before)
    assert {"times-jumped"} == {each.event for each in stage.truth.since(asked)}
    assert stage.truth.stale_now() == ()


def test_a_node_is_replaced_under_its_name(stage: Stage) -> None:
    """The new one loads a driver of its own, its plugin is fresh, and what ended with the old one was no restart."""
    asked = stage.replace("gpu-2")
    stage.until(lambda: stage.saw("driver-ready", "gpu-2", asked) and "gpu-2" in stage.plugins())
    assert [each.node for each in stage.truth.since(asked) if each.event == "node-removed"] == ["gpu-2"]
    assert {"gpu-2": stage.version}.items() <= stage.truth.loaded_now().items()
    assert (stage.truth.stale_now(), stage.truth.restarts(since=asked)) == ((), ())
    stage.calm()


def test_a_driver_container_restarts_in_place(stage: Stage, probe: Any) -> None:  # noqa: ANN401
    """The same version is loaded anew, the init container does not run again, and the plugin is stale."""
    before = stage.drivers()["gpu-1"]
    asked = stage.annotate("gpu-1", restart_driver_container="1")
    stage.until(lambda: stage.saw("driver-ready", "gpu-1", asked))
    after = stage.until(lambda: stage.drivers().get("gpu-1"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert container(after, "k8s-driver-manager") == container(before, "k8s-driver-manager")
    driver = container(after, DRIVER)
    assert driver["restartCount"] == 1
    assert driver["lastState"]["terminated"]["finishedAt"] <= driver["state"]["running"]["startedAt"]
    assert condition(after, "ContainersReady") > condition(before, "ContainersReady")
    assert stage.truth.stale_now() == ("gpu-1",)
    assert "invalid device, empty device edits" in probe("gpu-1")["waiting"]["message"]
    stage.calm()


def test_an_equal_digest_only_remounts(stage: Stage) -> None:
    """A chart bump whose driver is configured alike keeps the kernel driver, and still makes plugins stale."""
    stage.migrate(simulate__digestSalt="constant")
    stage.calm()
    loads = [each for each in stage.truth.happenings if each.event == "driver-loaded"]
    stage.operator(simulate__digestSalt="constant", chartVersion="v26.3.9")
    stage.until(lambda: stage.truth.stale_now() == NODES)
    assert set(stage.truth.loaded_now().values()) == {stage.version}
    assert len([each for each in stage.truth.happenings if each.event == "driver-loaded"]) == len(loads) + 3
    stage.calm()


def test_an_outage_moves_ready_alone(stage: Stage) -> None:
    """The node controller takes Ready away, the kubelet gives it back; nothing restarted."""
    before = stage.plugins()["gpu-2"]
    asked = stage.annotate("gpu-2", outage="true")
    stage.until(lambda: "gpu-2" not in stage.plugins())
    stage.annotate("gpu-2", outage=None)
    after = stage.until(lambda: stage.plugins().get("gpu-2"))
    assert condition(after, "Ready")[1] > condition(before, "Ready")[1]
    assert condition(after, "ContainersReady") == condition(before, "ContainersReady")
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert {each.event for each in stage.truth.since(asked)} == {"node-outage", "node-back"}
    stage.calm()


def test_a_plugin_that_cannot_start(stage: Stage) -> None:
    """The fault bites at the next start, and clears when it is taken away."""
    stage.annotate("gpu-0", plugin_fault="crash-loop")
    assert "gpu-0" in stage.plugins()
    stage.serve("gpu-0")

    def restarts() -> int:
        plugins = [pod for pod in stage.pods_on("gpu-0") if pod["metadata"]["namespace"] == "nvidia-dra-driver"]
        statuses = [each for pod in plugins for each in pod["status"].get("containerStatuses", [])]
        return max((each["restartCount"] for each in statuses), default=0)

    stage.until(lambda: restarts() >= 2)
    assert "gpu-0" not in stage.plugins()
    stage.annotate("gpu-0", plugin_fault=None)
    stage.until(lambda: "gpu-0" in stage.plugins())


def test_slices_outlive_a_short_absence_and_no_long_one(stage: Stage) -> None:
    """The same slice is updated in place by the next plugin; it is wiped where none comes."""
    stage.knobs(slice_wipe_seconds=600)
    selector = {"fieldSelector": "spec.nodeName=gpu-0,spec.driver=gpu.nvidia.com"}
    (before,) = stage.cluster.list(SLICES, **selector)
    stage.serve("gpu-0")
    stage.until(lambda: stage.plugins().get("gpu-0"))
    (after,) = stage.cluster.list(SLICES, **selector)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    stage.knobs(slice_wipe_seconds=0.5)
    stage.annotate("gpu-0", plugin_fault="crash-loop")
    stage.serve("gpu-0")
    stage.until(lambda: not stage.cluster.list(SLICES, **selector))
    stage.annotate("gpu-0", plugin_fault=None)
    stage.knobs()
    stage.until(lambda: stage.cluster.list(SLICES, **selector))


def test_the_journal_judges_restarts(stage: Stage) -> None:
    """A fresh plugin's restart is needless; a stale one's while the driver reloads is early."""
    asked = stage.truth.happenings[-1].t + 0.001
    stage.until(lambda: len(stage.plugins()) == len(NODES))
    stage.serve("gpu-1")
    stage.until(lambda: stage.saw("plugin-ready", "gpu-1", asked))
    assert [each.node for each in stage.truth.needless_restarts(since=asked)] == ["gpu-1"]
    assert stage.truth.early_restarts(since=asked) == ()
    stage.annotate("gpu-1", driver_fault="unready")
    asked = stage.migrate()
    stage.until(lambda: stage.saw("driver-loaded", "gpu-1", asked))
    stage.serve("gpu-1")
    stage.until(lambda: stage.truth.restarts(since=asked))
    assert [each.node for each in stage.truth.early_restarts(since=asked)] == ["gpu-1"]
    stage.annotate("gpu-1", driver_fault=None)
    stage.calm()
