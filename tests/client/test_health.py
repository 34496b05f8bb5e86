"""When a follower is alive and when it is ready: by its progress, never by being asked."""

from __future__ import annotations

import time

import pytest

from hook.kube.informer import OutOfSync
from hook.run.health import ALIVE_SECONDS, UNREADY_SECONDS, Health
from tests.client.controller import state

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


def _lost(seconds: float) -> OutOfSync:
    return OutOfSync("pods", time.monotonic() - seconds, "connection refused")


def _unready(health: Health) -> str:
    return health.unready


@pytest.fixture
def health(clock: Clock) -> Health:
    """Return the health of a controller that has just started."""
    return Health(clock)


def test_standing_by(health: Health, clock: Clock) -> None:
    """Who tries for the Lease lives and is ready, for as long as the tries go on."""
    for _try in range(5):
        clock.now += ALIVE_SECONDS - 1
        health.try_for_the_lease()
    assert (health.dead, health.unready, health.role) == ("", "", "standby")
    clock.now += ALIVE_SECONDS + 1
    assert health.dead == "no Lease request was sent for 121 s"
    assert health.unready == health.dead


def test_standing_by_without_a_lease_that_can_be_had(health: Health, clock: Clock) -> None:
    """Who may not read it could never take over: it lives, but whoever waits for it must not call that a success."""
    assert health.unready == "no Lease request was sent yet"
    for _try in range(3):
        health.try_for_the_lease("permission missing: get leases")
        clock.now += UNREADY_SECONDS
    assert (health.dead, health.unready) == (
        "", "the Lease is not available: permission missing: get leases"
    )  # fmt: skip
    health.try_for_the_lease()
    assert health.unready == ""
    clock.now += UNREADY_SECONDS
    health.try_for_the_lease("connection refused")
    assert health.unready == ""  # a control plane that restarts
    clock.now += 1
    assert health.unready == "the Lease is not available: connection refused"


def test_leading(health: Health, clock: Clock) -> None:
    """Who leads must finish rounds; the first one makes it ready."""
    health.lead(leading=True)
    assert (health.dead, health.unready) == ("", "the cluster has not been read yet")
    health.reconciled(state())
    assert (health.dead, health.unready, health.role) == ("", "", "leader")
    clock.now += ALIVE_SECONDS + 1
    assert health.dead == "no reconcile was finished for 121 s"


def test_a_renewed_lease_is_no_progress_of_the_loop(health: Health, clock: Clock) -> None:
    """The thread that renews the Lease goes on while the loop hangs: that must not keep it alive."""
    health.lead(leading=True)
    clock.now += ALIVE_SECONDS + 1
    health.try_for_the_lease()
    assert health.dead


def test_a_slow_first_list_is_progress(health: Health, clock: Clock) -> None:
    """A large fleet that is being read keeps its follower alive, and not ready."""
    health.lead(leading=True)
    for _tick in range(300):
        clock.now += 1.0
        health.wait(None)
    assert (health.dead, health.unready) == ("", "the cluster has not been read yet")


def test_a_round_that_takes_its_time(health: Health, clock: Clock) -> None:
    """The bound leaves room for the longest round there is: writes that are retried while a token rotates."""
    health.lead(leading=True)
    clock.now += 112.0
    assert not health.dead


def test_lost_contact_for_long(health: Health) -> None:
    """A short loss of contact is daily life; after a minute it is not ready, and still alive."""
    health.lead(leading=True)
    health.reconciled(state(lost=_lost(UNREADY_SECONDS / 2)))
    assert _unready(health) == ""
    health.reconciled(state(lost=_lost(UNREADY_SECONDS + 1)))
    assert _unready(health).startswith("cannot read pods for 6")
    assert not health.dead
    health.reconciled(state())
    assert _unready(health) == ""


def test_an_open_breaker(health: Health) -> None:
    """An open breaker makes it unready, not dead: a restart would help nobody."""
    health.lead(leading=True)
    health.reconciled(state(stopped=("network", STACK)))
    assert health.unready == "the circuit breaker is open: gpu, network"
    assert not health.dead
    health.reconciled(state())
    assert not health.unready


def test_a_change_of_leaders(health: Health) -> None:
    """What was known as leader is forgotten by who stands by, and not believed in the next term."""
    health.lead(leading=True)
    health.reconciled(state(lost=_lost(UNREADY_SECONDS + 1), stopped=(STACK,)))
    health.lead(leading=False)
    health.try_for_the_lease()
    assert _unready(health) == ""
    health.lead(leading=True)
    assert _unready(health) == "the cluster has not been read yet"
