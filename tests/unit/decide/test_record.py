"""What a process remembers between two decisions: restarts, proofs, grace periods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.settings import Advanced, ControllerSettings, Duration, Plugin, Settings
from tests.fixtures.cluster import Cluster, cluster, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import avoiding
from tests.fixtures.objects import Object, R, driver_pod, merged, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import PLUGIN, Run, deleted, flapped, moment, named, pods, second_plugin, successor

MANUAL = "ManualUpgrade"
WAIT, FAIL, DONE = Phase.WAIT, Phase.FAIL, Phase.DONE
TWO_PLUGINS = structs.replace(FOLLOWING, plugin=Plugin(names=(PLUGIN, "second")))
ORPHAN = named(stale_plugin(), "orphan", ownerReferences=[])
DENIED = "ValidatingAdmissionPolicy 'frozen' denied the request: not on Fridays"


def never_verified(settings: Settings = FOLLOWING) -> Run:
    """Return a run that restarted a plugin at the first moment. Its driver reloads before the new pod is verified."""
    run = Run(stale(), settings)
    run.act()
    another_driver(run.found, 1).only("plugin-pod", successor(1))
    return run


def another_driver(found: Cluster, number: int) -> Cluster:
    """Let the driver's container restart in its pod."""
    ran = [running("nvidia-driver-ctr", 60, restarts=number)]
    return found.change("driver-pod", {"status": {"containerStatuses": ran}})


BOTH = pytest.mark.parametrize("settings", [Settings(), FOLLOWING], ids=["job", "controller"])


@BOTH
def test_a_restart_that_no_watch_shows_is_asked_for_again_after_half_a_minute(settings: Settings) -> None:
    """Until then the pod is restarting. There is nothing to back off from, also under another load."""
    run = Run(stale(), settings)
    run.act()
    held = run.look(29)
    assert ((), NodeState.RESTARTING) == (held.actions, held.statuses[0].state)
    another_driver(run.found, 1)
    for seconds in (29, 30, 60):
        run.act(seconds)
    assert [0, 30, 60] == [seconds for seconds, _node in run.restarted]
    assert [1] == [record.tries for record in run.memory.records.values()]


@BOTH
def test_a_plugin_is_restarted_once_under_one_load(settings: Settings) -> None:
    """The pod that comes after it is fresh, whatever its times. After a reload of the driver it is restarted again."""
    run = Run(stale(), settings)
    run.act()
    run.found.only("plugin-pod", successor(1))
    decision = run.look(40)
    assert (Phase.DONE, Reason.REFRESHED, ()) == (decision.phase, decision.reason, decision.actions)
    another_driver(run.found, 1)
    assert ["gpu-0"] == deleted(run.look(45))


@pytest.mark.parametrize("patch", [{}, patches.OUTDATED], ids=["current", "outdated by hand"])
@BOTH
def test_a_verified_plugin_stays_verified_while_its_driver_container_runs(patch: Object, settings: Settings) -> None:
    """Times that move prove nothing: neither those of the driver nor those of the plugin."""
    run = Run(cluster().change("policy", patches.BY_HAND if patch else {}), settings)
    run.found.change("driver-pod", patch).put("plugin-pod", plugin_pod(waited=None))
    run.look()
    # A side container that crashes moves ContainersReady, again and again, while the driver runs.
    for moved in (driver_pod(started=3000, ready=3070), flapped(driver_pod(ready=900), 895)):
        run.found.only("driver-pod", merged(moved, patch))
        assert Phase.DONE is run.look(60).phase
    run.found.only("plugin-pod", named(stale_plugin(), "plugin-gpu-0", uid="plugin-gpu-0-uid"))
    assert Phase.DONE is run.look(120).phase
    assert ["PluginStale"] == reasons(Run(run.found, settings).look(120).statuses), "another process does not know"


def test_a_proof_outlasts_those_of_other_pods() -> None:
    """What is recorded for one pod in a later decision takes nothing away from the pods before."""
    run = Run(cluster("a", "b").change("driver-pod", patches.NOT_READY, "driver-b"))
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


def test_the_history_of_a_node_or_plugin_ends_with_it() -> None:
    """A node was created again under its name, or the plugin's DaemonSet was: the next restart is a first one."""
    run = Run(stale()).record("gpu-0")
    other = named(stale_plugin(), "other")
    node = cluster().only("driver-pod", named(driver_pod(), "other-driver")).only("plugin-pod", other)
    owned = named(other, "other", ownerReferences=[{"kind": "DaemonSet", "uid": "again", "controller": True}])
    daemonset = cluster().change("daemonset", "metadata: {uid: again}", PLUGIN).only("plugin-pod", owned)
    for found in (node, daemonset):
        assert ["other"] == pods(run.then(found).look())


def without(node: str) -> Cluster:
    """Return a verified cluster whose plugin wants no pod on a node, and has none there."""
    gone = cluster("a", "b").drop("plugin-pod", f"plugin-{node}")
    return gone.change("daemonset", avoiding(node), PLUGIN)


def test_a_plugin_that_was_restarted_must_come_back() -> None:
    """Also if its DaemonSet wants no pod there since then. Another node, or one where it was back, needs none."""
    run = Run(stale("a", "b")).record("a")
    assert ["Verified", "NothingToRefresh"] == reasons(run.then(without("b")).look().statuses)
    missing = run.then(without("a"))
    (first, _second) = missing.look(5).statuses
    assert (Reason.PLUGIN_MISSING, f"nvidia-dra-driver-gpu/{PLUGIN}") == (first.reason, first.subject)
    assert [WAIT, FAIL] == missing.phases(304, 305)
    back = run.then(cluster("a", "b"))
    back.look(20)
    assert ["NothingToRefresh", "Verified"] == reasons(back.then(without("a")).look(40).statuses)
    refused = Run(stale("a", "b")).record("a", refused=DENIED)
    assert ["NothingToRefresh", "Verified"] == reasons(refused.then(without("a")).look(5).statuses)


SHORT_PAUSES = Advanced(restart_backoff=Duration(seconds=10), restart_backoff_max=Duration(seconds=30))


@pytest.mark.parametrize(
    ("settings", "pauses"),
    [
        (FOLLOWING, (60, 120, 240, 480, 960, 1920, 3600, 3600)),
        (structs.replace(FOLLOWING, advanced=SHORT_PAUSES), (10, 20, 30, 30)),
    ],
)
def test_the_pauses_double_up_to_a_limit(
    settings: ControllerSettings, pauses: tuple[int, int, int, int, int, int, int, int] | tuple[int, int, int, int]
) -> None:
    """The first restart is immediate. Both settings of the pauses count, after many years of tries, too."""
    run, seconds = never_verified(settings), 0
    for number, pause in enumerate(pauses, start=2):
        assert () == run.look(seconds + pause - 1).actions, pause
        seconds += pause
        assert 1 == len(run.act(seconds).actions), pause
        another_driver(run.found, number).only("plugin-pod", successor(number))


def test_the_pause_has_a_limit_after_many_years_of_tries() -> None:
    """It is a number all the same."""
    run = never_verified()
    ((key, record),) = run.memory.records.items()
    run.memory = replace(run.memory, records={key: replace(record, tries=10**9)})
    assert () == run.look(3599).actions
    assert ["PluginStale"] == reasons(run.look(3600).statuses)


def test_a_plugin_waits_unless_it_was_verified_and_its_driver_reloaded_since() -> None:
    """A driver that reloads again and again does not take a plugin down each time that was never verified."""
    run = never_verified()
    held = run.look(59)
    (status,) = held.statuses
    assert (NodeState.STALE, Reason.RESTART_BACKED_OFF, ()) == (status.state, status.reason, held.actions)
    assert Phase.WAIT is held.phase
    # A new leader has an empty history: one more restart at most.
    assert 1 == len(Run(run.found, FOLLOWING).look().actions)
    run.found.only("plugin-pod", plugin_pod())
    assert Phase.DONE is run.look(200).phase


@pytest.mark.parametrize(
    ("patch", "refused", "verified"), [({}, "", "Verified"), ({}, "no", "Verified"), (patches.OUTDATED, "", MANUAL)]
)
def test_a_verified_plugin_is_restarted_at_once_after_a_reload(patch: Object, refused: str, verified: str) -> None:
    """The restart before it helped, or other hands did; also on an outdated driver that no controller replaces."""
    found = stale().change("policy", patches.BY_HAND if patch else "{}").change("driver-pod", patch)
    run = Run(found, FOLLOWING)
    run.act(0, refused)
    run.found.only("plugin-pod", plugin_pod())
    assert [verified] == reasons(run.act(5).statuses)
    for number, seconds in ((1, 10), (2, 20)):
        another_driver(run.found, number).only("plugin-pod", successor(number))
        run.act(seconds)
        assert [1] == [record.tries for record in run.memory.records.values()], (refused, seconds)
        run.found.only("plugin-pod", named(plugin_pod(), f"next-{number}"))
        assert [verified] == reasons(run.act(seconds + 5).statuses)
    assert [(0, "gpu-0"), (10, "gpu-0"), (20, "gpu-0")] == run.restarted


def test_a_job_does_not_ask_again_after_a_refusal() -> None:
    """An admission policy decides by rules that do not change. The others are refreshed, then the run fails."""
    run = Run(stale("a", "b")).record("a", refused=DENIED)
    for seconds in (1, 60):
        decision = run.look(seconds)
        assert (Phase.WAIT, ["b"]) == (decision.phase, deleted(decision))
        assert ["RestartRefused", "PluginStale"] == reasons(decision.statuses)
        assert (NodeState.FAILED, True) == (decision.statuses[0].state, DENIED in decision.statuses[0].message)
    end = run.then(stale("a", "b").put("plugin-pod", plugin_pod("b"))).look(5)
    assert (Phase.FAIL, Reason.RESTART_REFUSED, True) == (end.phase, end.reason, DENIED in end.message)


def test_the_controller_asks_again_after_a_refusal() -> None:
    """The policy may have changed; the deletion counts as a restart that did not help."""
    run = Run(stale(), FOLLOWING)
    run.act(0, refused="not on a Friday")
    held = run.look(59)
    (status,) = held.statuses
    assert (NodeState.FAILED, Reason.RESTART_REFUSED, ()) == (status.state, status.reason, held.actions)
    run.act(60, refused="nor on a Saturday")
    assert ["RestartRefused"] == reasons(run.look(179).statuses)
    run.memory = run.memory.troubled(run.look(180).actions[0], moment(180), "no answer")  # This is no try.
    run.act(180)
    assert [3] == [record.tries for record in run.memory.records.values()]
    assert ["PluginRestarting"] == reasons(run.look(181).statuses)
    # Another load is another reason to restart, also for a Job.
    refused = Run(stale("a")).record("a", refused=DENIED)
    assert ["a"] == deleted(refused.then(stale("a").change("driver-pod", "metadata: {uid: next}")).look(5))


def test_a_restart_that_failed_is_tried_again_after_the_others() -> None:
    """A webhook is out of reach: each try takes seconds, so the last failure comes last, and the message names it."""
    run = Run(stale("a", "b", "c").put("driver-pod", driver_pod("a", ready=R - 20)))
    trouble = {action.node: action for action in run.look().actions}
    for seconds, node in enumerate("ab"):
        run.memory = run.memory.troubled(trouble[node], moment(seconds), "no answer")
    decision = run.look(5)
    assert ["c", "a", "b"] == deleted(decision)
    assert [True, True, False] == ["no answer" in status.message for status in decision.statuses]
    run.memory = run.memory.troubled(trouble["a"], moment(6), "still none")
    assert ["c", "b", "a"] == deleted(run.look(5))


def test_a_deletion_that_fails_every_time_fails_the_run() -> None:
    """More time does not help. It is tried again all the same. What waits for its turn does not fail by that."""
    run = Run(stale("a", "b"))
    run.memory = run.memory.troubled(run.look().actions[0], moment(0), "failed calling webhook")
    run.look(5)
    run.found.put("plugin-pod", plugin_pod("b"))
    assert (WAIT, ["a"]) == ((late := run.look(304)).phase, deleted(late))
    last = run.look(305)
    assert (FAIL, Reason.RESTART_FAILING, True) == (last.phase, last.reason, "failed calling webhook" in last.message)
    one = Run(stale("a", "b"), Settings(max_parallel_restarts=1), run.memory)
    one.found.change("plugin-pod", patches.DELETING, "plugin-b")
    assert [Reason.PLUGIN_QUEUED] * 2 == [one.look(seconds).statuses[0].reason for seconds in (310, 609)]


@BOTH
def test_two_stale_pods_on_one_node_are_restarted_one_after_the_other(settings: Settings) -> None:
    """The second one ran next to the first, so it did not replace the first one. The pod that did stays fresh."""
    run = Run(stale().only("plugin-pod", ORPHAN, stale_plugin()), settings)
    assert ["orphan"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod(waited=None, started=R), "successor"))
    assert ["plugin-gpu-0"] == run.restart()
    assert [1] == [record.tries for record in run.memory.records.values()]
    assert NodeState.VERIFIED is run.look().statuses[0].state


def test_an_orphan_that_a_daemonset_adopts_is_restarted_although_it_was_refused_before() -> None:
    """The admission policy of the chart knows plugins by the name of their DaemonSet, so it refuses an orphan."""
    run = Run(cluster().only("plugin-pod", ORPHAN))
    run.act(refused="not a pod of a named DaemonSet")
    refused = run.look()
    assert (["RestartFailing"], ["gpu-0"]) == (reasons(refused.statuses), deleted(refused))
    adopted: Object = {"metadata": {"ownerReferences": stale_plugin()["metadata"]["ownerReferences"]}}
    run.found.change("plugin-pod", adopted)
    assert ["gpu-0"] == deleted(run.look())


def test_a_restart_that_failed_is_none_and_is_about_its_pod_alone() -> None:
    """Another hand replaced the pod. Neither is it counted, nor does its trouble concern the next pod."""
    run = Run(stale())
    (action,) = run.look().actions
    run.memory = run.memory.troubled(action, run.memory.started, "no answer")
    assert ["RestartFailing"] == reasons(run.look(5).statuses)
    run.found.only("plugin-pod", successor(1))
    assert ["PluginStale"] == reasons(run.look(10).statuses)
    run.found.only("plugin-pod", named(plugin_pod(), "next"))
    assert Reason.NOTHING_STALE is run.look(20).reason


def test_a_plugin_that_is_fresh_but_never_ready_was_never_verified() -> None:
    """So the next reload of its driver finds it in its backoff."""
    run = Run(stale(), FOLLOWING)
    run.act()
    run.found.only("plugin-pod", named(plugin_pod(ready=None), "next"))
    assert ["PluginNotReady"] == reasons(run.look(10).statuses)
    another_driver(run.found, 1).only("plugin-pod", named(stale_plugin(), "next"))
    assert ["RestartBackedOff"] == reasons(run.look(20).statuses)


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
