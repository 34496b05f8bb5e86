"""How long a state may last before it needs a person, and that the others are served first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Advanced, Duration, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale
from tests.fixtures.modes import owner, with_toolkit
from tests.fixtures.objects import Object, driver_pod, merged, plugin_pod, waiting

DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
MINUTES = 60


def image_pull(node: str = "gpu-0") -> dict[str, object]:
    """Give a driver pod whose image cannot be pulled."""
    status = {"containerStatuses": [waiting("nvidia-driver-ctr", "ImagePullBackOff", "no such tag")]}
    pod: dict[str, object] = merged(driver_pod(node, ready=None), {"status": status})
    return pod


def crashed(restarts: int) -> dict[str, object]:
    """Give a driver pod whose container crashed so often, came back in place, and is not Ready."""
    pod: dict[str, object] = driver_pod(ready=None, unloaded=-2, ended_before=-1, restarts=restarts)
    return pod


def over(time: list[int], found: Cluster, settings: Settings | None = None) -> list[Decision]:
    """Decide at several moments, in seconds after LATER, carrying the memory on."""
    memory, told = Memory(started=LATER), []
    for seconds in time:
        decision, memory = found.decide(settings, memory, LATER + timedelta(seconds=seconds))
        told.append(decision)
    return told


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(cluster().put("plugin-pod", plugin_pod(ready=None)), Reason.PLUGIN_NOT_READY, id="not-ready"),
        pytest.param(cluster().drop("slice"), Reason.SLICE_MISSING, id="no-slice"),
        pytest.param(cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING, id="plugin-not-recreated"),
        pytest.param(stale().change("plugin-pod", DELETING), Reason.PLUGIN_RESTARTING, id="plugin-never-gone"),
        pytest.param(cluster().put("driver-pod", image_pull()), Reason.DRIVER_FAILING, id="driver-image-pull"),
        pytest.param(cluster().put("driver-pod", crashed(2)), Reason.DRIVER_FAILING, id="driver-crashed-and-runs"),
        pytest.param(cluster().change("node", labelled(state="upgrade-failed")), Reason.UPGRADE_FAILED,
                     id="upgrade-failed"),
    ],
)  # fmt: skip
def test_a_state_that_lasts_beyond_its_grace_fails_with_its_reason(found: Cluster, reason: Reason) -> None:
    """Five minutes by default, not a second less."""
    early, late = over([0, 5 * MINUTES - 1, 5 * MINUTES], found)[1:]
    assert [Phase.WAIT, Phase.FAIL] == [early.phase, late.phase]
    assert (reason, NodeState.FAILED) == (late.reason, late.statuses[0].state)


def test_a_failure_says_once_how_long_it_lasted() -> None:
    """The sentence is for people."""
    found = cluster().put("driver-pod", image_pull())
    assert 1 == over([0, 300], found)[1].statuses[0].message.count("(for 300 s)")


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        pytest.param(cluster().drop("slice"), Settings(plugin_timeout=Duration(seconds=9)), id="plugin-timeout"),
        pytest.param(cluster().put("driver-pod", image_pull()),
                     Settings(advanced=Advanced(failed_grace=Duration(seconds=9))),
                     id="failed-grace"),
    ],
)  # fmt: skip
def test_the_graces_are_settings(found: Cluster, settings: Settings) -> None:
    """Each its own."""
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == [one.phase for one in over([0, 8, 9], found, settings)]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(cluster().drop("driver-pod"), id="driver-missing"),
        pytest.param(cluster().put("driver-pod", driver_pod(ready=None)), id="driver-being-built"),
        pytest.param(cluster().put("driver-pod", driver_pod(ready=None, ended_before=-60, restarts=2)),
                     id="driver-being-built-after-two-reboots"),
        pytest.param(cluster().put("driver-pod", crashed(1)), id="driver-being-built-once-more"),
        pytest.param(cluster().change("node", labelled(state="drain-required")), id="upgrade-in-progress"),
        pytest.param(cluster().change("driver-pod", "metadata: {labels: {controller-revision-hash: x}}"),
                     id="outdated"),
    ],
)  # fmt: skip
def test_waiting_for_the_driver_has_no_patience_of_its_own(found: Cluster) -> None:
    """Only the stall and the deadline end it: a serial upgrade takes hours."""
    assert {Phase.WAIT} == {one.phase for one in over([0, 1200], found)}


def test_a_state_that_breaks_off_starts_anew() -> None:
    """A plugin that was fine in between has its whole timeout again."""
    memory = cluster().drop("slice").decide()[1]
    memory = cluster().decide(memory=memory, now=LATER + timedelta(seconds=200))[1]
    decision, _memory = cluster().drop("slice").decide(memory=memory, now=LATER + timedelta(seconds=400))
    assert decision.phase is Phase.WAIT


def test_a_driver_that_crash_loops_fails_though_it_runs_now_and_then() -> None:
    """Between two crashes its container runs for a minute; that is no progress."""
    back_off = merged(crashed(2), {"status": {"containerStatuses": [
        {**waiting("nvidia-driver-ctr", "CrashLoopBackOff"), "restartCount": 2}]}})  # fmt: skip
    memory, told = Memory(started=LATER), []
    for number in range(6):
        found = cluster().put("driver-pod", back_off if number % 2 else crashed(restarts=2 + number))
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(minutes=number))
        told.append((decision.phase, decision.statuses[0].reason))
    assert [(Phase.WAIT, Reason.DRIVER_FAILING)] * 5 == told[:-1]
    assert (Phase.FAIL, Reason.DRIVER_FAILING) == told[-1]


def test_a_plugins_timeout_runs_through_all_its_states() -> None:
    """Terminating, missing, starting and not ready are one wait."""
    memory = Memory(started=LATER)
    states = [
        stale().change("plugin-pod", DELETING),
        cluster().put("plugin-pod", plugin_pod(ready=None)),
        cluster().drop("slice"),
    ]
    verdicts = []
    for number, found in enumerate(states):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=150 * number))
        verdicts.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == verdicts


def test_upgrade_failed_that_clears_in_time_is_done() -> None:
    """It was seen to clear by itself after 240 s."""
    memory = cluster().change("node", labelled(state="upgrade-failed")).decide()[1]
    decision, _memory = cluster().decide(memory=memory, now=LATER + timedelta(seconds=240))
    assert decision.phase is Phase.DONE


def test_upgrade_failed_that_clears_late_is_still_served_by_a_run_that_goes_on() -> None:
    """While another node moves the run goes on, and what failed before may be well again."""
    moving = driver_pod("b", ready=None)
    failed = cluster("a", "b").put("driver-pod", moving).change("node", labelled("a", state="upgrade-failed"), "a")
    assert [NodeState.WAITING, NodeState.FAILED] == [one.statuses[0].state for one in over([0, 400], failed)]
    memory = failed.decide(memory=failed.decide()[1], now=LATER + timedelta(seconds=400))[1]
    well, _memory = cluster("a", "b").decide(memory=memory, now=LATER + timedelta(seconds=500))
    assert well.phase is Phase.DONE


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        pytest.param(cluster("a", "b"), Phase.FAIL, id="the-other-is-served"),
        pytest.param(cluster("a", "b").change("node", labelled("b", skip="true"), "b"), Phase.FAIL,
                     id="the-other-is-excluded"),
        pytest.param(cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), Phase.WAIT,
                     id="the-other-builds-its-driver"),
        pytest.param(stale("a", "b"), Phase.WAIT, id="the-other-is-stale"),
        pytest.param(cluster("a", "b").drop("driver-pod", "driver-b"), Phase.WAIT, id="the-other-is-rotating"),
    ],
)  # fmt: skip
def test_the_others_are_served_before_a_failure_is_said(found: Cluster, phase: Phase) -> None:
    """One node whose driver cannot start must not leave the rest of the fleet stale."""
    found.put("driver-pod", image_pull("a"))
    assert phase is over([0, 300], found)[1].phase


def test_stale_plugins_are_still_restarted_beside_a_failed_node() -> None:
    """Serving goes on until nothing moves."""
    found = stale("a", "b").put("driver-pod", image_pull("a"))
    assert 1 == len(over([0, 300], found)[1].actions)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(labelled("b", state="upgrade-required"), id="behind-an-upgrade-that-does-not-move"),
        pytest.param(labelled("b", present="false"), id="without-labels"),
    ],
)
def test_nodes_that_only_wait_for_their_turn_do_not_hold_a_failure_for_ever(patch: dict[str, object]) -> None:
    """The upgrade controller stops at a failed node: after another grace it is said."""
    found = cluster("a", "b").change("node", patch, "b").put("driver-pod", image_pull("a"))
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == [one.phase for one in over([0, 300, 600], found)]


ORPHANED: Object = {"metadata": {"ownerReferences": owner("gone")}}
ANOTHER: Object = {"metadata": {"name": "another", "uid": "another"}}
STUCK = {
    "orphaned": cluster("a", "b").change("driver-pod", ORPHANED, "driver-b"),
    "two-driver-pods": cluster("a", "b").put("driver-pod", merged(driver_pod("b"), ANOTHER)),
    "state-that-nobody-documented": cluster("a", "b").change("node", labelled("b", state="new-required"), "b"),
    "toolkit-is-not-ready": with_toolkit(cluster("a", "b")).drop("provider-pod", "toolkit-b"),
}


@pytest.mark.parametrize("found", STUCK.values(), ids=STUCK)
def test_nodes_that_wait_for_a_person_do_not_hide_a_failed_one(found: Cluster) -> None:
    """Nothing moves: what failed is told long before the time is up."""
    found.put("driver-pod", image_pull("a"))
    told = over([0, 300, 600], found, Settings(refresh_after=("toolkit",)))
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == [one.phase for one in told]


def test_a_plugin_that_must_not_be_restarted_does_not_hold_a_failure_for_ever() -> None:
    """It waits for a person to take a taint away, however long it may."""
    found = stale("a", "b").change("node", "spec: {taints: [{key: mine, effect: NoSchedule}]}", "b")
    found.put("driver-pod", image_pull("a"))
    told = over([0, 300, 600], found, Settings(plugin_timeout=Duration(hours=1)))
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == [one.phase for one in told]


def test_a_failure_counts_the_other_failed_nodes() -> None:
    """The sentence names one; the table has all."""
    found = cluster("a", "b").put("driver-pod", image_pull("a"), image_pull("b"))
    assert "and 1 more" in over([0, 300], found)[1].message
