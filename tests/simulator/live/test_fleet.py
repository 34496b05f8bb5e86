"""The simulated nodes on a real control plane: what makes plugins stale, and what a user sees of it.

Whatever else happens to nodes, drivers and plugins runs with the program: tests/e2e.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import Any

import pytest

from tests.simulator.history import recorded
from tests.simulator.stage import NODES, Stage, condition, container

pytestmark = pytest.mark.e2e

DRIVER = "nvidia-driver-ctr"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PAUSED_LABEL = "nvidia.com/gpu.deploy.device-plugin"


@pytest.fixture
def probe(stage: Stage) -> Any:  # noqa: ANN401 - a function on pods as the API sends them
    """Run GPU pods on a node: a function that starts one and returns its state when it runs or has a reason why not."""
    started: list[str] = []

    def run(node: str) -> dict[str, Any]:
        name = f"probe-{len(started)}-{node}"
        pod = {
            "metadata": {"name": name, "labels": {"devcluster/probe": "gpu-workload"}},
            "spec": {"nodeName": node, "containers": [{"name": "cuda", "image": "cuda"}]},
        }
        stage.cluster.create("/api/v1/namespaces/default/pods", pod)
        started.append(name)

        def state() -> dict[str, Any]:
            statuses = stage.cluster.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
            states = [each["state"] for each in statuses.get("containerStatuses", [])]
            return next((one for one in states if "running" in one or "message" in one.get("waiting", {})), {})

        return stage.until(state)

    yield run
    stage.cluster.kubectl("delete", "pod", "-n", "default", *started)


def test_an_upgrade_leaves_every_plugin_stale_and_ready(stage: Stage, probe: Any) -> None:  # noqa: ANN401
    """Nothing in the API shows it: the pods stay Ready, and new GPU pods fail. The driver manager pauses operands."""
    assert "running" in probe("gpu-0")
    before = stage.plugins()
    with recorded(stage.cluster, "node", "gpu-0") as events:

        def values() -> list[str]:
            found = [each["object"]["metadata"]["labels"][PAUSED_LABEL] for each in events()]
            return [value for value, _same in groupby(found)]

        stage.until(values)
        asked = stage.migrate()
        stage.until(lambda: all(stage.saw("driver-ready", node, asked) for node in NODES))
        stage.until(lambda: len(values()) == 3)
        assert values() == ["true", "paused-for-driver-upgrade", "true"]
    assert stage.truth.stale_now() == NODES
    assert stage.plugins() == before
    assert "Driver/library version mismatch" in probe("gpu-1")["waiting"]["message"]
    stage.calm()
    assert "running" in probe("gpu-1")


def test_a_driver_container_restarts_in_place(stage: Stage, probe: Any) -> None:  # noqa: ANN401
    """The same version is loaded anew, the init container does not run again, and the plugin is stale."""
    before = stage.drivers()["gpu-1"]
    restarts = container(before, DRIVER)["restartCount"]
    asked = stage.annotate("gpu-1", restart_driver_container=str(time.time()))
    stage.until(lambda: stage.saw("driver-ready", "gpu-1", asked))
    after = stage.until(lambda: stage.drivers().get("gpu-1"))
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert container(after, "k8s-driver-manager") == container(before, "k8s-driver-manager")
    driver = container(after, DRIVER)
    assert driver["restartCount"] == restarts + 1
    assert driver["lastState"]["terminated"]["finishedAt"] <= driver["state"]["running"]["startedAt"]
    assert condition(after, "ContainersReady") > condition(before, "ContainersReady")
    assert stage.truth.stale_now() == ("gpu-1",)
    assert "invalid device, empty device edits" in probe("gpu-1")["waiting"]["message"]
    stage.calm()


def test_an_equal_digest_only_remounts(stage: Stage) -> None:
    """A chart bump whose driver is configured alike keeps the kernel driver, and makes plugins stale all the same."""
    stage.migrate(simulate__digestSalt="constant")
    stage.calm()
    loads = [each for each in stage.truth.happenings if each.event == "driver-loaded"]
    stage.operator(simulate__digestSalt="constant", chartVersion="v26.3.9")
    stage.until(lambda: stage.truth.stale_now() == NODES)
    assert set(stage.truth.loaded_now().values()) == {stage.version}
    assert len([each for each in stage.truth.happenings if each.event == "driver-loaded"]) == len(loads) + 3
    stage.calm()


def test_slices_outlive_a_short_absence_and_no_long_one(stage: Stage) -> None:
    """The next plugin updates the same slice; it is wiped where none comes, as here, where the plugin crashes."""
    stage.knobs(slice_wipe_seconds=600)
    selector = {"fieldSelector": "spec.nodeName=gpu-0,spec.driver=gpu.nvidia.com"}
    (before,) = stage.cluster.list(SLICES, **selector)
    stage.delete_plugin("gpu-0")
    stage.until(lambda: stage.plugins().get("gpu-0"))
    (after,) = stage.cluster.list(SLICES, **selector)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    stage.knobs(slice_wipe_seconds=0.5)
    stage.annotate("gpu-0", plugin_fault="crash-loop")
    assert "gpu-0" in stage.plugins()  # The fault begins with the next start.
    stage.delete_plugin("gpu-0")
    stage.until(lambda: not stage.cluster.list(SLICES, **selector))
    assert "gpu-0" not in stage.plugins()
    stage.annotate("gpu-0", plugin_fault=None)
    stage.knobs()
    stage.until(lambda: stage.cluster.list(SLICES, **selector))
    stage.until(lambda: "gpu-0" in stage.plugins())
