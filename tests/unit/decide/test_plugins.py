"""Plugins on a node whose driver is settled: which are fresh, verified, stale or missing, and which may be deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase, StalePlugin
from hook.settings import Plugin, Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, reasons, stale, stale_plugin
from tests.fixtures.modes import avoiding, network, with_exporter
from tests.fixtures.objects import (
    Object,
    R,
    at,
    conditions,
    driver_pod,
    merged,
    obj,
    plugin_pod,
    running,
    stamp,
    waiting,
)
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER, PLUGIN, Run, flapped, named, pods, second_plugin

INIT_RUNS: Object = {"status": {"initContainerStatuses": [running("init-container", -50)], "containerStatuses": []}}


def restarted(found: Cluster, settings: Settings | None = None) -> StalePlugin:
    """Return the stale plugin of the only node."""
    plugin = found.judge(settings).stale
    assert plugin is not None
    return plugin


def without_unloader(**driver: float) -> Object:
    """Return the pod of a driver that restarted in place, so that only times can prove a plugin."""
    return driver_pod(restarts=1, ended_before=-1, unloaded=-300, **driver)  # type: ignore[arg-type]


def in_doubt() -> Cluster:
    """Return a node whose plugin started in the second in which a driver that restarted in place was ready."""
    found = cluster().only("driver-pod", without_unloader())
    return found.only("plugin-pod", named(plugin_pod(waited=-50, started=R, ready=R + 3), "old"))


POD, NAMED_PLUGIN = "nvidia-dra-driver-gpu/plugin-gpu-0", f"nvidia-dra-driver-gpu/{PLUGIN}"


@pytest.mark.parametrize(
    ("found", "reason", "subject"),
    [
        (cluster(), Reason.VERIFIED, POD),
        (stale(), Reason.PLUGIN_STALE, POD),
        (stale().change("node", patches.TAINT), Reason.TAINT_NOT_TOLERATED, POD),
        (cluster().change("node", patches.TAINT), Reason.VERIFIED, POD),
        (cluster().change("plugin-pod", patches.DELETING), Reason.PLUGIN_RESTARTING, POD),
        (cluster().change("plugin-pod", patches.STARTING), Reason.PLUGIN_STARTING, POD),
        (cluster().change("plugin-pod", patches.NOT_READY), Reason.PLUGIN_NOT_READY, POD),
        (cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING, NAMED_PLUGIN),
        (cluster().drop("plugin-pod").change("daemonset", avoiding("gpu-0")), Reason.NOTHING_TO_REFRESH, ""),
    ],
)
def test_a_status_names_the_plugin_and_its_pod(found: Cluster, reason: Reason, subject: str) -> None:
    """Remedies, reports and graces are by plugin; without a pod, its DaemonSet is the subject."""
    status = found.judge()
    assert (reason, NAMED_PLUGIN, subject) == (status.reason, status.plugin, status.subject)


def test_a_stale_pod_has_all_that_a_restart_needs() -> None:
    """Preconditions, the load of the driver that it is stale under."""
    found = restarted(stale())
    assert ("gpu-0", "plugin-gpu-0-uid", "200") == (found.node, found.pod.uid, found.pod.resource_version)
    assert ("plugin-ds", "driver-gpu-0-uid/0") == (found.daemonset_uid, found.load)
    assert found.because


MOVED, RESTARTED = driver_pod(started=900, ready=960), driver_pod(started=0, ready=R, restarts=1)
ASIDE = flapped(driver_pod(), R - 5)
OTHER_UID: Object = {"metadata": {"uid": "other"}}


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        (MOVED, "driver-gpu-0-uid/0"),
        (ASIDE, "driver-gpu-0-uid/0"),
        (RESTARTED, "driver-gpu-0-uid/1"),
        (merged(driver_pod(), OTHER_UID), "other/0"),
    ],
)
def test_a_load_has_no_clock_in_it(driver: Object, expected: str) -> None:
    """It is the driver pod and the restarts of its driver container. Side containers and times do not count."""
    assert expected == restarted(stale().only("driver-pod", driver)).load


STARTS = named(merged(plugin_pod(), merged(patches.STARTING, INIT_RUNS)), "a")
HALF = merged(stale_plugin(), {"status": {"containerStatuses": [
    running("compute-domains", -499), waiting("gpus", "CrashLoopBackOff")]}})  # fmt: skip
LEAVING = merged(stale_plugin(), patches.DELETING)


SECOND_STARTS = named(STARTS, "b")
EVICTED: Object = {"status": {"phase": "Failed"}}
SEVERAL = {
    "starting": ([STARTS], Reason.PLUGIN_STARTING),
    "a stale one behind a starting one": ([STARTS, stale_plugin()], Reason.PLUGIN_STALE),
    "a starting one behind a fresh one": ([plugin_pod(), SECOND_STARTS], Reason.PLUGIN_STARTING),
    "a fresh one that is not ready": (
        [plugin_pod(), named(plugin_pod(ready=None), "b")], Reason.PLUGIN_NOT_READY),
    "the stale one terminates": ([LEAVING, SECOND_STARTS], Reason.PLUGIN_STARTING),
    "only one, terminating": ([LEAVING], Reason.PLUGIN_RESTARTING),
    "only one, evicted": ([merged(plugin_pod(), EVICTED)], Reason.PLUGIN_RESTARTING),
    "half of it runs on the old driver": ([HALF], Reason.PLUGIN_STALE),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_the_least_proven_pod_decides(given: list[Object], expected: Reason) -> None:
    """There may be two pods for a moment, as with maxSurge; a stale one is restarted whatever the other one does."""
    assert expected is cluster().only("plugin-pod", *given).judge().reason


def without_gpus() -> Cluster:
    """Return a cluster in ComputeDomain-only mode."""
    spec: Object = {"containers": [{"name": "compute-domains", "image": "dra:1"}]}
    pod = merged(plugin_pod(), {"spec": spec, "status": {"containerStatuses": [running("compute-domains", R + 6)]}})
    found = cluster().drop("slice").put("plugin-pod", pod)
    return found.change("daemonset", {"spec": {"template": {"spec": spec}}}, PLUGIN)


CLIENT = Settings(driver_clients=(EXPORTER,))


@pytest.mark.parametrize(
    ("found", "settings", "unpublished"),
    [
        (cluster(), None, False),
        (without_gpus(), None, True),
        (network(), None, False),  # its plugin publishes none in any mode
        (with_exporter(without_gpus().drop("daemonset", PLUGIN).drop("plugin-pod")), CLIENT, False),
    ],
)
def test_without_published_devices_messages_name_what_verified_rests_on(
    found: Cluster, settings: Settings | None, *, unpublished: bool
) -> None:
    """The message of the node, and that of the run, which the status object has."""
    decision, _memory = found.decide(settings)
    for message in (decision.message, decision.statuses[0].message):
        assert ("loaded driver (by start and readiness: no devices are published)" in message) is unpublished


def test_a_run_whose_plugins_publish_devices_in_part_is_not_verified_by_readiness_alone() -> None:
    """One of them that publishes shows the version of the driver."""
    found = second_plugin(cluster(), R + 6)
    found.change("daemonset", patches.running("plugin:1", "compute-domains"), "second")
    decision, _memory = found.decide(Settings(plugin=Plugin(names=(PLUGIN, "second"))))
    assert (Phase.DONE, False) == (decision.phase, "no devices are published" in decision.message)


MIG_DEVICES = "spec: {devices: [{name: gpu-0-mig-1g.10gb-0, attributes: {type: {string: mig}}}]}"


OLD_DEVICES = patches.publishing("570.124.6")
SECOND_SLICE = named(obj("slice", OLD_DEVICES), "b")
PUBLISHED = {
    "empty slice": (cluster().change("slice", "spec: {devices: []}"), Reason.SLICE_MISSING),
    "slice of another node": (cluster().change("slice", "spec: {nodeName: gpu-9}"), Reason.SLICE_MISSING),
    "one of two is old": (cluster().put("slice", SECOND_SLICE), Reason.SLICE_OUTDATED),
    "MIG devices publish none": (cluster().change("slice", MIG_DEVICES), Reason.VERIFIED),
    "ComputeDomains alone": (without_gpus(), Reason.VERIFIED),
    "the API serves no slices": (cluster().unserved("slice"), Reason.VERIFIED),
}


@pytest.mark.parametrize(("found", "expected"), PUBLISHED.values(), ids=PUBLISHED)
def test_a_fresh_plugin_is_verified_by_readiness_and_resource_slices(found: Cluster, expected: Reason) -> None:
    """Each of its slices must show the expected driver, where it shows any."""
    assert expected is found.judge().reason


def _of_pool(pool: str, generation: int, version: str = "570.1.2") -> Object:
    device = {"name": "g", "basic": {"attributes": {"driverVersion": {"version": version}}}}
    spec = {"pool": {"name": pool, "generation": generation}, "devices": [device]}
    return obj("slice", {"metadata": {"name": "other"}, "spec": spec})


OF_POOLS = {
    "of an older generation": (_of_pool("gpu-0", 1), "Verified"),
    "of the same generation": (_of_pool("gpu-0", 2), "SliceOutdated"),
    "of another pool": (_of_pool("gpu-0-b", 7), "SliceOutdated"),
    "of another pool with the new driver": (_of_pool("gpu-0-b", 7, "580.126.20"), "Verified"),
}


@pytest.mark.parametrize(("other", "expected"), OF_POOLS.values(), ids=OF_POOLS)
def test_each_pool_of_a_node_counts_in_its_newest_generation(other: Object, expected: str) -> None:
    """Other programs that read ResourceSlices ignore older generations of a pool, too."""
    newest = cluster().change("slice", "spec: {pool: {generation: 2}}")
    assert [expected] == reasons(newest.put("slice", other).decide()[0].statuses)


@pytest.mark.parametrize(
    ("seconds", "restarts", "expected"),
    [
        (0, 1, Reason.PLUGIN_NOT_READY),
        (9, 1, Reason.PLUGIN_NOT_READY),
        (10, 1, Reason.VERIFIED),
        (59, 2, Reason.PLUGIN_NOT_READY),
        (60, 2, Reason.VERIFIED),
        (-5, 3, Reason.PLUGIN_NOT_READY),
        (-61, 3, Reason.VERIFIED),  # the clocks differ, so a start in the future proves nothing
        (1, 0, Reason.VERIFIED),
    ],
)
def test_a_container_that_restarted_must_run_for_a_while(seconds: int, restarts: int, expected: Reason) -> None:
    """One that crash-loops is ready between two crashes: the more it crashed, the longer it must run."""
    started = (LATER - timedelta(seconds=seconds) - at(0)).total_seconds()
    ran = [running("compute-domains", R + 6), running("gpus", started, restarts=restarts)]
    status: Object = {"conditions": conditions(started + 1), "containerStatuses": ran}
    found = cluster().put("plugin-pod", merged(plugin_pod(), {"status": status}))
    assert expected is found.judge().reason


def test_a_proof_is_forgotten_with_its_pod() -> None:
    """A run that never ends must not grow."""
    run = Run(cluster())
    run.look()
    assert {"plugin-gpu-0-uid"} == run.memory.fresh.keys()
    run.found.drop("plugin-pod")
    run.look()
    assert {} == run.memory.fresh


def test_a_plugin_that_is_proven_fresh_must_run() -> None:
    """Freshness is remembered; that a container runs is not."""
    run = Run(cluster().put("plugin-pod", plugin_pod(waited=None)))
    run.look()
    crashed = [running("compute-domains", R + 6), waiting("gpus", "CrashLoopBackOff")]
    run.found.change("plugin-pod", {"status": {"conditions": conditions(None), "containerStatuses": crashed}})
    assert ["PluginStarting"] == reasons(run.look().statuses)


NEW_POD = named(plugin_pod(waited=-50, started=R, ready=R + 3), "new")
RESTARTED_RUN = Run(in_doubt()).record("gpu-0")
CRASHED_AGAIN = driver_pod(restarts=2, ended_before=-1, unloaded=-300)


REPLACED: dict[str, tuple[Run, Object | None, Object, str]] = {
    "the new pod": (RESTARTED_RUN, None, NEW_POD, "Verified"),
    "without a history": (Run(in_doubt()), None, NEW_POD, "PluginStale"),
    "the deleted pod itself": (RESTARTED_RUN, None, in_doubt().of("plugin-pod")[0], "PluginRestarting"),
    "after a refusal": (Run(in_doubt()).record("gpu-0", refused="no"), None, NEW_POD, "PluginStale"),
    "the driver crashed again in that second": (RESTARTED_RUN, CRASHED_AGAIN, NEW_POD, "PluginStale"),
}


@pytest.mark.parametrize(("run", "driver", "pod", "expected"), REPLACED.values(), ids=REPLACED)
def test_a_pod_that_replaced_a_restarted_one_is_fresh_by_cause(
    run: Run, driver: Object | None, pod: Object, expected: str
) -> None:
    """The driver was ready before the restart, so the new pod started on it, whatever times the kubelet reports."""
    found = in_doubt().only("plugin-pod", pod)
    status = run.then(found.only("driver-pod", driver) if driver else found).look().statuses
    assert [expected] == reasons(status)


def test_a_successor_that_has_not_started_proves_nothing_yet() -> None:
    """It is starting."""
    run = Run(stale())
    run.act()
    starting = named(merged(plugin_pod(), merged(patches.STARTING, INIT_RUNS)), "successor")
    (begun,) = run.then(cluster().only("plugin-pod", starting)).look().statuses
    assert (Reason.PLUGIN_STARTING, ()) == (begun.reason, begun.fresh)


LATE: dict[str, tuple[float | None, float, str]] = {
    "created before the deletion": (50, 49, "PluginStale"),
    "in the same second": (50, 50, "Verified"),
    "no answer showed the time of the deletion": (None, 49, "Verified"),
}


@pytest.mark.parametrize(("deleted", "created", "expected"), LATE.values(), ids=LATE)
def test_a_pod_that_a_late_watch_missed_replaced_none(deleted: float | None, created: float, expected: str) -> None:
    """It was there before. Two times of the API server tell, and no clock of this program."""
    run = Run(stale())
    (action,) = run.look().actions
    moment = None if deleted is None else at(deleted)
    run.memory = run.memory.with_restart(action, LATER, deleted_at=moment)
    pod = merged(plugin_pod(waited=None, started=R - 1), {"metadata": {"creationTimestamp": stamp(created)}})
    found = cluster().only("plugin-pod", named(pod, "successor"))
    assert [expected] == reasons(run.then(found).look().statuses)


def test_a_pod_that_ran_next_to_a_restarted_one_did_not_replace_it() -> None:
    """Its equal second stays in doubt."""
    next_to = named(plugin_pod(waited=-9, started=R), "stray", ownerReferences=[])
    run = Run(stale().put("plugin-pod", next_to))
    assert "plugin-gpu-0" == run.restart()[0]
    assert ["PluginStale"] == reasons(run.then(cluster().only("plugin-pod", next_to)).look().statuses)


ORPHAN, FRESH_ORPHAN = (named(pod, "orphan", ownerReferences=[]) for pod in (stale_plugin(), plugin_pod()))
UNLIKE: Object = {"metadata": {"labels": {"dra-driver-nvidia-gpu-component": "controller"}}}


@pytest.mark.parametrize("found", [cluster().drop("plugin-pod"), cluster()])
def test_an_orphaned_plugin_pod_counts(found: Cluster) -> None:
    """It runs on and holds the old driver, with or without a pod of the new DaemonSet on its node."""
    decision, _memory = found.put("plugin-pod", ORPHAN).decide()
    assert (Phase.WAIT, ["orphan"]) == (decision.phase, pods(decision))


@pytest.mark.parametrize(
    "pod", [FRESH_ORPHAN, merged(ORPHAN, {"metadata": {"namespace": "default"}}), merged(ORPHAN, UNLIKE)]
)
def test_an_orphan_that_is_fresh_or_no_plugin_is_left_alone(pod: Object) -> None:
    """By its labels and its namespace."""
    assert Phase.DONE is cluster().put("plugin-pod", pod).decide()[0].phase


SELECTING: Object = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "8"}}}}}
WANTED: dict[str, tuple[Object, Object, str]] = {
    "any node": ({}, {}, "PluginMissing"),
    "a selector that matches": (SELECTING, {"metadata": {"labels": {"pool": "8"}}}, "PluginMissing"),
    "a selector that does not": (SELECTING, {"metadata": {"labels": {"pool": "9"}}}, "NothingToRefresh"),
    "a taint that it does not tolerate": ({}, patches.TAINT, "NothingToRefresh"),
}


@pytest.mark.parametrize(("daemonset", "node", "expected"), WANTED.values(), ids=WANTED)
def test_a_node_without_a_plugin_pod_misses_one_or_needs_none(daemonset: Object, node: Object, expected: str) -> None:
    """Whether it needs one is a fact about the node. The counts of the DaemonSet do not show which nodes these are."""
    found = cluster().drop("plugin-pod").change("node", node).change("daemonset", daemonset, PLUGIN)
    assert [expected] == reasons(found.decide()[0].statuses)


STALE, HELD = Reason.PLUGIN_STALE, Reason.TAINT_NOT_TOLERATED
MINE = "{key: mine, effect: NoSchedule}"


TAINTS = {
    "one of two is tolerated": (f"{MINE}, {{key: b, effect: NoExecute}}", "{key: mine}", HELD),
    "tolerated": (MINE, "{key: b}, {key: mine}", STALE),
    "cordoned": ("{key: node.kubernetes.io/unschedulable, effect: NoSchedule}", "", STALE),
}


@pytest.mark.parametrize(("taints", "tolerations", "expected"), TAINTS.values(), ids=TAINTS)
def test_a_stale_plugin_that_would_not_come_back_is_not_deleted(
    taints: str, tolerations: str, expected: Reason
) -> None:
    """A stale plugin may still work; without any plugin, nothing does."""
    found = stale().change("node", f"spec: {{taints: [{taints}]}}")
    found.change("daemonset", f"spec: {{template: {{spec: {{tolerations: [{tolerations}]}}}}}}", PLUGIN)
    decision, _memory = found.decide()
    assert [expected.value] == reasons(decision.statuses)
    assert (expected is STALE) is bool(decision.actions)
