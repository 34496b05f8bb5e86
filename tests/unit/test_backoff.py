"""A restart that did not help is tried again ever more seldom, while following; a run with a deadline fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from hook.config import Strategy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Verdict
from tests.fixtures.cluster import Cluster, reasons, stale
from tests.fixtures.following import FOLLOWING, Follower, successor
from tests.fixtures.objects import driver_pod, plugin_pod, running

ROLLOUT = replace(FOLLOWING, strategy=Strategy.ROLLOUT)
DAY = 24 * 3600


def hopeless(seconds: float, follower: Follower | None = None, every: float = 5) -> Follower:
    """Follow a plugin whose successors are all stale under the same driver, for so long."""
    follower = follower or Follower(stale())
    for number in range(int(seconds // every)):
        follower.act(number * every)
        if follower.restarted:
            follower.found.only("plugin-pod", successor(len(follower.restarted)))
    return follower


def another_driver(found: Cluster, number: int) -> Cluster:
    """Let the driver's container restart in its pod."""
    return found.change(
        "driver-pod", {"status": {"containerStatuses": [running("nvidia-driver-ctr", 60, restarts=number)]}}
    )


def test_the_pauses_double_up_to_a_bound() -> None:
    """At once, then after one minute, two, four; never more than an hour."""
    times = [seconds for seconds, _node in hopeless(DAY, every=60).restarted]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert [60, 120, 240, 480, 960, 1920, 3600, 3600] == pauses[:8]
    assert {3600} == set(pauses[6:])


def test_the_pauses_are_those_that_were_asked_for() -> None:
    """Both of them are settings."""
    patient = replace(FOLLOWING, restart_backoff=timedelta(seconds=10), restart_backoff_max=timedelta(seconds=30))
    times = [seconds for seconds, _node in hopeless(120, Follower(stale(), patient)).restarted]
    assert [0, 10, 30, 60, 90] == times


def test_many_years_of_tries_do_not_overflow() -> None:
    """However often it was tried."""
    follower = hopeless(10)
    key, asked = next(iter(follower.memory.restarts.items()))
    follower.memory = replace(follower.memory, restarts={key: replace(asked, tries=10**9)})
    assert ([], ["PluginStale"]) == _backed(follower, 3599, 3600)


def _backed(follower: Follower, before: float, due: float) -> tuple[list[object], list[str]]:
    held = follower.look(before)
    return list(held.actions), reasons(follower.look(due).judgements)


def test_a_successor_that_is_stale_under_the_same_driver_needs_a_person_and_is_tried_again() -> None:
    """It is said at once, with the moment of the next try; the fleet is not failed for good."""
    follower = hopeless(10)
    held = follower.look(59)
    (judged,) = held.judgements
    assert (NodeState.FAILED, Reason.RESTART_BACKED_OFF, ()) == (judged.state, judged.reason, held.actions)
    assert "number 2" in judged.message
    assert "2026-01-01T11:01:00Z" in judged.message
    due = follower.look(60)
    (again,) = due.actions
    assert (NodeState.STALE, True) == (due.judgements[0].state, again.pod.again)  # type: ignore[union-attr]


def test_a_first_restart_is_no_second_try() -> None:
    """Whoever counts restarts tells them apart."""
    (action,) = Follower(stale()).look().actions
    assert action.pod.again is False  # type: ignore[union-attr]


def test_a_plugin_that_never_became_well_waits_although_its_driver_is_another_one() -> None:
    """A driver that reloads again and again does not take its plugin down each time."""
    follower = Follower(stale())
    follower.act(0)
    another_driver(follower.found, 1).only("plugin-pod", successor(1))
    held = follower.look(30)
    (judged,) = held.judgements
    assert (NodeState.STALE, Reason.RESTART_BACKED_OFF, ()) == (judged.state, judged.reason, held.actions)
    assert Verdict.WAIT is held.verdict
    follower.act(60)
    another_driver(follower.found, 2).only("plugin-pod", successor(2))
    assert ["RestartBackedOff"] == reasons(follower.look(179).judgements)
    assert 1 == len(follower.look(180).actions)


def test_a_verified_plugin_is_served_at_once_when_its_driver_is_another_one() -> None:
    """Each reload needs its restart, however soon it comes after the last one."""
    follower = Follower(stale())
    follower.act(0)
    follower.found.only("plugin-pod", plugin_pod())
    assert ["Verified"] == reasons(follower.act(20).judgements)
    another_driver(follower.found, 1).only("plugin-pod", successor(1))
    follower.act(30)
    assert [(0, "gpu-0"), (30, "gpu-0")] == follower.restarted
    assert [1] == [one.tries for one in follower.memory.restarts.values()]


def test_a_verified_plugin_waits_when_its_driver_is_the_same() -> None:
    """It turned stale by times alone: a kubelet that moves them every minute must not restart it every minute."""
    follower = Follower(stale())
    follower.act(0)
    follower.found.only("plugin-pod", plugin_pod())
    follower.act(20)
    follower.found.only("plugin-pod", successor(1))
    assert ["RestartBackedOff"] == reasons(follower.look(30).judgements)
    assert 1 == len(follower.look(60).actions)


def test_a_pod_that_was_asked_to_go_and_stays_is_asked_again_soon() -> None:
    """Nothing was restarted yet, so there is nothing to back off from; under another driver run as well."""
    follower = Follower(stale())
    follower.act(0)
    assert ["PluginRestarting"] == reasons(follower.look(29).judgements)
    another_driver(follower.found, 1)
    assert ["PluginRestarting"] == reasons(follower.look(29).judgements)
    follower.act(30)
    follower.act(60)
    assert [0, 30, 60] == [seconds for seconds, _node in follower.restarted]
    assert [1] == [one.tries for one in follower.memory.restarts.values()]


def test_a_refusal_is_told_and_tried_again() -> None:
    """Whoever refused may have thought better of it; the deletion counts as one that did not help."""
    follower = Follower(stale())
    follower.act(0, refused="not on a Friday")
    held = follower.look(59)
    (judged,) = held.judgements
    assert (NodeState.FAILED, Reason.RESTART_REFUSED, ()) == (judged.state, judged.reason, held.actions)
    assert "not on a Friday" in judged.message
    assert "2026-01-01T11:01:00Z" in judged.message
    follower.act(60, refused="nor on a Saturday")
    assert ["RestartRefused"] == reasons(follower.look(179).judgements)
    follower.act(180)
    assert [3] == [one.tries for one in follower.memory.restarts.values()]
    assert ["PluginRestarting"] == reasons(follower.look(181).judgements)


def test_a_node_that_backs_off_does_not_hold_up_the_others() -> None:
    """It is reported as failed, and they are served, though a run with a deadline would end by now."""
    follower = Follower(stale("a", "b"))
    follower.act(0)
    follower.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    for seconds in (20, 59):
        assert ["RestartBackedOff", "Verified"] == reasons(follower.look(seconds).judgements)
    follower.found.only("driver-pod", driver_pod("a"), driver_pod("b", restarts=1, started=10, ready=80))
    follower.found.only("plugin-pod", successor(1, "a"), successor(1, "b"))
    assert ["b"] == [one.node for one in follower.look(59.5).actions]  # type: ignore[union-attr]


def test_a_failure_of_the_moment_stops_nothing() -> None:
    """The verdict says that a person is needed; what is due is done all the same, and said to be over when it is."""
    follower = hopeless(10)
    assert Verdict.FAIL is follower.look(30).verdict
    follower.act(60)
    follower.found.only("plugin-pod", plugin_pod())
    assert Verdict.DONE is follower.look(90).verdict


def test_a_new_follower_begins_anew() -> None:
    """What was asked for before is lost with its memory: one more restart at most."""
    found = hopeless(10).found
    assert 1 == len(Follower(found).look().actions)


def test_a_rollout_is_not_tried_again_under_the_same_driver() -> None:
    """It would restart all the others, too, which are well."""
    follower = Follower(stale("a", "b"), ROLLOUT)
    assert 1 == len(follower.stamped(0))
    follower.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    for seconds in (60, 3600, DAY):
        decision = follower.look(seconds)
        assert (["RestartDidNotHelp", "Verified"], ()) == (reasons(decision.judgements), decision.actions)


def test_a_rollout_waits_for_every_pod_that_is_backed_off() -> None:
    """It restarts them all."""
    follower = Follower(stale("a", "b"), ROLLOUT)
    follower.stamped(0)
    follower.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    follower.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b"))
    assert ["RestartBackedOff", "Verified"] == reasons(follower.look(20).judgements)
    follower.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b", restarts=1))
    follower.found.only("plugin-pod", successor(1, "a"), successor(1, "b"))
    held = follower.look(40)
    assert ["RestartBackedOff", "RestartBackedOff"] == reasons(held.judgements)
    assert ((), "a") == (held.actions, held.judgements[1].message.rpartition(" on ")[2][:1])
    assert 1 == len(follower.stamped(60))


@pytest.mark.parametrize("follow", [True, False])
def test_only_a_run_that_follows_tries_again(*, follow: bool) -> None:
    """A Job's deadline is near, and somebody reads its end."""
    follower = hopeless(10, Follower(stale(), replace(FOLLOWING, follow=follow)))
    decision = follower.look(60)
    assert follow is bool(decision.actions)
    assert (Reason.PLUGIN_STALE if follow else Reason.RESTART_DID_NOT_HELP) is decision.judgements[0].reason
