"""A restart that did not help is tried again ever more seldom, while following; a run with a deadline fails."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from msgspec import structs

from hook.config import ControllerLimits, Duration, Strategy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import Cluster, reasons, stale
from tests.fixtures.following import Controller, successor
from tests.fixtures.limits import FOLLOWING, of
from tests.fixtures.objects import driver_pod, plugin_pod, running

ROLLOUT = structs.replace(FOLLOWING, strategy=Strategy.ROLLOUT)
DAY = 24 * 3600


def hopeless(seconds: float, controller: Controller | None = None, every: float = 5) -> Controller:
    """Follow a plugin whose successors are all stale under the same driver, for so long."""
    controller = controller or Controller(stale())
    for number in range(int(seconds // every)):
        controller.act(number * every)
        if controller.restarted:
            controller.found.only("plugin-pod", successor(len(controller.restarted)))
    return controller


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
    patient = structs.replace(
        FOLLOWING,
        controller=ControllerLimits(restart_backoff=Duration(seconds=10), restart_backoff_max=Duration(seconds=30)),
    )
    times = [seconds for seconds, _node in hopeless(120, Controller(stale(), patient)).restarted]
    assert [0, 10, 30, 60, 90] == times


def test_many_years_of_tries_do_not_overflow() -> None:
    """However often it was tried."""
    controller = hopeless(10)
    key, asked = next(iter(controller.memory.restarts.items()))
    controller.memory = replace(controller.memory, restarts={key: replace(asked, tries=10**9)})
    assert ([], ["PluginStale"]) == _backed(controller, 3599, 3600)


def _backed(controller: Controller, before: float, due: float) -> tuple[list[object], list[str]]:
    held = controller.look(before)
    return list(held.actions), reasons(controller.look(due).statuses)


def test_a_successor_that_is_stale_under_the_same_driver_needs_a_person_and_is_tried_again() -> None:
    """It is said at once, with the moment of the next try; the fleet is not failed for good."""
    controller = hopeless(10)
    held = controller.look(59)
    (judged,) = held.statuses
    assert (NodeState.FAILED, Reason.RESTART_BACKED_OFF, ()) == (judged.state, judged.reason, held.actions)
    assert "number 2" in judged.message
    assert "2026-01-01T11:01:00Z" in judged.message
    due = controller.look(60)
    (again,) = due.actions
    assert (NodeState.STALE, True) == (due.statuses[0].state, again.pod.again)  # type: ignore[union-attr]


def test_a_first_restart_is_no_second_try() -> None:
    """Whoever counts restarts tells them apart."""
    (action,) = Controller(stale()).look().actions
    assert action.pod.again is False  # type: ignore[union-attr]


def test_a_plugin_that_never_became_well_waits_although_its_driver_is_another_one() -> None:
    """A driver that reloads again and again does not take its plugin down each time."""
    controller = Controller(stale())
    controller.act(0)
    another_driver(controller.found, 1).only("plugin-pod", successor(1))
    held = controller.look(30)
    (judged,) = held.statuses
    assert (NodeState.STALE, Reason.RESTART_BACKED_OFF, ()) == (judged.state, judged.reason, held.actions)
    assert Phase.WAIT is held.phase
    controller.act(60)
    another_driver(controller.found, 2).only("plugin-pod", successor(2))
    assert ["RestartBackedOff"] == reasons(controller.look(179).statuses)
    assert 1 == len(controller.look(180).actions)


def test_a_verified_plugin_is_served_at_once_when_its_driver_is_another_one() -> None:
    """Each reload needs its restart, however soon it comes after the last one."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.only("plugin-pod", plugin_pod())
    assert ["Verified"] == reasons(controller.act(20).statuses)
    another_driver(controller.found, 1).only("plugin-pod", successor(1))
    controller.act(30)
    assert [(0, "gpu-0"), (30, "gpu-0")] == controller.restarted
    assert [1] == [one.tries for one in controller.memory.restarts.values()]


def test_a_verified_plugin_waits_when_its_driver_is_the_same() -> None:
    """It turned stale by times alone: a kubelet that moves them every minute must not restart it every minute."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.only("plugin-pod", plugin_pod())
    controller.act(20)
    controller.found.only("plugin-pod", successor(1))
    assert ["RestartBackedOff"] == reasons(controller.look(30).statuses)
    assert 1 == len(controller.look(60).actions)


def test_a_pod_that_was_asked_to_go_and_stays_is_asked_again_soon() -> None:
    """Nothing was restarted yet, so there is nothing to back off from; under another driver run as well."""
    controller = Controller(stale())
    controller.act(0)
    assert ["PluginRestarting"] == reasons(controller.look(29).statuses)
    another_driver(controller.found, 1)
    assert ["PluginRestarting"] == reasons(controller.look(29).statuses)
    controller.act(30)
    controller.act(60)
    assert [0, 30, 60] == [seconds for seconds, _node in controller.restarted]
    assert [1] == [one.tries for one in controller.memory.restarts.values()]


def test_a_refusal_is_told_and_tried_again() -> None:
    """Whoever refused may have thought better of it; the deletion counts as one that did not help."""
    controller = Controller(stale())
    controller.act(0, refused="not on a Friday")
    held = controller.look(59)
    (judged,) = held.statuses
    assert (NodeState.FAILED, Reason.RESTART_REFUSED, ()) == (judged.state, judged.reason, held.actions)
    assert "not on a Friday" in judged.message
    assert "2026-01-01T11:01:00Z" in judged.message
    controller.act(60, refused="nor on a Saturday")
    assert ["RestartRefused"] == reasons(controller.look(179).statuses)
    controller.act(180)
    assert [3] == [one.tries for one in controller.memory.restarts.values()]
    assert ["PluginRestarting"] == reasons(controller.look(181).statuses)


def test_a_node_that_backs_off_does_not_hold_up_the_others() -> None:
    """It is reported as failed, and they are served, though a run with a deadline would end by now."""
    controller = Controller(stale("a", "b"))
    controller.act(0)
    controller.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    for seconds in (20, 59):
        assert ["RestartBackedOff", "Verified"] == reasons(controller.look(seconds).statuses)
    controller.found.only("driver-pod", driver_pod("a"), driver_pod("b", restarts=1, started=10, ready=80))
    controller.found.only("plugin-pod", successor(1, "a"), successor(1, "b"))
    assert ["b"] == [one.node for one in controller.look(59.5).actions]  # type: ignore[union-attr]


def test_a_failure_of_the_moment_stops_nothing() -> None:
    """The verdict says that a person is needed; what is due is done all the same, and said to be over when it is."""
    controller = hopeless(10)
    assert Phase.FAIL is controller.look(30).phase
    controller.act(60)
    controller.found.only("plugin-pod", plugin_pod())
    assert Phase.DONE is controller.look(90).phase


def test_a_new_follower_begins_anew() -> None:
    """What was asked for before is lost with its memory: one more restart at most."""
    found = hopeless(10).found
    assert 1 == len(Controller(found).look().actions)


def test_a_rollout_is_not_tried_again_under_the_same_driver() -> None:
    """It would restart all the others, too, which are well."""
    controller = Controller(stale("a", "b"), ROLLOUT)
    assert 1 == len(controller.stamped(0))
    controller.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    for seconds in (60, 3600, DAY):
        decision = controller.look(seconds)
        assert (["RestartDidNotHelp", "Verified"], ()) == (reasons(decision.statuses), decision.actions)


def test_a_rollout_waits_for_every_pod_that_is_backed_off() -> None:
    """It restarts them all."""
    controller = Controller(stale("a", "b"), ROLLOUT)
    controller.stamped(0)
    controller.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    controller.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b"))
    assert ["RestartBackedOff", "Verified"] == reasons(controller.look(20).statuses)
    controller.found.only("driver-pod", driver_pod("a", restarts=1), driver_pod("b", restarts=1))
    controller.found.only("plugin-pod", successor(1, "a"), successor(1, "b"))
    held = controller.look(40)
    assert ["RestartBackedOff", "RestartBackedOff"] == reasons(held.statuses)
    assert ((), "a") == (held.actions, held.statuses[1].message.rpartition(" on ")[2][:1])
    assert 1 == len(controller.stamped(60))


@pytest.mark.parametrize("follow", [True, False])
def test_only_a_run_that_follows_tries_again(*, follow: bool) -> None:
    """A Job's deadline is near, and somebody reads its end."""
    controller = hopeless(10, Controller(stale(), of(FOLLOWING, controller=follow)))
    decision = controller.look(60)
    assert follow is bool(decision.actions)
    assert (Reason.PLUGIN_STALE if follow else Reason.RESTART_DID_NOT_HELP) is decision.statuses[0].reason
