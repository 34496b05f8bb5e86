"""Plugins on a node whose driver is settled: which are fresh, verified, stale or missing, and which may be deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase, StalePlugin
from hook.objects import read_daemonset, read_node
from hook.settings import Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
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
from tests.unit.decide.runs import EXPORTER, PLUGIN, Run, deleted, flapped, named, pods

TOOLKIT_DAEMONSET = "nvidia-container-toolkit-daemonset"
REQUIRED = "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [TERM]}]}}"
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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([STARTS], Reason.PLUGIN_STARTING, id="starting"),
        pytest.param([STARTS, stale_plugin()], Reason.PLUGIN_STALE, id="a stale one behind a starting one"),
        pytest.param(
            [plugin_pod(), named(STARTS, "b")], Reason.PLUGIN_STARTING, id="a starting one behind a fresh one"
        ),
        pytest.param(
            [plugin_pod(), named(plugin_pod(ready=None), "b")],
            Reason.PLUGIN_NOT_READY,
            id="a fresh one that is not ready",
        ),
        pytest.param([LEAVING, named(STARTS, "b")], Reason.PLUGIN_STARTING, id="the stale one terminates"),
        pytest.param([LEAVING], Reason.PLUGIN_RESTARTING, id="only one, terminating"),
        pytest.param(
            [merged(plugin_pod(), {"status": {"phase": "Failed"}})], Reason.PLUGIN_RESTARTING, id="only one, evicted"
        ),
        pytest.param([HALF], Reason.PLUGIN_STALE, id="half of it runs on the old driver"),
    ],
)
def test_the_least_proven_pod_decides(given: list[Object], expected: Reason) -> None:
    """There may be two pods for a moment, as with maxSurge; a stale one is restarted whatever the other one does."""
    assert expected is cluster().only("plugin-pod", *given).judge().reason


def test_sidecars_and_debug_containers_prove_nothing() -> None:
    """One runs from before the driver, or crashes."""
    driver, plugin = driver_pod(), plugin_pod()
    driver["status"]["initContainerStatuses"].append(running("side", 300, restarts=3, ended_before=299))
    plugin["status"]["initContainerStatuses"].append(running("side", -500))
    for pod in (driver, plugin):
        pod["spec"]["initContainers"].append({"name": "side", "restartPolicy": "Always"})
    plugin["status"]["ephemeralContainerStatuses"] = [running("debugger", -5)]
    assert Reason.VERIFIED is cluster().put("driver-pod", driver).put("plugin-pod", plugin).judge().reason


def publishing(version: str, found: Cluster | None = None) -> Cluster:
    """Let the ResourceSlice show a driver version."""
    device = {"attributes": {"driverVersion": {"version": version}}}
    return (found or cluster()).change("slice", {"spec": {"devices": [device]}})


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


def beta(version: str) -> Cluster:
    """Return a cluster whose slice is one of the beta API: devices have one level more."""
    device = {"basic": {"attributes": {"driverVersion": {"version": version}}}}
    return cluster().change("slice", {"apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": [device]}})


MIG_DEVICES = "spec: {devices: [{name: gpu-0-mig-1g.10gb-0, attributes: {type: {string: mig}}}]}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster().change("slice", "spec: {devices: []}"), Reason.SLICE_MISSING, id="empty slice"),
        pytest.param(
            cluster().change("slice", "spec: {nodeName: gpu-9}"), Reason.SLICE_MISSING, id="slice of another node"
        ),
        pytest.param(publishing("570.124.6"), Reason.SLICE_OUTDATED, id="old slice"),
        pytest.param(
            cluster().put("slice", named(publishing("570.124.6").of("slice")[0], "b")),
            Reason.SLICE_OUTDATED,
            id="one of two is old",
        ),
        pytest.param(cluster().change("slice", MIG_DEVICES), Reason.VERIFIED, id="MIG devices publish none"),
        pytest.param(without_gpus(), Reason.VERIFIED, id="ComputeDomains alone"),
        pytest.param(cluster().unserved("slice"), Reason.VERIFIED, id="the API serves no slices"),
        pytest.param(beta("580.126.20"), Reason.VERIFIED, id="slice of the beta API"),
        pytest.param(beta("570.124.6"), Reason.SLICE_OUTDATED, id="old slice of the beta API"),
    ],
)
def test_a_fresh_plugin_is_verified_by_readiness_and_resource_slices(found: Cluster, expected: Reason) -> None:
    """Each of its slices must show the expected driver, where it shows any."""
    assert expected is found.judge().reason


def _of_pool(pool: str, generation: int, version: str = "570.1.2") -> Object:
    device = {"name": "g", "basic": {"attributes": {"driverVersion": {"version": version}}}}
    spec = {"pool": {"name": pool, "generation": generation}, "devices": [device]}
    return obj("slice", {"metadata": {"name": "other"}, "spec": spec})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(_of_pool("gpu-0", 1), "Verified", id="of an older generation"),
        pytest.param(_of_pool("gpu-0", 2), "SliceOutdated", id="of the same generation"),
        pytest.param(_of_pool("gpu-0-b", 7), "SliceOutdated", id="of another pool"),
        pytest.param(_of_pool("gpu-0-b", 7, "580.126.20"), "Verified", id="of another pool with the new driver"),
    ],
)
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


def test_what_was_fresh_under_one_run_of_the_driver_stays_fresh() -> None:
    """A side container that crashes moves ContainersReady, again and again, while the driver runs."""
    for settings, patch in ((Settings(), {}), (FOLLOWING, {}), (Settings(), patches.OUTDATED)):
        run = Run(cluster().change("policy", patches.BY_HAND if patch else "{}").change("driver-pod", patch), settings)
        run.found.put("plugin-pod", plugin_pod(waited=None))
        assert Phase.DONE is run.look().phase
        for ready in (900, 1500):
            run.found.put("driver-pod", merged(flapped(driver_pod(ready=ready), ready - 5), patch))
            assert (Phase.DONE, []) == ((decision := run.look()).phase, deleted(decision)), patch
        assert ["gpu-0"] == deleted(run.found.decide(settings)[0])
        run.found.put("driver-pod", flapped(driver_pod(started=2000, ready=2070, restarts=1), 2060))
        assert NodeState.STALE is run.look().statuses[0].state
    # The proof is forgotten with its pod, because a run that never ends must not grow.
    assert {"plugin-gpu-0-uid"} == run.memory.fresh.keys()
    run.found.drop("plugin-pod")
    run.look()
    assert {} == run.memory.fresh
    # Freshness is remembered; that a container runs is not.
    run = Run(cluster().put("plugin-pod", plugin_pod(waited=None)))
    run.look()
    crashed = {"name": "gpus", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    run.found.change("plugin-pod", merged(patches.NOT_READY, {"status": {"containerStatuses": [
        running("compute-domains", R + 6), crashed]}}))  # fmt: skip
    assert ["PluginStarting"] == reasons(run.look().statuses)


NEW_POD = named(plugin_pod(waited=-50, started=R, ready=R + 3), "new")
RESTARTED_RUN = Run(in_doubt()).record("gpu-0")
CRASHED_AGAIN = driver_pod(restarts=2, ended_before=-1, unloaded=-300)


@pytest.mark.parametrize(
    ("run", "driver", "pod", "expected"),
    [
        pytest.param(RESTARTED_RUN, None, NEW_POD, "Verified", id="the new pod"),
        pytest.param(Run(in_doubt()), None, NEW_POD, "PluginStale", id="without a history"),
        pytest.param(
            RESTARTED_RUN, None, in_doubt().of("plugin-pod")[0], "PluginRestarting", id="the deleted pod itself"
        ),
        pytest.param(Run(in_doubt()).record("gpu-0", refused="no"), None, NEW_POD, "PluginStale", id="after a refusal"),
        pytest.param(
            RESTARTED_RUN, CRASHED_AGAIN, NEW_POD, "PluginStale", id="the driver crashed again in that second"
        ),
    ],
)
def test_a_pod_that_replaced_a_restarted_one_is_fresh_by_cause(
    run: Run, driver: Object | None, pod: Object, expected: str
) -> None:
    """The driver was ready before the restart, so the new pod started on it, whatever times the kubelet reports."""
    found = in_doubt().only("plugin-pod", pod)
    status = run.then(found.only("driver-pod", driver) if driver else found).look().statuses
    assert [expected] == reasons(status)


@pytest.mark.parametrize(
    ("driver", "started", "expected"),
    [
        (driver_pod(ready=900), R + 100, "Verified"),
        (driver_pod(ready=900), R - 1, "Verified"),
        (driver_pod(started=800, ready=900), R - 1, "Verified"),
        (driver_pod(started=800, ready=900, restarts=1), R + 100, "PluginStale"),
    ],
)
def test_a_successor_is_fresh_under_its_load_whatever_times_show(driver: Object, started: int, expected: str) -> None:
    """Not under the next load."""
    run = Run(stale())
    run.act()
    found = cluster().put("driver-pod", driver)
    found.only("plugin-pod", named(plugin_pod(waited=None, started=started), "successor"))
    assert [expected] == reasons(run.then(found).look().statuses)


def test_a_successor_that_has_not_started_proves_nothing_yet() -> None:
    """It is starting."""
    run = Run(stale())
    run.act()
    starting = named(merged(plugin_pod(), merged(patches.STARTING, INIT_RUNS)), "successor")
    (begun,) = run.then(cluster().only("plugin-pod", starting)).look().statuses
    assert (Reason.PLUGIN_STARTING, ()) == (begun.reason, begun.fresh)


@pytest.mark.parametrize(
    ("deleted", "created", "expected"),
    [
        pytest.param(50, 49, "PluginStale", id="created before the deletion"),
        pytest.param(50, 50, "Verified", id="in the same second"),
        pytest.param(50, 51, "Verified", id="later"),
        pytest.param(None, 49, "Verified", id="no answer showed the time of the deletion"),
    ],
)
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
    """Its equal second stays in doubt; the pod that did replace the other one stays fresh."""
    next_to = named(plugin_pod(waited=-9, started=R), "stray", ownerReferences=[])
    run = Run(stale().put("plugin-pod", next_to))
    assert "plugin-gpu-0" == run.restart()[0]
    assert ["PluginStale"] == reasons(run.then(cluster().only("plugin-pod", next_to)).look().statuses)
    two = Run(cluster().only("plugin-pod", named(stale_plugin(), "first"), named(stale_plugin(), "second")))
    assert ["first"] == two.restart()
    two.found.put("plugin-pod", named(plugin_pod(waited=None, started=R), "successor"))
    assert ["second"] == two.restart()
    assert (Phase.DONE, []) == ((decision := two.look()).phase, pods(decision))


def test_each_plugin_on_a_node_is_evaluated() -> None:
    """Both chart names may be there after a failed upgrade."""
    old = "nvidia-dra-driver-gpu-kubelet-plugin"
    owner = [{"uid": "old-ds", "controller": True, "name": old}]
    found = cluster().put("daemonset", obj("plugin-daemonset", f"metadata: {{name: {old}, uid: old-ds}}"))
    found.put("plugin-pod", named(stale_plugin(), "other", ownerReferences=owner))
    seen = {one.plugin.partition("/")[2]: one.reason.value for one in found.decide()[0].statuses}
    assert {PLUGIN: "Verified", old: "PluginStale"} == seen


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


NOTHING, MISSING, KEYS = "NothingToRefresh", "PluginMissing", "{key: pool, operator: OPERATOR, values: [VALUES]}"


def test_a_node_without_a_plugin_pod_misses_one_or_needs_none() -> None:
    """Whether it needs one is a fact about the node. The counts of the DaemonSet do not show which nodes these are."""
    for name, spec, expected in (
        ("any node", "{}", MISSING),
        ("a selector that matches", "{nodeSelector: {pool: '8'}}", MISSING),
        ("a selector that does not", "{nodeSelector: {pool: '9'}}", NOTHING),
        ("a selector that the node lacks", "{nodeSelector: {other: '8'}}", NOTHING),
        *(
            (f"{operator} {values}", f"{{affinity: {{nodeAffinity: {REQUIRED.replace('TERM', term)}}}}}", expected)
            for operator, values, expected in (
                ("In", "'7', '8'", MISSING), ("In", "'7'", NOTHING), ("NotIn", "'8'", NOTHING), ("Exists", "", MISSING),
                ("Gt", "'7'", MISSING), ("Gt", "'8'", NOTHING), ("Lt", "'9'", MISSING), ("Near", "'8'", NOTHING),
            )
            for term in [KEYS.replace("OPERATOR", operator).replace("VALUES", values)]
        ),
        ("no requirement", f"{{affinity: {{nodeAffinity: {REQUIRED.replace('TERM', '')}}}}}", NOTHING),
        ("no required affinity", "{affinity: {nodeAffinity: {}}}", MISSING),
    ):  # fmt: skip
        found = cluster("a", "b").drop("plugin-pod", "plugin-b").change("node", "metadata: {labels: {pool: '8'}}", "b")
        found.change("daemonset", f"spec: {{template: {{spec: {spec}}}}}", PLUGIN)
        assert ["Verified", expected] == reasons(found.decide()[0].statuses), name


def test_a_tainted_node_without_a_plugin_pod_needs_none() -> None:
    """No plugin would tolerate the taint."""
    tainted = cluster("a", "b").drop("plugin-pod", "plugin-b").change("node", patches.TAINT, "b")
    assert ["Verified", NOTHING] == reasons(tainted.decide()[0].statuses)


PLAIN, VALUED = "{key: a, effect: NoSchedule}", "{key: a, value: x, effect: NoSchedule}"
EXECUTE, NUMBER = "{key: a, effect: NoExecute}", "{key: a, value: '9', effect: NoSchedule}"


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        (PLAIN, "{key: a, operator: Exists}", True),
        ("{key: a, value: x, effect: NoExecute}", "{key: a, operator: Exists}", True),
        (PLAIN, "{operator: Exists}", True),
        (PLAIN, "{key: b, operator: Exists}", False),
        (VALUED, "{key: a, value: x}", True),
        (VALUED, "{key: a, operator: Equal, value: y}", False),
        (PLAIN, "{key: a, operator: Equal}", True),
        (PLAIN, "{operator: Equal}", False),
        (NUMBER, "{key: a, operator: Gt, value: '1'}", True),
        (NUMBER, "{key: a, operator: Gt, value: '9'}", False),
        (NUMBER, "{key: a, operator: Lt, value: '10'}", True),
        (NUMBER, "{key: a, operator: Lt, value: '-10'}", False),
        (NUMBER, "{key: a, operator: Gt, value: x}", False),
        (VALUED, "{key: a, operator: Lt, value: '9'}", False),
        (NUMBER, "{key: b, operator: Gt, value: '1'}", False),
        (NUMBER, "{key: a, operator: Near, value: '1'}", True),
        (PLAIN, "{key: a, operator: Exists, effect: NoSchedule}", True),
        (EXECUTE, "{key: a, operator: Exists, effect: NoSchedule}", False),
        (EXECUTE, "{operator: Exists, effect: NoSchedule}", False),
    ],
)
def test_a_toleration_is_read_as_the_scheduler_does(taint: str, toleration: str, *, expected: bool) -> None:
    """By key, operator, value and effect; an operator that this version does not know may tolerate it."""
    (seen,) = read_node(obj("node", f"spec: {{taints: [{taint}]}}")).taints
    template = f"spec: {{template: {{spec: {{tolerations: [{toleration}]}}}}}}"
    (given,) = read_daemonset(obj("plugin-daemonset", template)).tolerations
    assert expected is given.tolerates(seen)


STALE, HELD = Reason.PLUGIN_STALE, Reason.TAINT_NOT_TOLERATED
MINE = "{key: mine, effect: NoSchedule}"


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param(MINE, "", HELD, id="not tolerated"),
        pytest.param(f"{MINE}, {{key: b, effect: NoExecute}}", "{key: mine}", HELD, id="one of two is tolerated"),
        pytest.param(MINE, "{key: b}, {key: mine}", STALE, id="tolerated"),
        pytest.param("{key: mine, effect: PreferNoSchedule}", "", STALE, id="preferred"),
        pytest.param("{key: node.kubernetes.io/unschedulable, effect: NoSchedule}", "", STALE, id="cordoned"),
        pytest.param("{key: node.kubernetes.io/disk-pressure, effect: NoSchedule}", "", STALE, id="its own condition"),
    ],
)
def test_a_stale_plugin_that_would_not_come_back_is_not_deleted(
    taints: str, tolerations: str, expected: Reason
) -> None:
    """A stale plugin may still work; without any plugin, nothing does."""
    found = stale().change("node", f"spec: {{taints: [{taints}]}}")
    found.change("daemonset", f"spec: {{template: {{spec: {{tolerations: [{tolerations}]}}}}}}", PLUGIN)
    decision, _memory = found.decide()
    assert [expected.value] == reasons(decision.statuses)
    assert (expected is STALE) is bool(decision.actions)
