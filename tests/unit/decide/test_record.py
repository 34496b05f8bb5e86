"""What a process remembers between two decisions: restarts, proofs, grace periods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.settings import Advanced, ControllerSettings, Duration, Plugin, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.following import Controller, moment, successor
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import avoiding, owner, with_exporter, with_toolkit
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, plugin_pod, running, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import (
    DRIVER,
    EXPORTER,
    JOB,
    PLUGIN,
    Run,
    deleted,
    failing,
    flapped,
    named,
    pods,
    second_plugin,
    unlabelled,
)

MANUAL = "ManualUpgrade"
WAIT, FAIL, DONE = Phase.WAIT, Phase.FAIL, Phase.DONE
TWO_PLUGINS = structs.replace(FOLLOWING, plugin=Plugin(names=(PLUGIN, "second")))
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


BOTH = pytest.mark.parametrize("settings", [Settings(), FOLLOWING], ids=["job", "controller"])


@BOTH
def test_a_restart_that_no_watch_shows_is_asked_for_again_after_half_a_minute(settings: Settings) -> None:
    """Until then the pod is restarting. There is nothing to back off from, also under another load."""
    run = controller(settings=settings)
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
    run = controller(settings=settings)
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
    run = controller(cluster().change("policy", patches.BY_HAND if patch else {}), settings)
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


@pytest.mark.parametrize(
    ("waited", "started", "expected"), [(3655, 3656, "Verified"), (None, 3656, "PluginStale"), (None, 3661, "Verified")]
)
def test_a_reboot_while_a_plugin_is_restarted_asks_for_another_proof(
    waited: int | None, started: int, expected: str
) -> None:
    """The new pod came after the restart, but its containers start again with another load of the driver."""
    run = Run(stale())
    assert ["plugin-gpu-0"] == run.restart()
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=3604, ready=None), "next"))
    assert ["PluginNotReady"] == reasons(run.look(5).statuses)
    run.found.put("driver-pod", driver_pod(started=3620, unloaded=3618, ended_before=3610, ready=3660, restarts=1))
    run.found.only("plugin-pod", named(plugin_pod(waited=waited, started=started), "next"))
    assert [expected] == reasons(run.look(70).statuses)


@pytest.mark.parametrize(("jump", "expected"), [(-600, []), (600, ["a"])])
@BOTH
def test_a_clock_that_jumps_restarts_nothing_twice(jump: int, expected: list[str], settings: Settings) -> None:
    """If it goes back, all grace periods become longer; if it goes forward, they end. No other pod is deleted."""
    run = Run(stale("a", "b").put("plugin-pod", plugin_pod("b")), settings)
    assert ["a"] == deleted(run.act())
    assert expected == deleted(run.look(jump)), "it is still there"
    run.found.put("plugin-pod", named(stale_plugin("a"), "plugin-a", uid="next"))
    assert [] == deleted(run.look(jump + 1)), "the next one"


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
    run, moment = never_verified(settings), 0
    for number, pause in enumerate(pauses, start=2):
        assert () == run.look(moment + pause - 1).actions, pause
        moment += pause
        assert 1 == len(run.act(moment).actions), pause
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
    assert 1 == len(Controller(run.found).look().actions)
    due = run.act(60)
    assert (NodeState.STALE, 1) == (due.statuses[0].state, len(due.actions))
    another_driver(run.found, 2).only("plugin-pod", successor(2))
    assert ["RestartBackedOff"] == reasons(run.look(179).statuses)
    assert 1 == len(run.look(180).actions)
    run.found.only("plugin-pod", plugin_pod())
    assert Phase.DONE is run.look(200).phase


@pytest.mark.parametrize(
    ("patch", "refused", "verified"), [({}, "", "Verified"), ({}, "no", "Verified"), (patches.OUTDATED, "", MANUAL)]
)
def test_a_verified_plugin_is_restarted_at_once_after_a_reload(patch: Object, refused: str, verified: str) -> None:
    """The restart before it helped, or other hands did; also on an outdated driver that no controller replaces."""
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
    assert [(0, "gpu-0"), (10, "gpu-0"), (20, "gpu-0")] == run.restarted


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
    run = controller()
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


def test_a_plugin_is_refreshed_although_the_other_one_of_its_node_cannot_start() -> None:
    """The run fails after that, with the one that does not start."""
    run = Run(second_plugin(stale(), None), Settings(plugin=TWO_PLUGINS.plugin))
    assert ["plugin-gpu-0"] == run.restart()
    run.found.put("plugin-pod", named(plugin_pod(), "next"))
    assert [WAIT, WAIT, FAIL] == run.phases(10, 299, 300)
    assert ["Verified", "PluginStarting"] == reasons(run.look(300).statuses)


# Grace periods.

BACK_OFF: Object = {**waiting("nvidia-driver-ctr", "CrashLoopBackOff"), "restartCount": 2}


def crashed(restarts: int) -> Object:
    """Return a driver pod whose container crashed so often, restarted in place, and is not Ready."""
    return driver_pod(ready=None, unloaded=-2, ended_before=-1, restarts=restarts)


def backing_off(node: str = "gpu-0") -> Object:
    """Return a driver pod whose container waits after a crash."""
    pod: Object = merged(driver_pod(node, ready=None, unloaded=-2, ended_before=-1, restarts=2),
                         {"status": {"containerStatuses": [BACK_OFF]}})  # fmt: skip
    return pod


def unscheduled(pod: Object) -> Object:
    """Return a pod of a DaemonSet before the scheduler binds it: only its affinity names its node."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}
    status = {"phase": "Pending", "conditions": [condition], "containerStatuses": [], "initContainerStatuses": []}
    change: Object = {"spec": {"nodeName": None, "affinity": {"nodeAffinity": required}}, "status": status}
    return merged(pod, change)  # type: ignore[no-any-return]


PLUGIN_TIMEOUT, NODE_TIMEOUT = Settings(plugin_timeout=Duration(seconds=9)), Settings(node_timeout=Duration(seconds=9))
FAILED_UPGRADE = labelled(state="upgrade-failed")
FAILS = {
    "plugin not ready": (cluster().put("plugin-pod", plugin_pod(ready=None)), JOB, Reason.PLUGIN_NOT_READY, 300),
    "no slice": (cluster().drop("slice"), PLUGIN_TIMEOUT, Reason.SLICE_MISSING, 9),
    "plugin missing": (cluster().drop("plugin-pod"), JOB, Reason.PLUGIN_MISSING, 300),
    "plugin terminating": (stale().change("plugin-pod", patches.DELETING), JOB, Reason.PLUGIN_RESTARTING, 300),
    "no room for the plugin": (
        cluster().put("plugin-pod", unscheduled(plugin_pod())), JOB, Reason.PLUGIN_STARTING, 300),
    "no room for the driver": (
        cluster().put("driver-pod", unscheduled(driver_pod())), JOB, Reason.DRIVER_FAILING, 300),
    "driver failing": (cluster().put("driver-pod", failing()), NODE_TIMEOUT, Reason.DRIVER_FAILING, 9),
    "driver crashing": (cluster().put("driver-pod", crashed(2)), JOB, Reason.DRIVER_FAILING, 300),
    "upgrade failed": (cluster().change("node", FAILED_UPGRADE), JOB, Reason.UPGRADE_FAILED, 300),
    "taint": (stale().change("node", patches.TAINT), JOB, Reason.TAINT_NOT_TOLERATED, 300),
}  # fmt: skip


@pytest.mark.parametrize(("found", "settings", "reason", "grace"), FAILS.values(), ids=FAILS)
def test_a_condition_that_holds_for_its_grace_fails_with_its_reason(
    found: Cluster, settings: Settings, reason: Reason, grace: int
) -> None:
    """Five minutes by default, not a second less. Each grace is a setting."""
    run = Run(found, settings)
    assert [WAIT, WAIT] == run.phases(0, grace - 1)
    late = run.look(grace)
    assert (FAIL, reason, NodeState.FAILED) == (late.phase, late.reason, late.statuses[0].state)
    assert 1 == late.statuses[0].message.count(f"(waited {grace} s)")


REBOOTED = driver_pod(ready=None, ended_before=-60, restarts=2)
ON_ITS_WAY = {
    "missing": cluster().drop("driver-pod"),
    "being built": cluster().put("driver-pod", driver_pod(ready=None)),
    "after two reboots": cluster().put("driver-pod", REBOOTED),
    "crashed once": cluster().put("driver-pod", crashed(1)),
    "upgrade in progress": cluster().change("node", labelled(state="drain-required")),
    "outdated": cluster().change("driver-pod", patches.OUTDATED),
}


@pytest.mark.parametrize("found", ON_ITS_WAY.values(), ids=ON_ITS_WAY)
def test_a_driver_that_is_on_its_way_has_no_grace(found: Cluster) -> None:
    """Only the deadline ends that wait: a serial upgrade takes hours."""
    assert [WAIT, WAIT] == Run(found).phases(0, 1200)


def test_a_grace_starts_again_after_an_interruption() -> None:
    """A plugin that was verified in between has its whole timeout again, but not one that is in another state."""
    missing = cluster().drop("slice")
    seen = Run(missing).through((0, missing), (200, cluster()), (400, missing))
    assert [WAIT, DONE, WAIT] == [decision.phase for decision in seen]
    # A plugin that terminates, starts and is not ready is one wait; so is a driver that runs between two crashes.
    leaving, unready = stale().change("plugin-pod", patches.DELETING), cluster().change("plugin-pod", patches.NOT_READY)
    seen = Run(leaving).through((0, leaving), (150, unready), (300, missing))
    assert [WAIT, WAIT, FAIL] == [decision.phase for decision in seen]
    run = Run(cluster())
    for number in range(6):
        run.found.put("driver-pod", backing_off() if number % 2 else crashed(restarts=2 + number))
        decision = run.look(60 * number)
        assert (FAIL if number == 5 else WAIT, Reason.DRIVER_FAILING) == (decision.phase, decision.statuses[0].reason)
    # Each driver client on a node has a grace of its own.
    second = with_exporter(cluster())
    second.change("plugin-pod", {"status": {"conditions": conditions(None)}}, "exporter-gpu-0")
    run = Run(with_exporter(cluster()).put("plugin-pod", plugin_pod(ready=None)), Settings(driver_clients=(EXPORTER,)))
    assert [WAIT, WAIT] == run.phases(0, 240)
    run.found = second
    assert [WAIT, WAIT, WAIT, FAIL] == run.phases(241, 300, 540, 541)
    assert ["Verified", "PluginNotReady"] == reasons(run.look(541).statuses)


OTHERS = {
    "verified": (cluster("a", "b"), FAIL, []),
    "excluded": (cluster("a", "b").change("node", labelled("b", skip="true"), "b"), FAIL, []),
    "builds its driver": (cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), WAIT, []),
    "stale": (stale("a", "b"), WAIT, ["b"]),
    "rotating": (cluster("a", "b").drop("driver-pod", "driver-b"), WAIT, []),
    "drained": (cluster("a", "b").change("node", labelled("b", state="drain-required"), "b"), WAIT, []),
}


@pytest.mark.parametrize(("found", "phase", "restarted"), OTHERS.values(), ids=OTHERS)
def test_the_others_are_refreshed_before_a_run_fails(found: Cluster, phase: Phase, restarted: list[str]) -> None:
    """One node whose driver cannot start must not leave the rest of the fleet stale."""
    run = Run(found.put("driver-pod", failing("a")))
    run.phases(0, 300)
    decision = run.look(1260)
    assert (phase, restarted) == (decision.phase, deleted(decision))


PAUSED = labelled("b", deploy_dra="paused-for-driver-upgrade")
REPLACED: Object = {"metadata": {"ownerReferences": owner("gone")}}
UNMOVED = {
    "behind an upgrade": cluster("a", "b").change("node", labelled("b", state="upgrade-required"), "b"),
    "without labels": cluster("a", "b").change("node", labelled("b", present="false"), "b"),
    "orphaned": cluster("a", "b").change("driver-pod", REPLACED, "driver-b"),
    "two driver pods": cluster("a", "b").put("driver-pod", named(driver_pod("b"), "another")),
    "unknown state": cluster("a", "b").change("node", labelled("b", state="new-required"), "b"),
    "toolkit is not ready": with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b"),
    "untolerated taint": stale("a", "b").change("node", patches.TAINT, "b"),
    "operands paused for good": cluster("a", "b").change("node", PAUSED, "b"),
    "outdated": cluster("a", "b").change("driver-pod", patches.OUTDATED, "driver-b"),
}


@pytest.mark.parametrize("found", UNMOVED.values(), ids=UNMOVED)
def test_nodes_that_do_not_move_do_not_hide_a_failed_one(found: Cluster) -> None:
    """They wait behind it, or for an administrator: after another grace the run fails."""
    settings = Settings(refresh_after=("toolkit",), plugin_timeout=Duration(hours=1))
    run = Run(found.put("driver-pod", failing("a")), settings)
    assert [WAIT, WAIT, FAIL] == run.phases(0, 300, 600)


def test_a_node_that_is_silent_now_and_then_does_not_hide_a_failed_one() -> None:
    """One driver crashes, and the next node waits behind it."""
    run, failures = Run(cluster()), []
    for seconds in range(0, 661, 20):
        run.found = cluster("bad", "next", "silent").change("driver-pod", patches.OUTDATED, "driver-next")
        run.found.put("driver-pod", failing("bad"))
        if seconds % 100 == 0:
            run.found.change("node", not_ready_since(3600 + seconds - 1), "silent")
        decision = run.look(seconds)
        failures += [seconds] if decision.phase is FAIL else []
    assert (620, Reason.DRIVER_FAILING) == (failures[0], decision.reason)


def test_a_node_that_moves_starts_the_grace_of_a_failure_again() -> None:
    """While another node moves, the run continues, and the failed node may recover."""
    failed = named(plugin_pod("a", ready=None), "plugin-a", uid="failed")
    outdated = cluster("a", "b").put("plugin-pod", failed).change("driver-pod", patches.OUTDATED, "driver-b")
    moving = cluster("a", "b").put("plugin-pod", failed).put("driver-pod", driver_pod("b", ready=None))
    run = Run(outdated, Settings(plugin_timeout=Duration()))
    seen = run.through((0, outdated), (240, moving), (300, outdated), (540, outdated), (600, outdated))
    assert [WAIT] * 4 + [FAIL] == [decision.phase for decision in seen]


# Nodes that lose their labels.


def without_labels(run: Run) -> Run:
    """Let node b lose its labels, and with them its driver and its plugin."""
    unlabelled(run.found, "b").drop("plugin-pod", "plugin-b")
    return run


def test_a_node_that_lost_its_labels_and_all_its_pods_is_awaited() -> None:
    """Nothing is left that shows its device, but it was eligible before: NFD may be back in a moment."""
    run = Run(cluster("a", "b").put("plugin-pod", stale_plugin("b")))
    assert ["plugin-b"] == run.restart()
    for seconds, phase, state in ((10, WAIT, NodeState.WAITING), (309, WAIT, NodeState.WAITING),
                                  (310, DONE, NodeState.EXCLUDED), (311, DONE, NodeState.EXCLUDED)):  # fmt: skip
        decision = without_labels(run).look(seconds)
        status = decision.statuses[1]
        assert (phase, state, "LabelsMissing") == (decision.phase, status.state, status.reason), seconds
        assert status.message.startswith("it was eligible before, and lost "), seconds
    run.found.put("node", obj("node", {"metadata": {"name": "b"}}))
    assert ["Verified", "DriverMissing"] == reasons(run.look(320).statuses), "it is back"
    without_labels(run).found.drop("node", "b")
    assert ["Verified"] == reasons(run.look(330).statuses), "it was removed"


def test_a_silent_node_that_lost_its_labels_stays_excluded() -> None:
    """Once it was eligible, it is known as long as something of it exists, whatever excludes it meanwhile."""
    run = Run(with_exporter(cluster("a", "b")), Settings(driver_clients=(EXPORTER,)))
    run.look()
    without_labels(run).found.change("node", not_ready_since(3600), "b")
    for seconds, expected in ((10, "NodeNotReadyBriefly"), (310, "NodeNotReady"), (311, "NodeNotReady")):
        assert expected == reasons(run.look(seconds).statuses)[-1], seconds
    run.found.drop("node", "b")
    assert ["LabelsMissing"] * 2 == [reasons(run.look(seconds).statuses)[-1] for seconds in (320, 321)]


def test_a_node_that_was_never_eligible_may_lose_its_labels() -> None:
    """Nor does a controller wait: it sees the node when it is back."""
    run = Run(cluster("a", "b").change("node", labelled("b", skip="true"), "b"))
    for each in (run, controller(cluster("a", "b"))):
        each.look()
        assert (DONE, ["Verified"]) == ((decision := without_labels(each).look(20)).phase, reasons(decision.statuses))


@pytest.mark.parametrize("found", [unlabelled(cluster("a", "b")), unlabelled(cluster("b"))])
def test_a_node_that_lost_its_gpu_is_excluded_after_a_grace(found: Cluster) -> None:
    """A plugin still runs there, but no driver pod comes; a warning names it."""
    run = Run(found)
    first = run.look()
    assert (WAIT, NodeState.WAITING) == (first.phase, first.statuses[-1].state)
    status = (later := run.look(300)).statuses[-1]
    assert (DONE, NodeState.EXCLUDED, Reason.LABELS_MISSING) == (later.phase, status.state, status.reason)
    assert 1 == len(later.warnings)


def test_the_grace_of_a_lost_gpu_starts_once_the_driver_pod_is_gone() -> None:
    """A node that is labelled again counts again."""
    run = Run(cluster("a", "b").change("node", labelled("b", present="false", deploy_driver=None), "b"))
    run.found.change("driver-pod", patches.DELETING, "driver-b")
    run.found.change("daemonset", "status: {desiredNumberScheduled: 1}", DRIVER)
    assert [WAIT, WAIT] == run.phases(0, 360)
    run.found.drop("driver-pod", "driver-b")
    assert [WAIT, WAIT, DONE] == run.phases(420, 660, 720)
    run.found.change("node", labelled("b", present="true", deploy_driver="true"), "b")
    again = run.look(780)
    assert (WAIT, ["Verified", "DriverMissing"]) == (again.phase, reasons(again.statuses))


def test_a_fleet_that_lost_all_its_labels_is_no_success() -> None:
    """NFD was removed, and with the labels each driver pod."""
    lost = {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}
    run = Run(cluster("a", "b").change("node", {"metadata": {"labels": lost}}).drop("driver-pod"))
    run.found.change("daemonset", patches.NONE_WANTED, DRIVER)
    decisions = [run.look(seconds) for seconds in (0, 300, 600)]
    expected = [(WAIT, ["LabelsMissing"] * 2)] * 3
    assert expected == [(decision.phase, reasons(decision.statuses)) for decision in decisions]
