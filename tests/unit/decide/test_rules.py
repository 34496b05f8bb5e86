"""Rules that rest on one condition each: a row fails if its condition is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.settings import Expect, Plugin, Settings
from tests.fixtures.cluster import (
    Cluster,
    cluster,
    labelled,
    not_ready_since,
    reasons,
    stale,
    without_drivers,
)
from tests.fixtures.limits import FOLLOWING, down
from tests.fixtures.modes import Pool, avoiding, owner, pooled, with_exporter, with_mig, with_toolkit
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, plugin_pod, stamp, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, MIG, PLUGIN, Run, deleted, named

Row = tuple[Callable[[], Cluster], Settings, Phase, Reason, list[str]]

WAIT, DONE, SKIP = Phase.WAIT, Phase.DONE, Phase.SKIP
JOB: Final = Settings()
NEXT_CHART: Final = Settings(expect=Expect(chart_version="v26.7.0"))
WITH_EXPORTER: Final = Settings(driver_clients=(EXPORTER,))
BOTH: Final = Settings(refresh_after=("toolkit", "mig"))
TWO_PLUGINS: Final = structs.replace(FOLLOWING, plugin=Plugin(names=(PLUGIN, "second")))
UNOBSERVED: Final = "metadata: {generation: 9}"
OLD_IMAGE: Final = "nvcr.io/nvidia/driver:570.1-ubuntu22.04"


def disabled() -> Cluster:
    """Return a node without a driver pod, whose policy deploys no driver any more."""
    found = cluster().change("policy", patches.DISABLED).drop("driver-pod")
    return found.change("daemonset", patches.NONE_WANTED, DRIVER)


def unlabelled_yet() -> Cluster:
    """Return a node without labels whose plugin waits for its first driver, and an operator that rolls out."""
    init = {"conditions": conditions(None), "initContainerStatuses": [waiting("init-container", "PodInitializing")]}
    plugin = merged(plugin_pod(), {"status": {**init, "containerStatuses": []}})
    found = cluster().only("plugin-pod", plugin).drop("driver-pod").drop("daemonset", DRIVER)
    found.change("node", labelled(present=None, deploy_driver=None))
    return found.change("deployment", "status: {replicas: 2}")


def leftover() -> Cluster:
    """Return two nodes, of which one has the driver pod of a former DaemonSet that wants no pod any more."""
    metadata: Object = {"metadata": {"name": "left", "uid": "left"}, "status": {"desiredNumberScheduled": 0}}
    old = merged(obj("driver-daemonset", patches.running(OLD_IMAGE)), metadata)
    found = cluster("a", "b").put("daemonset", old)
    return found.change("driver-pod", {"metadata": {"ownerReferences": owner("left")}}, "driver-b")


def revision(name: str, number: int, **metadata: object) -> Object:
    """Return a revision of the driver's DaemonSet."""
    labels = {"controller-revision-hash": name}
    return obj("revision", {"metadata": {"name": name, "labels": labels, **metadata}, "revision": number})


def second_plugin(found: Cluster, started: float | None) -> Cluster:
    """Add another kubelet plugin, whose containers started at a moment or wait."""
    pod = plugin_pod(waited=None, started=R + 6 if started is None else started)
    if started is None:
        pod = merged(pod, {"status": {"containerStatuses": [waiting("gpus", "PodInitializing")]}})
    found.put("daemonset", obj("plugin-daemonset", {"metadata": {"name": "second", "uid": "second-ds"}}))
    return found.put("plugin-pod", named(pod, "second", ownerReferences=owner("second-ds")))


def in_two_pools() -> Cluster:
    """Return a node without a driver pod in the second of two pools, each of which wants pods on its own node."""
    found = pooled(Pool("a", ("a",)), Pool("b", ("b",))).drop("driver-pod", "driver-b")
    for pool, other in (("a", "b"), ("b", "a")):
        found.change("daemonset", avoiding(other), f"nvidia-gpu-driver-{pool}")
    return found


def still_starting() -> Cluster:
    """Return a plugin that has not started, on a node whose reconfiguration ended at an unknown time."""
    init = waiting("gpus", "PodInitializing")
    plugin = merged(plugin_pod(ready=None), {"status": {"containerStatuses": [init]}})
    return with_mig(cluster(), written=None).put("plugin-pod", plugin)


ROWS: Final[dict[str, Row]] = {
    # Whether the run may be skipped.
    "an expected release is awaited although no driver is left": (
        lambda: without_drivers(cluster()).change("policy", patches.DISABLED),
        NEXT_CHART, WAIT, Reason.EXPECTATION_UNMET, ["DriverMissing"]),
    "an expected policy is awaited although no driver is left": (
        lambda: without_drivers(cluster()).drop("policy"), NEXT_CHART, WAIT, Reason.POLICY_EXPECTED, ["DriverMissing"]),
    "a DaemonSet that wants pods shows that drivers are deployed": (
        lambda: cluster().drop("policy").drop("driver-pod"), JOB, WAIT, Reason.NO_POLICY, ["DriverMissing"]),
    "so may one that its controller has not observed": (
        lambda: disabled().change("daemonset", UNOBSERVED, DRIVER), JOB, WAIT, Reason.DRIVER_DISABLED,
        ["DriverMissing"]),
    "a stale plugin is restarted while the driver is disabled, which may be for a moment": (
        lambda: stale().change("policy", patches.DISABLED), JOB, WAIT, Reason.DRIVER_DISABLED, ["PluginStale"]),
    "one that wants no pods and has none is a leftover": (disabled, JOB, SKIP, Reason.DRIVER_DISABLED,
                                                          ["DriverMissing"]),
    "labels do not count before the operator is quiet": (
        unlabelled_yet, JOB, WAIT, Reason.OPERATOR_ROLLING_OUT, ["DriverNotDeployed"]),
    # Which nodes there are.
    "a driver pod alone shows a node": (
        lambda: cluster("a", "b").drop("node", "b").drop("plugin-pod", "plugin-b"), JOB, WAIT, Reason.NODES_PENDING,
        ["Verified", "LabelsMissing"]),
    "a node without a device and without pods is none of the fleet": (
        lambda: cluster("a").put("node", obj("node", {"metadata": {"name": "b", "labels": {
            "nvidia.com/gpu.present": None}}})), JOB, DONE, Reason.NOTHING_STALE, ["Verified"]),
    "one of several DaemonSets that wants a driver there is enough": (
        in_two_pools, JOB, WAIT, Reason.NODES_PENDING, ["Verified", "DriverMissing"]),
    # Which driver is settled.
    "the highest number is the newest revision, listed last": (
        lambda: cluster().only("revision", revision("old", 1), obj("revision")), JOB, DONE, Reason.NOTHING_STALE,
        ["Verified"]),
    "the highest number is the newest revision, listed first": (
        lambda: cluster().only("revision", obj("revision"), revision("old", 1)), JOB, DONE, Reason.NOTHING_STALE,
        ["Verified"]),
    "a former DaemonSet counts as long as one node has its pod": (
        leftover, JOB, WAIT, Reason.NOT_RENDERED, ["Verified", "NotRendered"]),
    "a current driver is no manual upgrade": (
        lambda: cluster().change("policy", patches.BY_HAND), JOB, DONE, Reason.NOTHING_STALE, ["Verified"]),
    "a state label that the upgrade controller left behind with its policy holds nothing back": (
        lambda: stale().drop("policy").change("node", labelled(state="pod-deletion-required")), JOB, WAIT,
        Reason.NO_POLICY, ["PluginStale"]),
    "a node that is lost is lost although it has no labels either": (
        lambda: stale("a", "b").change("node", labelled("b", present=None), "b").change(
            "node", not_ready_since(0), "b"), JOB, WAIT, Reason.NODES_PENDING, ["PluginStale", "NodeNotReadyBriefly"]),
    # Which plugin is fresh.
    "each plugin on an outdated driver counts": (
        lambda: with_exporter(cluster(), started=5).change("policy", patches.BY_HAND).change(
            "driver-pod", patches.OUTDATED), WITH_EXPORTER, WAIT, Reason.NODES_PENDING, ["Verified", "PluginStale"]),
    "a moment that is not known makes no container stale that has not started": (
        still_starting, MIG, WAIT, Reason.NODES_PENDING, ["PluginStarting"]),
    "a restart of the MIG manager is no reconfiguration": (
        lambda: with_mig(with_toolkit(cluster())).change(
            "provider-pod", {"status": {"conditions": conditions(900)}}, "mig-gpu-0"), BOTH, DONE,
        Reason.NOTHING_STALE, ["Verified"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_rule_decides(name: str) -> None:
    """The name of the row is the rule."""
    make, settings, phase, reason, expected = ROWS[name]
    decision, _memory = make().decide(settings)
    assert (phase, reason, expected) == (decision.phase, decision.reason, reasons(decision.statuses))


def test_a_policy_that_cannot_be_read_is_not_gone() -> None:
    """Its grace ends no run, even if every node is verified."""
    run = Run(cluster().only("policy", obj("policy", {"metadata": {"uid": 7}})))
    decisions = [run.look(seconds) for seconds in (0, 121, 900)]
    assert [(WAIT, Reason.MALFORMED_OBJECT)] * 3 == [(decision.phase, decision.reason) for decision in decisions]


@pytest.mark.parametrize(("settings", "last"), [(Settings(expect=Expect(chart_version="v26.3.4")), WAIT), (JOB, SKIP)])
def test_a_policy_that_the_settings_expect_is_awaited_beyond_its_grace(settings: Settings, last: Phase) -> None:
    """Only a policy that was withdrawn for good ends a run while its drivers are in place."""
    run = Run(cluster(), settings)
    assert [DONE] == run.phases(0)
    run.found.drop("policy")
    assert [WAIT, WAIT, last] == run.phases(10, 129, 131)


def test_a_proof_outlasts_those_of_other_pods() -> None:
    """What is recorded for one pod in a later decision takes nothing away from the pods before."""
    run = Run(cluster("a", "b").change("driver-pod", {"status": {"conditions": conditions(None)}}, "driver-b"))
    run.found.put("plugin-pod", plugin_pod("a", waited=None), plugin_pod("b", waited=None, started=200))
    assert ["Verified", "DriverNotReady"] == reasons(run.look().statuses)
    run.found.put("driver-pod", driver_pod("b"))
    assert ["Verified", "Verified"] == reasons(run.look(5).statuses)
    for node in "ab":
        run.found.put("driver-pod", driver_pod(node, ready=3000))
    assert ["Verified", "Verified"] == reasons(run.look(10).statuses)


def test_a_fresh_plugin_that_is_not_ready_is_proven_all_the_same() -> None:
    """The times of its driver may have moved by the time it is."""
    run = Run(cluster().put("plugin-pod", merged(plugin_pod(waited=None), patches.NOT_READY)))
    assert ["PluginNotReady"] == reasons(run.look().statuses)
    run.found.put("driver-pod", driver_pod(ready=3000)).put("plugin-pod", plugin_pod(waited=None))
    assert ["Verified"] == reasons(run.look(5).statuses)


def test_a_plugin_that_was_verified_does_not_vouch_for_another_one_of_its_node() -> None:
    """The other one was restarted and is not verified when the driver reloads, so it backs off alone."""
    run = Run(second_plugin(stale(), -499), TWO_PLUGINS)
    assert ["gpu-0", "gpu-0"] == deleted(run.act())
    run.found.put("plugin-pod", named(plugin_pod(), "next")).drop("plugin-pod", "plugin-gpu-0")
    second_plugin(run.found.drop("plugin-pod", "second"), None)
    run.found.change("plugin-pod", {"metadata": {"uid": "second-next"}}, "second")
    assert ["Verified", "PluginStarting"] == reasons(run.look(10).statuses)
    run.found.put("driver-pod", driver_pod(started=3620, ready=3640, restarts=1))
    run.found.change("plugin-pod", {"status": {"containerStatuses": plugin_pod()["status"]["containerStatuses"]}})
    assert ["PluginStale", "RestartBackedOff"] == reasons(run.look(50).statuses)


def test_a_node_that_waits_for_its_driver_counts_for_the_share() -> None:
    """It wants a plugin: a quarter of five nodes are two plugins, a quarter of four are one."""
    found = stale(*"abcde").change("driver-pod", patches.NOT_READY, "driver-e")
    assert ["a", "b"] == deleted(Run(found, down("25%")).look())


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"version": "580.126.20"}, Reason.NOTHING_STALE),
        ({"version": None}, Reason.OPERATOR_SETTLING),
    ],
)
def test_one_driver_that_cannot_be_compared_makes_the_quiet_time_longer(image: Object, expected: Reason) -> None:
    """The operator may not have rendered it, although the images of the other pools show that it works."""
    found = pooled(Pool("a", ("a",)), Pool("b", ("b",))).change("pool", {"spec": image}, "b")
    found.change("revision", {"metadata": {"creationTimestamp": stamp(3600 - 20)}})
    assert expected is found.decide()[0].reason


def test_excluded_nodes_are_none_of_those_that_are_verified() -> None:
    """Neither of the nodes that are, nor of all."""
    found = cluster("a", "b", "c").change("node", labelled("c", skip="true"), "c").drop("driver-pod", "driver-b")
    assert found.decide()[0].message.startswith("1 of 2 nodes verified;")


def test_a_run_whose_plugins_publish_devices_in_part_is_not_verified_by_readiness_alone() -> None:
    """One of them that publishes shows the version of the driver."""
    found = second_plugin(cluster(), R + 6)
    found.change("daemonset", patches.running("plugin:1", "compute-domains"), "second")
    decision, _memory = found.decide(Settings(plugin=Plugin(names=(PLUGIN, "second"))))
    assert (DONE, False) == (decision.phase, "no devices are published" in decision.message)


@pytest.mark.parametrize(
    ("successor", "expected"),
    [
        (None, []),
        (merged(plugin_pod("a"), patches.DELETING), []),
        (plugin_pod("a"), ["b"]),
    ],
)
def test_a_restarted_plugin_is_awaited_among_others_until_a_live_successor_is_ready(
    successor: Object | None, expected: list[str]
) -> None:
    """Its node only says that its driver reloads. The other driver client there was not restarted."""
    run = Run(with_exporter(stale("a", "b")), structs.replace(WITH_EXPORTER, max_parallel_restarts=1)).record("a")
    reloads = with_exporter(stale("a", "b")).change("driver-pod", patches.NOT_READY, "driver-a")
    reloads.drop("plugin-pod", "plugin-a").put(
        "plugin-pod", *([named(successor, "plugin-a", uid="next")] if successor else [])
    )
    assert expected == deleted(run.then(reloads).look())


def test_a_plugin_is_refreshed_although_the_other_one_of_its_node_cannot_start() -> None:
    """The run fails after that, with the one that does not start."""
    run = Run(second_plugin(stale(), None), Settings(plugin=Plugin(names=(PLUGIN, "second"))))
    assert ["plugin-gpu-0"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod(), "next"))
    assert [WAIT, WAIT, Phase.FAIL] == run.phases(10, 299, 300)
    assert ["Verified", "PluginStarting"] == reasons(run.look(300).statuses)
