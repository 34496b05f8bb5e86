"""What a run remembers: small, frozen, and never changed by deciding."""

from __future__ import annotations

from datetime import timedelta

from hook.decide.state import Memory, RestartRecord, Timers, restart_key
from tests.fixtures.cluster import LATER, cluster, stale

BEFORE = LATER - timedelta(seconds=40)


def test_asking_gives_another_memory() -> None:
    """The old one stays as it was; one entry for each consumer on each node."""
    memory = Memory(started=BEFORE)
    pod = stale().judge().stale_pod
    assert pod is not None
    once = memory.asked("gpu-0", pod, BEFORE)
    twice = once.asked("gpu-0", pod, LATER)
    entry = RestartRecord(pod.uid, pod.driver_run, LATER, driver_ready=pod.driver_ready)
    assert {} == memory.restarts
    assert {restart_key("plugin-ds", "gpu-0"): entry} == twice.restarts
    assert BEFORE == once.restarts[restart_key("plugin-ds", "gpu-0")].at


def test_a_refusal_is_remembered_and_is_no_restart() -> None:
    """With the server's words, until something else is asked for there."""
    pod = stale().judge().stale_pod
    assert pod is not None
    refused = Memory(started=BEFORE).asked("gpu-0", pod, BEFORE, refused="no")
    assert ("no", 0) == (refused.restarts[restart_key("plugin-ds", "gpu-0")].refused, refused.restarted)
    assert 1 == refused.asked("gpu-0", pod, LATER).restarted


def test_a_plugin_that_came_back_is_remembered_until_it_is_restarted_again() -> None:
    """By node and consumer; a verified plugin elsewhere says nothing."""
    pod = stale().judge().stale_pod
    assert pod is not None
    memory = Memory(started=BEFORE).asked("gpu-0", pod, BEFORE)
    elsewhere = memory.with_verified([cluster("gpu-1").judge()])
    back = elsewhere.with_verified([cluster().judge()])
    again = back.asked("gpu-0", pod, LATER)
    key = restart_key("plugin-ds", "gpu-0")
    assert [False, True, False] == [one.restarts[key].came_back for one in (elsewhere, back, again)]
    assert back == back.with_verified([cluster().judge()])


def test_deciding_changes_no_memory_in_place() -> None:
    """The next memory is a new value."""
    memory = Memory(started=BEFORE)
    after = stale().drop("slice").decide(memory=memory)[1]
    assert (Memory(started=BEFORE), True) == (memory, after != memory)


def test_a_condition_holds_from_when_it_was_first_seen() -> None:
    """Zero if it is new."""
    timers = Timers(Memory(started=BEFORE, first_seen={"old": BEFORE}), LATER)
    assert (timedelta(seconds=40), timedelta()) == (timers.held("old"), timers.held("new"))
    assert {"old": BEFORE, "new": LATER} == timers.first_seen


def test_a_condition_that_is_not_asked_about_ends() -> None:
    """What no longer holds is forgotten."""
    timers = Timers(Memory(started=BEFORE, first_seen={"old": BEFORE}), LATER)
    timers.held("new")
    assert {"new": LATER} == timers.first_seen


def test_losing_the_memory_costs_time_never_correctness() -> None:
    """A run that was killed and started again asks for the very same restarts, and for no other."""
    found = stale("a", "b").put("plugin-pod", *cluster("b").of("plugin-pod"))
    first = found.decide()[0].actions
    again = found.decide(memory=Memory(started=BEFORE))[0].actions
    assert first == again
