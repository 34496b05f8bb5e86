"""When a follower is alive and when it is ready: by its progress, never by being asked."""

from __future__ import annotations

import time

import pytest

from hook.cluster.contact import Lost
from hook.following.health import ALIVE_SECONDS, LOST_SECONDS, Pulse

STACK = "gpu"


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Turn the time of progress."""
    return Clock()


def _lost(seconds: float) -> Lost:
    return Lost("pods", time.monotonic() - seconds, "connection refused")


def _unready(pulse: Pulse) -> str:
    return pulse.health.unready


@pytest.fixture
def pulse(clock: Clock) -> Pulse:
    """Give a follower that has just started."""
    return Pulse(clock)


def test_standing_by(pulse: Pulse, clock: Clock) -> None:
    """Who tries for the Lease lives and is ready, for as long as the tries go on."""
    for _try in range(5):
        clock.now += ALIVE_SECONDS - 1
        pulse.try_for_the_lease()
    assert (pulse.health.dead, pulse.health.unready, pulse.health.role) == ("", "", "standby")
    clock.now += ALIVE_SECONDS + 1
    assert pulse.health.dead == "no Lease request was sent for 121 s"
    assert pulse.health.unready == pulse.health.dead


def test_standing_by_without_a_lease_that_can_be_had(pulse: Pulse, clock: Clock) -> None:
    """Who may not read it could never take over: it lives, but whoever waits for it must not call that a success."""
    assert pulse.health.unready == "no Lease request was sent yet"
    for _try in range(3):
        pulse.try_for_the_lease("permission missing: get leases")
        clock.now += LOST_SECONDS
    assert (pulse.health.dead, pulse.health.unready) == (
        "", "the Lease is not available: permission missing: get leases"
    )  # fmt: skip
    pulse.try_for_the_lease()
    assert pulse.health.unready == ""
    clock.now += LOST_SECONDS
    pulse.try_for_the_lease("connection refused")
    assert pulse.health.unready == ""  # a control plane that restarts
    clock.now += 1
    assert pulse.health.unready == "the Lease is not available: connection refused"


def test_leading(pulse: Pulse, clock: Clock) -> None:
    """Who leads must finish rounds; the first one makes it ready."""
    pulse.lead(leading=True)
    assert (pulse.health.dead, pulse.health.unready) == ("", "the cluster has not been read yet")
    pulse.finish_round(None, [])
    assert (pulse.health.dead, pulse.health.unready, pulse.health.role) == ("", "", "leader")
    clock.now += ALIVE_SECONDS + 1
    assert pulse.health.dead == "no reconcile was finished for 121 s"


def test_a_renewed_lease_is_no_progress_of_the_loop(pulse: Pulse, clock: Clock) -> None:
    """The thread that renews the Lease goes on while the loop hangs: that must not keep it alive."""
    pulse.lead(leading=True)
    clock.now += ALIVE_SECONDS + 1
    pulse.try_for_the_lease()
    assert pulse.health.dead


def test_a_slow_first_list_is_progress(pulse: Pulse, clock: Clock) -> None:
    """A large fleet that is being read keeps its follower alive, and not ready."""
    pulse.lead(leading=True)
    for _tick in range(300):
        clock.now += 1.0
        pulse.wait(None)
    assert (pulse.health.dead, pulse.health.unready) == ("", "the cluster has not been read yet")


def test_a_round_that_takes_its_time(pulse: Pulse, clock: Clock) -> None:
    """The bound leaves room for the longest round there is: writes that are retried while a token rotates."""
    pulse.lead(leading=True)
    clock.now += 112.0
    assert not pulse.health.dead


def test_lost_contact_for_long(pulse: Pulse) -> None:
    """A short loss of contact is daily life; after a minute it is not ready, and still alive."""
    pulse.lead(leading=True)
    pulse.finish_round(_lost(LOST_SECONDS / 2), [])
    assert _unready(pulse) == ""
    pulse.finish_round(_lost(LOST_SECONDS + 1), [])
    assert _unready(pulse).startswith("cannot read pods for 6")
    assert not pulse.health.dead
    pulse.finish_round(None, [])
    assert _unready(pulse) == ""


def test_an_open_breaker(pulse: Pulse) -> None:
    """An open breaker makes it unready, not dead: a restart would help nobody."""
    pulse.lead(leading=True)
    pulse.finish_round(None, ["network", STACK])
    assert pulse.health.unready == "the circuit breaker is open: gpu, network"
    assert not pulse.health.dead
    pulse.finish_round(None, [])
    assert not pulse.health.unready


def test_a_change_of_leaders(pulse: Pulse) -> None:
    """What was known as leader is forgotten by who stands by, and not believed in the next term."""
    pulse.lead(leading=True)
    pulse.finish_round(_lost(LOST_SECONDS + 1), [STACK])
    pulse.lead(leading=False)
    pulse.try_for_the_lease()
    assert _unready(pulse) == ""
    pulse.lead(leading=True)
    assert _unready(pulse) == "the cluster has not been read yet"
