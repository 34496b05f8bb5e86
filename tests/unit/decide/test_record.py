"""Records of restarts: none is asked for twice, and one that verified no plugin is repeated more and more rarely."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.settings import Advanced, ControllerSettings, Duration, Settings
from tests.fixtures.cluster import Cluster, cluster, reasons, stale, stale_plugin
from tests.fixtures.following import Controller, moment, successor
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import avoiding, with_toolkit
from tests.fixtures.objects import Object, R, conditions, driver_pod, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import PLUGIN, TOOLKIT, Run, deleted, named, pods

MANUAL = "ManualUpgrade"
ORPHAN = named(stale_plugin(), "orphan", ownerReferences=[])
DENIED = "ValidatingAdmissionPolicy 'frozen' denied the request: not on Fridays"


def controller(found: Cluster | None = None, settings: Settings = FOLLOWING) -> Run:
    """Return a controller that runs on a cluster."""
    return Run(found or stale(), settings)


def never_verified(settings: Settings = FOLLOWING) -> Run:
    """Return a run that restarted a plugin at the first moment. Its driver reloads before the new pod is verified."""
    run = controller(settings=settings)
    run.act()
    another_driver(run.found, 1).only("plugin-pod", successor(1))
    return run


def another_driver(found: Cluster, number: int) -> Cluster:
    """Let the driver's container restart in its pod."""
    ran = [running("nvidia-driver-ctr", 60, restarts=number)]
    return found.change("driver-pod", {"status": {"containerStatuses": ran}})


def test_a_restart_is_not_asked_for_twice_within_half_a_minute() -> None:
    """The pod is restarting until its deletion is seen; one that is not seen for half a minute did not happen."""
    run = Run(stale())
    run.act()
    held = run.look(29)
    assert ((), NodeState.RESTARTING) == (held.actions, held.statuses[0].state)
    assert ["gpu-0"] == deleted(run.look(30))
    # Nothing was restarted yet, so there is nothing to back off from, also under another load.
    run = controller()
    run.act()
    assert ["PluginRestarting"] == reasons(run.look(29).statuses)
    another_driver(run.found, 1)
    for seconds in (29, 30, 60):
        run.act(seconds)
    assert [0, 30, 60] == [seconds for seconds, _node in run.restarted]
    assert [1] == [record.tries for record in run.memory.records.values()]


def test_a_plugin_is_restarted_once_under_one_load() -> None:
    """The pod that comes after it is fresh, whatever its times. After a reload of the driver it is restarted again."""
    for settings in (Settings(), FOLLOWING):
        run = controller(settings=settings)
        run.act()
        run.found.only("plugin-pod", successor(1))
        decision = run.look(40)
        assert (Phase.DONE, Reason.REFRESHED, ()) == (decision.phase, decision.reason, decision.actions)
        another_driver(run.found, 1)
        assert ["gpu-0"] == deleted(run.look(45))
    decision = Run(stale()).look(3600)  # after the deadline
    assert (Phase.DEADLINE, ()) == (decision.phase, decision.actions)


def test_a_verified_plugin_stays_verified_while_its_driver_container_runs() -> None:
    """Times that move prove nothing: neither those of the driver nor those of the plugin."""
    for settings in (Settings(), FOLLOWING):
        run = controller(cluster(), settings)
        run.look()
        moved = driver_pod(started=3000, ready=3070)
        for pod in (moved, driver_pod(started=0, ready=R)):
            run.found.only("driver-pod", pod)
            assert Phase.DONE is run.look(60).phase
        run.found.only("plugin-pod", named(stale_plugin(), "plugin-gpu-0", uid="plugin-gpu-0-uid"))
        assert Phase.DONE is run.look(120).phase
        assert ["PluginStale"] == reasons(Run(run.found, settings).look(120).statuses), "another process does not know"


def test_the_history_of_a_node_or_plugin_ends_with_it() -> None:
    """A node was created again under its name, or the plugin's DaemonSet was: the next restart is a first one."""
    run = Run(stale()).record("gpu-0")
    other = named(stale_plugin(), "other")
    node = cluster().only("driver-pod", named(driver_pod(), "other-driver")).only("plugin-pod", other)
    owned = named(other, "other", ownerReferences=[{"kind": "DaemonSet", "uid": "again", "controller": True}])
    daemonset = cluster().change("daemonset", "metadata: {uid: again}", PLUGIN).only("plugin-pod", owned)
    for found in (node, daemonset):
        assert ["other"] == pods(run.then(found).look())


def test_each_restart_of_the_toolkit_is_another_run() -> None:
    """The restart that each run needs is the first one under it, for a Job and for the controller."""
    for settings in (TOOLKIT, ControllerSettings(refresh_after=("toolkit",))):
        run = Run(with_toolkit(cluster()), settings)
        run.look()
        for count in (1, 2, 3):
            began = 1000 * count
            ran = [running("nvidia-container-toolkit-ctr", began, restarts=count, ended_before=began - 9)]
            status: Object = {"status": {"containerStatuses": ran, "conditions": conditions(began + 3)}}
            run.found.change("provider-pod", status)
            if count == 3:
                run.found.only("provider-pod", named(run.found.of("provider-pod")[0], "another-pod"))
            assert 1 == len(run.restart(60 * count))
            assert [1] == [record.tries for record in run.memory.records.values()]
            fresh = plugin_pod(waited=began + 60, started=began + 61, ready=began + 65)
            run.found.put("plugin-pod", named(fresh, f"next-{count}"))
            assert ["Verified"] == reasons(run.look(60 * count).statuses)


def test_a_plugin_that_was_restarted_must_come_back() -> None:
    """Also if its DaemonSet wants no pod there since then, as long as its node is there."""

    def without(node: str) -> Cluster:
        gone = cluster("a", "b").drop("plugin-pod", f"plugin-{node}")
        return gone.change("daemonset", avoiding(node), PLUGIN)

    run = Run(stale("a", "b")).record("a")
    assert ["Verified", "NothingToRefresh"] == reasons(run.then(without("b")).look().statuses)
    missing = run.then(without("a"))
    assert ["PluginMissing", "Verified"] == reasons(missing.look(5).statuses)
    assert f"nvidia-dra-driver-gpu/{PLUGIN}" == missing.look(5).statuses[0].subject
    assert [Phase.WAIT, Phase.FAIL] == missing.phases(304, 305)
    failed = missing.look(305)
    assert (Reason.PLUGIN_MISSING, NodeState.FAILED) == (failed.reason, failed.statuses[0].state)
    back = run.then(cluster("a", "b"))
    back.look(20)
    assert ["NothingToRefresh", "Verified"] == reasons(back.then(without("a")).look(40).statuses)
    refused = Run(stale("a", "b")).record("a", refused=DENIED)
    assert ["NothingToRefresh", "Verified"] == reasons(refused.then(without("a")).look(5).statuses)


def test_the_pauses_double_up_to_a_limit() -> None:
    """The first restart is immediate. Both settings of the pauses count, after many years of tries, too."""
    times = Advanced(restart_backoff=Duration(seconds=10), restart_backoff_max=Duration(seconds=30))
    for settings, pauses in (
        (FOLLOWING, (60, 120, 240, 480, 960, 1920, 3600, 3600)),
        (structs.replace(FOLLOWING, advanced=times), (10, 20, 30, 30)),
    ):
        run, moment = never_verified(settings), 0
        for number, pause in enumerate(pauses, start=2):
            assert () == run.look(moment + pause - 1).actions, pause
            moment += pause
            assert 1 == len(run.act(moment).actions), pause
            another_driver(run.found, number).only("plugin-pod", successor(number))
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
    assert 1 == len(Controller(run.found).look().actions)
    due = run.act(60)
    assert (NodeState.STALE, 1) == (due.statuses[0].state, len(due.actions))
    another_driver(run.found, 2).only("plugin-pod", successor(2))
    assert ["RestartBackedOff"] == reasons(run.look(179).statuses)
    assert 1 == len(run.look(180).actions)
    run.found.only("plugin-pod", plugin_pod())
    assert Phase.DONE is run.look(200).phase


def test_a_verified_plugin_is_restarted_at_once_after_a_reload() -> None:
    """The restart before it helped, or other hands did; also on an outdated driver that no controller replaces."""
    for patch, refused, verified in (({}, "", "Verified"), ({}, "no", "Verified"), (patches.OUTDATED, "", MANUAL)):
        run = controller(stale().change("policy", patches.BY_HAND if patch else "{}").change("driver-pod", patch))
        run.act(0, refused)
        run.found.only("plugin-pod", plugin_pod())
        assert [verified] == reasons(run.act(5).statuses)
        for number, seconds in ((1, 10), (2, 20)):
            another_driver(run.found, number).only("plugin-pod", successor(number))
            run.act(seconds)
            assert [1] == [record.tries for record in run.memory.records.values()], (refused, seconds)
            run.found.only("plugin-pod", named(plugin_pod(), f"next-{number}"))
            assert [verified] == reasons(run.act(seconds + 5).statuses)
        assert [(0, "gpu-0"), (10, "gpu-0"), (20, "gpu-0")] == run.restarted, refused


def test_a_node_that_backs_off_does_not_delay_the_others() -> None:
    """They are refreshed meanwhile."""
    run = controller(stale("a", "b"))
    run.act()
    run.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    run.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b"))
    assert ["RestartBackedOff", "Verified"] == reasons(run.look(59).statuses)
    run.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b", restarts=1, started=10, ready=80))
    run.found.only("plugin-pod", successor(1, "a"), successor(1, "b"))
    assert ["b"] == deleted(run.look(59.5))


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
    run = controller()
    run.act(0, refused="not on a Friday")
    held = run.look(59)
    (status,) = held.statuses
    assert (NodeState.FAILED, Reason.RESTART_REFUSED, ()) == (status.state, status.reason, held.actions)
    run.act(60, refused="nor on a Saturday")
    assert ["RestartRefused"] == reasons(run.look(179).statuses)
    run.act(180)
    assert [3] == [record.tries for record in run.memory.records.values()]
    assert ["PluginRestarting"] == reasons(run.look(181).statuses)
    # Another load is another reason to restart, also for a Job.
    refused = Run(stale("a")).record("a", refused=DENIED)
    assert ["a"] == deleted(refused.then(stale("a").change("driver-pod", "metadata: {uid: next}")).look(5))


def test_a_restart_that_failed_is_tried_again_after_the_others() -> None:
    """A webhook is out of reach: each try takes seconds, so the last failure comes last, and the message names it."""
    run = Run(stale("a", "b", "c").put("driver-pod", driver_pod("a", ready=R - 20)))
    trouble = {action.node: action.pod for action in run.look().actions if isinstance(action, DeletePod)}
    for seconds, node in enumerate("ab"):
        run.memory = run.memory.troubled(node, trouble[node], moment(seconds), "no answer")
    decision = run.look(5)
    assert ["c", "a", "b"] == deleted(decision)
    assert [True, True, False] == ["no answer" in status.message for status in decision.statuses]
    run.memory = run.memory.troubled("a", trouble["a"], moment(6), "still none")
    assert ["c", "b", "a"] == deleted(run.look(5))


def test_two_stale_pods_on_one_node_are_restarted_one_after_the_other() -> None:
    """The second one ran next to the first, so it did not replace the first one."""
    for settings in (Settings(), FOLLOWING):
        run = Run(stale().only("plugin-pod", ORPHAN, stale_plugin()), settings)
        assert [["orphan"], ["plugin-gpu-0"]] == [run.restart(), run.restart()]
        assert [1] == [record.tries for record in run.memory.records.values()]
        run.found.put("plugin-pod", successor(1))
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
    run.memory = run.memory.troubled("gpu-0", action.pod, run.memory.started, "no answer")
    assert ["RestartFailing"] == reasons(run.look(5).statuses)
    run.found.only("plugin-pod", successor(1))
    assert ["PluginStale"] == reasons(run.look(10).statuses)
    run.found.only("plugin-pod", named(plugin_pod(), "next"))
    assert Reason.NOTHING_STALE is run.look(20).reason


def test_a_plugin_that_is_fresh_but_never_ready_was_never_verified() -> None:
    """So the next reload of its driver finds it in its backoff."""
    run = controller()
    run.act()
    run.found.only("plugin-pod", named(plugin_pod(ready=None), "next"))
    assert ["PluginNotReady"] == reasons(run.look(10).statuses)
    another_driver(run.found, 1).only("plugin-pod", named(stale_plugin(), "next"))
    assert ["RestartBackedOff"] == reasons(run.look(20).statuses)


def test_the_deletion_of_an_orphan_is_not_asked_for_twice_either() -> None:
    """Until it is seen, or did not happen. Only if it is refused, the next try need not wait."""
    for refused, expected in (("", []), ("not a pod of a named DaemonSet", ["gpu-0"])):
        run = Run(cluster().only("plugin-pod", ORPHAN))
        run.act(refused=refused)
        assert expected == deleted(run.look(5)), refused
