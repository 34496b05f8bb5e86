"""Accidents in the middle of an upgrade: what else happens to a cluster while the program refreshes plugins."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.settings import Expect, Plugin, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING, down
from tests.fixtures.modes import Pool, owner, pooled
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, plugin_pod, stamp
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, PLUGIN, Run, deleted, named

BOTH = pytest.mark.parametrize("settings", [Settings(), FOLLOWING], ids=["job", "controller"])
RENDERED_AGAIN: Object = {
    "metadata": {"generation": 3},
    "spec": {"template": {"metadata": {"labels": {"helm.sh/chart": "gpu-operator-v26.7.1"}}}},
    "status": {"observedGeneration": 3},
}


def revision(name: str, number: int, **metadata: object) -> Object:
    """Return a revision of the driver's DaemonSet that was created before the run."""
    labels = {"controller-revision-hash": name}
    created = {"name": name, "labels": labels, "creationTimestamp": stamp(3000), **metadata}
    return obj("revision", {"metadata": created, "revision": number})


def of_revision(pod: Object, name: str) -> Object:
    """Return a driver pod of a revision, under a UID of its own."""
    metadata = {"uid": f"{pod['metadata']['name']}-{name}", "labels": {"controller-revision-hash": name}}
    whole: Object = merged(pod, {"metadata": metadata})
    return whole


# Nodes.


@BOTH
def test_a_node_that_comes_back_as_another_one_starts_anew(settings: Settings) -> None:
    """It was removed and installed again under its name while its plugin was restarted. No backoff is left over."""
    run = Run(stale("a", "b"), settings)
    assert ["plugin-a", "plugin-b"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod("a"), "next-a")).drop("node", "b").drop("driver-pod", "driver-b")
    assert (Phase.DONE, ["Verified"]) == ((gone := run.look(20)).phase, reasons(gone.statuses))
    run.found.put("node", obj("node", {"metadata": {"name": "b", "creationTimestamp": stamp(3630)}}))
    run.found.put("driver-pod", named(driver_pod("b", started=3640, ready=None), "again-b"))
    run.found.put("plugin-pod", named(plugin_pod("b", waited=None, started=3650, ready=None), "next-b"))
    assert ["Verified", "DriverNotReady"] == reasons(run.look(55).statuses)
    run.found.put("driver-pod", named(driver_pod("b", started=3640, ready=3657), "again-b"))
    assert ["b"] == deleted(run.look(59))


@pytest.mark.parametrize(
    ("waited", "started", "expected"), [(3655, 3656, "Verified"), (None, 3656, "PluginStale"), (None, 3661, "Verified")]
)
@BOTH
def test_a_reboot_while_a_plugin_is_restarted_asks_for_another_proof(
    waited: int | None, started: int, expected: str, settings: Settings
) -> None:
    """The new pod came after the restart, but its containers start again with another load of the driver."""
    run = Run(stale(), settings)
    assert ["plugin-gpu-0"] == run.restart()
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=3604, ready=None), "next"))
    assert ["PluginNotReady"] == reasons(run.look(5).statuses)
    rebooted = {"started": 3620, "unloaded": 3618, "ended_before": 3610, "restarts": 1}
    run.found.put("driver-pod", driver_pod(ready=None, **rebooted))  # type: ignore[arg-type]
    assert ["DriverNotReady"] == reasons(run.look(25).statuses)
    run.found.put("driver-pod", driver_pod(ready=3660, **rebooted))  # type: ignore[arg-type]
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=started), "next"))
    assert [expected] == reasons(run.look(70).statuses)


def test_a_node_that_stays_cordoned_is_named_while_others_wait_for_their_turn() -> None:
    """Its own plugin is refreshed. The upgrade controller counts it as unavailable, so the others may wait for good."""
    found = stale("a", "b").change("node", {"spec": {"unschedulable": True}}, "a")
    found.change("node", labelled("b", state="upgrade-required"), "b").change(
        "driver-pod", patches.OUTDATED, "driver-b"
    )
    run = Run(found)
    assert ["plugin-a"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod("a"), "next-a"))
    for seconds, phase in ((10, Phase.WAIT), (1470, Phase.DEADLINE)):
        decision = run.look(seconds)
        assert (phase, ["Verified", "DriverOutdated"]) == (decision.phase, reasons(decision.statuses))
        assert ("cordoned, and so counted against the policy's maxUnavailable: a",) == decision.warnings


def test_an_upgrade_label_that_stays_failed_after_a_repair_needs_manual_action() -> None:
    """A failed upgrade keeps the run from its end, but it keeps no plugin stale, whatever the driver does next."""
    repaired = cluster("a", "b").change("node", labelled("b", state="upgrade-failed"), "b")
    run = Run(repaired, FOLLOWING)
    assert [Phase.WAIT, Phase.FAIL, Phase.FAIL] == run.phases(0, 300, 900)
    run.found.put("driver-pod", driver_pod("b", started=4510, ready=4570, restarts=1))
    reloaded = run.act(980)
    assert ["Verified", "PluginStale"] == reasons(reloaded.statuses)
    assert ["b"] == deleted(reloaded)
    run.found.change("node", labelled("b", state="upgrade-done"), "b").put("plugin-pod", named(plugin_pod("b"), "next"))
    run.found.drop("plugin-pod", "plugin-b")
    assert Phase.DONE is run.look(990).phase


# Drivers.


def test_a_driver_daemonset_may_be_replaced_under_another_name_while_plugins_restart() -> None:
    """Precompiled drivers and pools have one for each kernel. Its pods are another load, so earlier proofs are void."""
    run = Run(stale("a", "b"))
    assert ["plugin-a", "plugin-b"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod("a", waited=None, started=3603), "next-a"))
    run.found.put("plugin-pod", named(plugin_pod("b", waited=3606, started=3607), "next-b"))
    assert ["Verified", "Verified"] == reasons(run.look(9).statuses)
    owned: Object = {"ownerReferences": owner("next-ds")}
    (old,) = (each for each in run.found.of("daemonset") if each["metadata"]["name"] == DRIVER)
    run.found.drop("daemonset", DRIVER).put("daemonset", named(old, f"{DRIVER}-5.15.0", uid="next-ds"))
    run.found.put("revision", revision("next", 1, **owned)).drop("driver-pod", "driver-a")
    run.found.put("driver-pod", of_revision(merged(driver_pod("a", ready=None), {"metadata": owned}), "next"))
    assert ["DriverNotReady", "DriverOrphaned"] == reasons(run.look(12).statuses)
    for node in "ab":
        loaded = merged(driver_pod(node, started=3605, ready=3660), {"metadata": owned})
        run.found.put("driver-pod", of_revision(loaded, "next"))
    decision = run.look(70)
    assert (["PluginStale", "Verified"], ["a"]) == (reasons(decision.statuses), deleted(decision))


@BOTH
def test_a_readiness_probe_that_fails_for_a_while_makes_no_plugin_stale(settings: Settings) -> None:
    """The driver stays loaded: its container did not restart. A plugin that was stale before is restarted after it."""
    run = Run(cluster("a", "b").put("plugin-pod", plugin_pod("a", waited=None), stale_plugin("b")), settings)
    run.found.change("driver-pod", {"status": {"conditions": conditions(None)}}, "driver-b")
    assert ["Verified", "DriverNotReady"] == reasons(run.look().statuses)
    run.found.change("driver-pod", {"status": {"conditions": conditions(None)}})
    failing = run.look(10)
    assert (Phase.WAIT, ["DriverNotReady"] * 2, ()) == (failing.phase, reasons(failing.statuses), failing.actions)
    run.found.change("driver-pod", {"status": {"conditions": conditions(3615)}})
    back = run.look(20)
    assert (["Verified", "PluginStale"], ["b"]) == (reasons(back.statuses), deleted(back))


def test_a_chart_that_keeps_the_driver_version_is_proven_by_the_reload_alone() -> None:
    """The ResourceSlices show the wanted version all the time, before the reload and on a stale plugin."""
    run = Run(cluster("a", "b"), Settings(expect=Expect(chart_version="v26.7.1")))
    assert Reason.EXPECTATION_UNMET is run.look().reason
    run.found.change("policy", {"spec": {"daemonsets": {"labels": {"helm.sh/chart": "gpu-operator-v26.7.1"}}}})
    assert Reason.NOT_RENDERED is run.look(5).reason
    run.found.change("daemonset", RENDERED_AGAIN, DRIVER).put("revision", revision("next", 3))
    assert ["DriverOutdated", "DriverOutdated"] == reasons(run.look(6).statuses)
    run.found.put("driver-pod", of_revision(driver_pod("a", started=3610, ready=3670), "next"))
    decision = run.look(80)
    assert (["PluginStale", "DriverOutdated"], ["a"]) == (reasons(decision.statuses), deleted(decision))


def test_a_rollback_in_the_middle_reloads_only_the_nodes_that_were_upgraded() -> None:
    """The DaemonSet controller uses the old revision again, so the driver pod of the other node is of the newest."""
    found = cluster("a", "b").put("revision", revision("next", 3))
    found.put("driver-pod", of_revision(driver_pod("a", started=3100, ready=3170), "next"))
    run = Run(found.put("plugin-pod", plugin_pod("a", waited=3172, started=3173)))
    assert ["Verified", "DriverOutdated"] == reasons(run.look().statuses)
    run.found.change("revision", {"revision": 4}, "nvidia-driver-daemonset-new")
    assert ["DriverOutdated", "Verified"] == reasons(run.look(10).statuses)
    run.found.put("driver-pod", of_revision(driver_pod("a", started=3650, ready=3700), "new"))
    assert ["plugin-a"] == run.restart(110)
    run.found.put("plugin-pod", named(plugin_pod("a", waited=3712, started=3713), "next-a"))
    done = run.look(130)
    assert (Phase.DONE, ["Verified", "Verified"]) == (done.phase, reasons(done.statuses))


def test_upgrades_that_are_turned_off_in_the_middle_end_the_run_with_the_rest_excluded() -> None:
    """No controller replaces the outdated driver any more, whatever label it left behind."""
    found = cluster("a", "b").change("driver-pod", patches.OUTDATED, "driver-b")
    run = Run(found.change("node", labelled("b", state="drain-required"), "b"))
    assert ["Verified", "UpgradeInProgress"] == reasons(run.look().statuses)
    run.found.change("policy", patches.BY_HAND)
    done = run.look(10)
    assert (Phase.DONE, ["Verified", "ManualUpgrade"]) == (done.phase, reasons(done.statuses))


def test_a_policy_that_was_ignored_counts_once_the_older_one_is_deleted() -> None:
    """Until then it changes nothing. After that the operator renders it, and nothing is restarted before."""
    second: Object = {"metadata": {"name": "second", "creationTimestamp": "2025-07-01T08:00:00Z"}}
    second["spec"] = {"driver": {"version": "590.1.2", "upgradePolicy": {"autoUpgrade": False}}}
    run = Run(stale("a", "b").put("policy", obj("policy", {**second, "status": {"state": "ignored"}})))
    assert ["a", "b"] == deleted(run.look())
    run.found.drop("policy", "cluster-policy")
    for seconds in (10, 600):
        decision = run.look(seconds)
        assert (Phase.WAIT, Reason.NOT_RENDERED, ()) == (decision.phase, decision.reason, decision.actions), seconds


def test_a_node_that_moves_to_another_pool_is_verified_by_its_version() -> None:
    """Its driver pod is replaced by one of the other pool's DaemonSet, whose version the plugin publishes last."""
    run = Run(pooled(Pool("a", ("a",)), Pool("b", ("b",), "570.1.2")))
    assert Phase.DONE is run.look().phase
    run.found.change("driver-pod", patches.DELETING, "driver-a")
    owned: Object = {"metadata": {"ownerReferences": owner("b-ds")}}
    run.found.put("driver-pod", named(merged(driver_pod("a", ready=None), owned), "next-a"))
    assert ["DriverNotReady", "Verified"] == reasons(run.look(5).statuses)
    loaded = merged(driver_pod("a", started=3610, ready=3670), owned)
    run.found.drop("driver-pod", "driver-a").put("driver-pod", named(loaded, "next-a"))
    assert ["plugin-a"] == run.restart(75)
    run.found.put("plugin-pod", named(plugin_pod("a", waited=3680, started=3681), "next-a"))
    assert ["SliceOutdated", "Verified"] == reasons(run.look(85).statuses)
    run.found.change("slice", patches.publishing("570.1.2"), "0-gpu.nvidia.com-a")
    assert Phase.DONE is run.look(90).phase


# Plugins.


def second_plugin(found: Cluster, pod: Object) -> Cluster:
    """Add another kubelet plugin with a pod."""
    found.put("daemonset", obj("plugin-daemonset", {"metadata": {"name": "second", "uid": "second-ds"}}))
    return found.put("plugin-pod", named(pod, "second-0", ownerReferences=owner("second-ds")))


def test_a_plugin_is_refreshed_although_the_other_one_of_its_node_cannot_start() -> None:
    """The run fails after that, with the one that is Pending."""
    pending = merged(plugin_pod(ready=None), {"status": {"phase": "Pending", "containerStatuses": []}})
    run = Run(second_plugin(stale(), pending), Settings(plugin=Plugin(names=(PLUGIN, "second"))))
    assert ["plugin-gpu-0"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod(), "next"))
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == run.phases(10, 299, 300)
    (healthy, failed) = run.look(300).statuses
    assert (Reason.VERIFIED, Reason.PLUGIN_STARTING, NodeState.FAILED) == (healthy.reason, failed.reason, failed.state)
    assert "second-0" in failed.message


def test_a_plugin_whose_template_changes_with_the_driver_is_restarted_once() -> None:
    """Its DaemonSet controller may be faster. With OnDelete, the template alone makes no plugin stale."""
    found = cluster("a", "b").put("driver-pod", driver_pod("a", ready=None)).put("plugin-pod", stale_plugin("b"))
    run = Run(found.put("plugin-pod", merged(stale_plugin("a"), patches.DELETING)))
    assert ["plugin-b"] == run.restart()
    run.found.drop("plugin-pod").put("driver-pod", driver_pod("a", started=3610, ready=3670))
    run.found.put("plugin-pod", named(plugin_pod("a", waited=3660, started=3661), "next-a"))
    run.found.put("plugin-pod", named(plugin_pod("b"), "next-b"))
    assert (Phase.DONE, ()) == ((done := run.look(75)).phase, done.actions)
    changed: Object = {**patches.ON_DELETE, "metadata": {"generation": 2}, "status": {"updatedNumberScheduled": 0}}
    assert Phase.DONE is cluster().change("daemonset", changed, PLUGIN).decide()[0].phase


# Processes.


@BOTH
def test_a_process_that_begins_in_the_middle_continues_with_the_rest(settings: Settings) -> None:
    """Times prove what an earlier process refreshed."""
    half = stale("a", "b", "c", "d").put("plugin-pod", plugin_pod("a"), plugin_pod("b"))
    assert ["c", "d"] == deleted(Run(half, settings).look())


@pytest.mark.parametrize("limits", [down(1), Settings(max_parallel_restarts=1)])
def test_a_second_process_asks_for_the_restart_that_the_first_one_asked_for(
    limits: Settings,
) -> None:
    """What an earlier process deleted, and the watch still shows, is asked for again."""
    before, after = Run(stale("a", "b"), limits), Run(stale("a", "b"), limits)
    assert [["a"], ["a"]] == [deleted(before.act()), deleted(after.act(1))]


@pytest.mark.parametrize(("jump", "expected"), [(-600, []), (600, ["a"])])
@BOTH
def test_a_clock_that_jumps_restarts_nothing_twice(jump: int, expected: list[str], settings: Settings) -> None:
    """If it goes back, all grace periods become longer; if it goes forward, they end. No other pod is deleted."""
    run = Run(stale("a", "b").put("plugin-pod", plugin_pod("b")), settings)
    assert ["a"] == deleted(run.act())
    assert expected == deleted(run.look(jump)), "it is still there"
    run.found.put("plugin-pod", named(stale_plugin("a"), "plugin-a", uid="next", creationTimestamp=stamp(3602)))
    assert [] == deleted(run.look(jump + 1)), "the next one"
