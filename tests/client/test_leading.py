"""What a leader may do, for how long, and what it leaves to the next one."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, StalePod
from hook.errors import LeaseLostError
from hook.kube.election import LeaderElectionConfig
from hook.kube.requests import delete_pod
from hook.objects import names
from hook.run.controller import Controller, Identity, Leader
from hook.run.metrics import Telemetry
from hook.run.report import RestartResult
from hook.run.status import ControllerStatus, OpenBreaker
from tests.client.leases import NAME, NAMESPACE, PATH, held, keeping, until
from tests.client.server import Said
from tests.fixtures.cluster import stale
from tests.fixtures.limits import FOLLOWING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.kube.election import LeaderElector
    from tests.client.server import Server

FOLLOW: Final = FOLLOWING
ELECTION: Final = LeaderElectionConfig(NAMESPACE, NAME, "a")
DELETE: Final = delete_pod("dra", "a", "uid", "7")
STALE: Final = StalePod("dra", "a", "uid-a", "7", "ds", because="it is stale", driver_run="run")
ACTION: Final = DeletePod("gpu-0", STALE, "gpu")
DONE: Final = Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well", stack="gpu")


def leader(server: Server, lease: LeaderElector) -> Leader:
    """Lead with it."""
    return Leader(server.api, FOLLOW, Identity(lease.config), lease, Telemetry(server.api.counters))


def aged(lease: LeaderElector, seconds: float) -> None:
    """Let so much time pass since its renewal."""
    lease._renewed_at = time.monotonic() - seconds


@pytest.fixture
def led() -> Iterator[tuple[Server, LeaderElector, Leader]]:
    """Lead on a cluster that shows nothing."""
    with keeping() as (_kept, server):
        lease = held(server)
        yield server, lease, leader(server, lease)
        lease.release()


def test_restarts_have_what_is_left_of_the_lease(
    led: tuple[Server, LeaderElector, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since its last renewal, and not since this round began: after it another one may act."""
    _server, lease, one = led
    granted: list[float] = []

    def act(_decision: Decision, left: float) -> list[RestartResult]:
        granted.append(left)
        return []

    monkeypatch.setattr(one.loop, "act", act)
    monkeypatch.setattr(one.loop, "rest", lambda _seconds: None)
    for age in (0.0, 9.0):
        aged(lease, age)
        one._reconcile({"gpu": stale().seen()})
    assert lease.config.lease_duration - 9 >= granted[1]
    assert granted[0] <= lease.config.lease_duration


def test_nothing_is_restarted_once_the_lease_is_lost(
    led: tuple[Server, LeaderElector, Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision over a large fleet takes its time; what it decides comes too late then."""
    server, lease, one = led
    decide = one.loop.decide

    def slowly(seen: dict[str, object]) -> Decision:
        decision = decide(seen)  # type: ignore[arg-type]
        aged(lease, lease.config.renew_deadline + 1)
        return decision

    monkeypatch.setattr(one.loop, "decide", slowly)
    monkeypatch.setattr(one.loop, "act", lambda *_: pytest.fail("it acts"))
    with pytest.raises(LeaseLostError):
        one._reconcile({"gpu": stale().seen()})
    assert server.count("DELETE") == 0


@pytest.mark.parametrize("protecting", [False, True])
def test_every_round_begins_with_the_lease(
    led: tuple[Server, LeaderElector, Leader], monkeypatch: pytest.MonkeyPatch, *, protecting: bool
) -> None:
    """Also while nothing is read yet, and while there is nothing to protect."""
    _server, lease, one = led
    aged(lease, lease.config.renew_deadline + 1)
    if protecting:
        monkeypatch.setattr(one, "_await_something_to_protect", lambda: None)
        monkeypatch.setattr(one.loop, "observe", lambda: pytest.fail("it looks"))
    else:
        monkeypatch.setattr(one.cache, "snapshot", lambda: pytest.fail("it looks"))
        monkeypatch.setattr(one, "_wait", lambda: pytest.fail("it waits"))
    with pytest.raises(LeaseLostError):
        one.run()
    one.cache.stop()


def test_who_does_not_lead_writes_nothing() -> None:
    """Not from the first moment on: while it waits for the LeaderElector, whatever asks for a write is refused."""
    with keeping() as (kept, server):
        kept.instead = lambda line: Said(500) if PATH in line else None
        one = Controller(server.api, FOLLOW, Identity(ELECTION), Telemetry(server.api.counters))
        ended: list[BaseException] = []

        def run() -> None:
            try:
                one.run()
            except LeaseLostError as error:
                ended.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        until(lambda: server.count(PATH), "it tries for the Lease")
        with pytest.raises(LeaseLostError):
            server.api.send(DELETE)
        assert server.count("DELETE") == 0
        kept.instead = lambda _line: None
        one.lease._over.set()
        until(lambda: ended, "it ends")
        thread.join()


def test_a_leader_begins_with_a_closed_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the leader before it wrote: its first record replaces all of that."""

    def enough(_seconds: float) -> None:
        raise _EnoughError

    with keeping() as (kept, server):
        lease = held(server)
        now = server.api.now()
        left = ControllerStatus(
            restarted=3, last_restart_at=now, breakers={"gpu": OpenBreaker(now, "9 of 10")}, writer="b"
        )
        lease.annotate({names.STATUS_ANNOTATION: left.encode()})
        one = leader(server, lease)
        monkeypatch.setattr(one.loop, "rest", enough)
        with pytest.raises(_EnoughError):
            one.run()
        record = ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION))
        assert (record.writer, record.breakers, record.restarted, record.last_restart_at) == ("a", {}, 0, None)
        one.cache.stop()
        lease.release()


class _EnoughError(Exception):
    """Ends what never ends."""


def test_what_was_restarted_is_in_the_record() -> None:
    """With when that was; what was refused, or failed, is no restart."""
    with keeping() as (kept, server):
        lease = held(server)
        one = leader(server, lease)
        one.loop.remember(RestartResult(ACTION, trouble="it failed"))
        assert one.loop.last_restart_at is None
        before = server.api.now() - timedelta(seconds=1)
        one.loop.remember(RestartResult(ACTION, note="restarted"))
        one.loop.restarter.restarted = 1
        one._publish(replace(one._state(DONE, {}), spec_hashes={"gpu": "0123456789abcdef"}, eta=7))
        record = ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION))
        assert (record.restarted, record.writer, record.eta_seconds) == (1, "a", 7)
        assert record.spec_hashes == {"gpu": "0123456789abcdef"}
        assert record.last_restart_at is not None
        assert record.last_restart_at >= before
        lease.release()
