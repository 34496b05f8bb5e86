"""Whether a fresh plugin is proven, and what a node without a plugin pod means."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import LATER, Cluster, cluster, reasons, stale_plugin
from tests.fixtures.objects import (
    Object,
    R,
    at,
    conditions,
    finished,
    merged,
    obj,
    parsed,
    plugin_pod,
    running,
    stamp,
    waiting,
)

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:30:00Z'}"
CD_ONLY = merged(
    plugin_pod(),
    {
        "spec": {"containers": [{"name": "compute-domains"}]},
        "status": {"containerStatuses": [running("compute-domains", R + 6)]},
    },
)
OLD_SLICE = "spec: {devices: [{name: gpu-0, attributes: {driverVersion: {version: 570.124.6}}}]}"


def zeros(published: str) -> Cluster:
    """Give a cluster whose policy asks for 580.105.08, and whose slice says a version."""
    found = cluster().change("policy", "spec: {driver: {version: 580.105.08}}")
    image = [{"name": "nvidia-driver-ctr", "image": "nvcr.io/nvidia/driver:580.105.08-ubuntu22.04"}]
    found.change("daemonset", {"spec": {"template": {"spec": {"containers": image}}}}, "nvidia-driver-daemonset")
    return found.change("slice", f"spec: {{devices: [{{attributes: {{driverVersion: {{version: {published}}}}}}}]}}")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster(), Reason.VERIFIED, id="verified"),
        pytest.param(cluster().put("plugin-pod", plugin_pod(ready=None)), Reason.PLUGIN_NOT_READY, id="not-ready"),
        pytest.param(cluster().drop("slice"), Reason.SLICE_MISSING, id="no-slice"),
        pytest.param(cluster().change("slice", "spec: {devices: []}"), Reason.SLICE_MISSING, id="empty-slice"),
        pytest.param(cluster().change("slice", "spec: {nodeName: gpu-9}"), Reason.SLICE_MISSING, id="other-slice"),
        pytest.param(cluster().change("slice", OLD_SLICE), Reason.SLICE_OUTDATED, id="old-slice"),
        pytest.param(cluster().put("slice", merged(obj("slice", OLD_SLICE), {"metadata": {"name": "b"}})),
                     Reason.SLICE_OUTDATED, id="one-of-two-slices-is-old"),
        pytest.param(cluster().change("slice", "spec: {devices: [{name: mig}]}"), Reason.VERIFIED, id="no-version"),
        pytest.param(cluster().drop("slice").put("plugin-pod", CD_ONLY), Reason.VERIFIED, id="compute-domains-only"),
        pytest.param(cluster().unserved("slice"), Reason.VERIFIED, id="api-serves-no-slices"),
        pytest.param(zeros("580.105.8"), Reason.VERIFIED, id="leading-zero"),
        pytest.param(zeros("580.105.80"), Reason.SLICE_OUTDATED, id="not-that-zero"),
    ],
)  # fmt: skip
def test_a_fresh_plugin_is_verified_by_ready_and_slices(found: Cluster, expected: Reason) -> None:
    """Ready, and devices published from the expected driver where a version is published at all."""
    assert expected == found.judge().reason


@pytest.mark.parametrize(
    ("seconds", "restarts", "expected"),
    [
        pytest.param(9, 1, Reason.PLUGIN_NOT_READY, id="came-back-a-moment-ago"),
        pytest.param(10, 1, Reason.VERIFIED, id="steady"),
        pytest.param(59, 2, Reason.PLUGIN_NOT_READY, id="crashed-again-and-again"),
        pytest.param(60, 2, Reason.VERIFIED, id="steady-after-crashes"),
        pytest.param(-5, 3, Reason.VERIFIED, id="in-the-future-clocks-differ"),
        pytest.param(1, 0, Reason.VERIFIED, id="first-start"),
    ],
)
def test_a_plugin_that_came_back_a_moment_ago_is_not_verified(seconds: int, restarts: int, expected: Reason) -> None:
    """One that crash-loops looks ready between two crashes: the more it crashed, the longer it must stand."""
    started = (LATER - timedelta(seconds=seconds) - at(0)).total_seconds()
    statuses = [running("compute-domains", R + 6), running("gpus", started, restarts=restarts)]
    ready = conditions(max(started, R + 6) + 1)
    status: Object = {"conditions": ready, "containerStatuses": statuses}
    found = cluster().put("plugin-pod", merged(plugin_pod(), {"status": status}))
    assert expected == found.judge().reason


@pytest.mark.parametrize(
    ("restarts", "expected"),
    [pytest.param(1, False, id="one-restart"), pytest.param(2, True, id="backing-off")],
)
def test_a_plugin_that_keeps_crashing_is_named_while_it_happens_to_run(restarts: int, expected: bool) -> None:
    """The waiting reason is what people look for, and is gone between two crashes."""
    statuses = [running("compute-domains", R + 6), running("gpus", R + 6, restarts=restarts)]
    found = cluster().put("plugin-pod", merged(plugin_pod(ready=None), {"status": {"containerStatuses": statuses}}))
    assert expected == ("container gpus is in CrashLoopBackOff" in found.judge().message)


def starting(name: str) -> dict[str, object]:
    """Give a plugin pod whose containers do not run."""
    patch = parsed(f"metadata: {{name: {name}, uid: {name}}}")
    init = {"initContainerStatuses": [running("init-container", 5)]}
    main = {"containerStatuses": [waiting(one, "PodInitializing") for one in ("compute-domains", "gpus")]}
    pod: dict[str, object] = merged(merged(plugin_pod(), patch), {"status": {**init, **main}})
    return pod


NOT_READY = merged(plugin_pod(ready=None), parsed("metadata: {name: b, uid: b}"))
HALF_RUNNING = merged(
    stale_plugin(),
    {"status": {"containerStatuses": [running("compute-domains", -499), waiting("gpus", "CrashLoopBackOff")]}},
)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([starting("a")], Reason.PLUGIN_STARTING, id="starting"),
        pytest.param([starting("a"), stale_plugin()], Reason.PLUGIN_STALE, id="a-stale-one-behind-a-starting-one"),
        pytest.param([plugin_pod(), starting("b")], Reason.PLUGIN_STARTING, id="a-starting-one-behind-a-fresh-one"),
        pytest.param([plugin_pod(), NOT_READY], Reason.PLUGIN_NOT_READY, id="a-fresh-one-that-is-not-ready"),
        pytest.param([merged(stale_plugin(), parsed(DELETING)), starting("b")], Reason.PLUGIN_STARTING,
                     id="the-stale-one-is-on-its-way-out"),
        pytest.param([merged(stale_plugin(), parsed(DELETING))], Reason.PLUGIN_RESTARTING, id="only-one-terminating"),
        pytest.param([merged(plugin_pod(), parsed("status: {phase: Failed}"))], Reason.PLUGIN_RESTARTING,
                     id="only-one-evicted"),
        pytest.param([HALF_RUNNING], Reason.PLUGIN_STALE, id="half-of-it-runs-on-the-old-driver"),
    ],
)  # fmt: skip
def test_the_least_proven_pod_speaks_for_the_node(pods: list[dict[str, object]], expected: Reason) -> None:
    """There may be two pods for a moment; a stale one is restarted whatever the other does."""
    assert expected == cluster().only("plugin-pod", *pods).judge().reason


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("status: {desiredNumberScheduled: 1}", Reason.NOTHING_TO_REFRESH, id="wants-no-pod-here"),
        pytest.param("status: {desiredNumberScheduled: 2}", Reason.PLUGIN_MISSING, id="its-pod-is-missing"),
        pytest.param("{metadata: {generation: 2}, status: {desiredNumberScheduled: 1}}", Reason.PLUGIN_MISSING,
                     id="not-observed-so-nobody-knows"),
    ],
)  # fmt: skip
def test_a_node_without_a_plugin_pod_has_nothing_to_refresh_or_misses_one(patch: str, expected: Reason) -> None:
    """By whether the DaemonSet, observed, has as many live pods as it wants."""
    found = cluster("gpu-0", "gpu-1").drop("plugin-pod", "plugin-gpu-1").change("daemonset", patch, PLUGIN)
    assert [Reason.VERIFIED, expected] == [one.reason for one in found.decide()[0].statuses]


def test_a_pod_that_is_going_or_not_scheduled_does_not_count_as_there() -> None:
    """A deletion that is not replaced, as under a quota, is a missing pod."""
    unscheduled = merged(plugin_pod(), parsed("{metadata: {name: new, uid: new}, spec: {nodeName: null}}"))
    found = cluster("gpu-0", "gpu-1").drop("plugin-pod", "plugin-gpu-1").put("plugin-pod", unscheduled)
    assert ["Verified", "PluginMissing"] == reasons(found.decide()[0].statuses)


def test_a_terminating_pod_does_not_stand_for_one_that_is_missing() -> None:
    """The DaemonSet wants two; one lives, another one is on its way out elsewhere."""
    leaving = merged(
        plugin_pod("gpu-1"), parsed("metadata: {name: leaving, deletionTimestamp: '2026-01-01T10:30:00Z'}")
    )
    found = cluster("gpu-0", "gpu-1").drop("plugin-pod", "plugin-gpu-0").put("plugin-pod", leaving)
    assert ["PluginMissing", "Verified"] == reasons(found.decide()[0].statuses)


@pytest.mark.parametrize(
    ("desired", "misscheduled", "expected"),
    [
        pytest.param(3, 0, "NothingToRefresh", id="three-wanted-and-three-there"),
        pytest.param(3, 1, "PluginMissing", id="one-of-the-three-is-where-none-is-wanted"),
        pytest.param(2, 1, "NothingToRefresh", id="two-wanted-beside-it"),
    ],
)
def test_a_pod_where_none_is_wanted_does_not_stand_for_one_that_is_missing(
    desired: int, misscheduled: int, expected: str
) -> None:
    """A node tainted after its plugin started keeps it; another node's, refused by a quota, is missing."""
    found = cluster("a", "b", "c", "d").drop("plugin-pod", "plugin-c")
    status = {"desiredNumberScheduled": desired, "numberMisscheduled": misscheduled}
    decision, _memory = found.change("daemonset", {"status": status}, PLUGIN).decide()
    assert ["Verified", "Verified", expected, "Verified"] == reasons(decision.statuses)


def test_each_consumer_on_a_node_is_judged() -> None:
    """Both chart names may be there after a botched upgrade."""
    old = "nvidia-dra-driver-gpu-kubelet-plugin"
    found = cluster().put("daemonset", obj("plugin-daemonset", f"metadata: {{name: {old}, uid: old-ds}}"))
    other = f"metadata: {{name: other, uid: other, ownerReferences: [{{uid: old-ds, controller: true, name: {old}}}]}}"
    found.put("plugin-pod", merged(stale_plugin(), parsed(other)))
    decision, _memory = found.decide()
    assert {"Verified", "PluginStale"} == set(reasons(decision.statuses))
    assert [old] == [one.plugin.rpartition("/")[2] for one in decision.statuses if one.state is NodeState.STALE]


def test_pods_of_other_daemonsets_are_not_judged() -> None:
    """The plugin's selector may match more than its own pods."""
    foreign = "metadata: {name: other, uid: other, ownerReferences: [{uid: foreign, controller: true}]}"
    found = cluster().put("plugin-pod", merged(stale_plugin(), parsed(foreign)))
    assert found.decide()[0].phase is Phase.DONE


def test_a_stale_pod_is_told_by_all_that_a_precondition_needs() -> None:
    """UID and resourceVersion as they were read, and the driver run that it is stale under."""
    found = cluster().put("plugin-pod", stale_plugin()).judge().stale_pod
    assert found is not None
    assert ("plugin-gpu-0", "plugin-gpu-0-uid", "200", "plugin-ds") == (
        found.name, found.uid, found.resource_version, found.daemonset_uid,
    )  # fmt: skip
    assert f"driver-gpu-0-uid/{at(0).isoformat()}/0" == found.driver_run


def test_a_driver_run_without_a_start_is_told_by_its_ready_time() -> None:
    """An unknown driver container still has a pod with a ready time."""
    other = {"spec": {"containers": [{"name": "x"}]}, "status": {"containerStatuses": [finished("x", 5)]}}
    found = cluster().change("driver-pod", other).put("plugin-pod", stale_plugin()).judge().stale_pod
    assert found is not None
    assert stamp(R).replace("T", " ").replace("Z", "+00:00") == found.driver_run.partition("/")[2]
