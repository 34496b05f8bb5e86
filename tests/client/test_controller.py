"""The controller: what it may do while it leads, what it reports, and what ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.decide.workloads import Affected
from hook.errors import ApiError, LeaseLostError
from hook.kube import events
from hook.kube.cache import Cache
from hook.kube.election import LeaderElectionConfig, LeaderElector
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.kube.resources import PODS
from hook.objects import Snapshot
from hook.objects.stacks import GPU_OPERATOR
from hook.run import controller
from hook.run.controller import (
    QUIET_SECONDS,
    SUMMARY_SECONDS,
    Controller,
    Identity,
    Leader,
    StateReporter,
    own_identity,
)
from hook.run.loop import TICK_SECONDS
from hook.run.report import ProgressReporter
from hook.run.restarts import RestartResult
from hook.run.taints import TaintKeeper
from hook.run.telemetry import ControllerState, Telemetry
from tests.client.runs import DONE, PLUGIN
from tests.client.server import PATIENCE, Said, Server, until
from tests.client.shown import NAME, NAMESPACE, held, keeping
from tests.fixtures.cluster import LATER, Cluster, cluster, stale
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.statuses import Recorder
from tests.unit.decide import patches

ELECTION: Final = LeaderElectionConfig(NAMESPACE, NAME, "a")
OWNER: Final = ObjectReference("apps/v1", "Deployment", NAMESPACE, "post", "uid")
STATUS: Final = f"PATCH /api/v1/namespaces/{NAMESPACE}/configmaps/post-status"

Led = tuple[Server, LeaderElector, Leader]


def aged(lease: LeaderElector, seconds: float) -> None:
    """Let so much time pass since its renewal."""
    lease._renewed_at = time.monotonic() - seconds


@pytest.fixture
def led() -> Iterator[Led]:
    """Lead on a cluster that shows nothing."""
    with keeping() as (_shown, server):
        lease = held(server)
        who = Identity(lease.config, status_name="post-status")
        leader = Leader(server.api, FOLLOWING, who, lease, Telemetry(server.api.counters))
        yield server, lease, leader
        leader.cache.stop()
        lease.release()


def test_restarts_have_what_is_left_of_the_lease(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since its last renewal, and not since this reconcile began: after it another replica may act."""
    _server, lease, leader = led
    granted: list[float] = []

    def act(_decision: Decision, left: float) -> list[RestartResult]:
        granted.append(left)
        return []

    monkeypatch.setattr(leader.loop, "act", act)
    monkeypatch.setattr(leader.loop, "rest", lambda _seconds: None)
    monkeypatch.setattr(lease, "_clock", lambda: 1009.0)
    lease._renewed_at = 1000.0
    leader._reconcile(stale().seen())
    assert granted == [lease.config.lease_duration - 9]


def test_nothing_is_restarted_once_the_lease_is_lost(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision over a large fleet takes its time; what it decides comes too late then."""
    server, lease, leader = led
    decided = leader.loop.decide

    def slowly(seen: Snapshot) -> Decision:
        aged(lease, lease.config.renew_deadline + 1)
        return decided(seen)

    monkeypatch.setattr(leader.loop, "decide", slowly)
    with pytest.raises(LeaseLostError):
        leader._reconcile(stale().seen())
    assert server.count("DELETE") == 0


@pytest.mark.parametrize(("lost", "written"), [(None, 1), (OutOfSync("pods", 0.0, "refused"), 0)])
def test_the_state_of_a_stale_cache_is_not_written(lost: OutOfSync | None, written: int, led: Led) -> None:
    """The status object keeps what was known. A gate must not see a success that may be over."""
    server, _lease, leader = led
    leader._publish(replace(state(DONE), lost=lost), cluster().seen())
    assert server.count(STATUS) == written


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        pytest.param(stale(), TICK_SECONDS, id="restarts"),
        pytest.param(cluster().change("driver-pod", patches.OUTDATED), TICK_SECONDS, id="waits"),
        pytest.param(cluster(), QUIET_SECONDS, id="done"),
        pytest.param(Cluster(), QUIET_SECONDS, id="nothing to protect"),
    ],
)
def test_how_long_it_waits_for_a_change(
    led: Led, monkeypatch: pytest.MonkeyPatch, found: Cluster, seconds: float
) -> None:
    """A moment while grace periods run, and longer where only a change of the cluster matters."""
    rested: list[float] = []
    leader = led[2]
    monkeypatch.setattr(leader.loop, "rest", rested.append)
    monkeypatch.setattr(leader.loop, "act", lambda *_: [])
    leader._reconcile(found.seen())
    assert rested == [seconds]


def test_each_reconcile_is_shown_in_metrics(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the outage that it knows of, and the oldest device taint."""
    leader = led[2]
    monkeypatch.setattr(leader.loop, "rest", lambda _seconds: None)
    monkeypatch.setattr(Cache, "out_of_sync", OutOfSync("pods", time.monotonic() - 5, "refused"))
    monkeypatch.setattr(TaintKeeper, "oldest", LATER)
    leader._reconcile(cluster().seen())
    value = leader._telemetry.registry.get_sample_value
    assert value("gpu_operator_post_oldest_device_taint_timestamp_seconds") == LATER.timestamp()
    assert (value("gpu_operator_post_cache_out_of_sync_seconds") or 0) >= 5


def test_a_leader_that_cannot_read_the_cluster_ends_with_its_lease(led: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while there is nothing to decide on. Each turn is progress for the liveness probe."""
    _server, lease, leader = led
    turns: list[object] = []

    def no_answer() -> None:
        turns.append(leader._telemetry.health.lost)
        assert len(turns) < 3, "it continues without its Lease"
        if len(turns) > 1:
            aged(lease, lease.config.renew_deadline + 1)

    lost = OutOfSync("pods", time.monotonic() - 5, "refused")
    monkeypatch.setattr(Cache, "out_of_sync", lost)
    monkeypatch.setattr(leader.loop, "observe", no_answer)
    with pytest.raises(LeaseLostError):
        leader.run()
    assert turns == [None, lost]


def standby(server: Server) -> tuple[Controller, threading.Thread]:
    """Return a controller that runs in a thread until it loses the Lease."""
    running = Controller(server.api, FOLLOWING, Identity(ELECTION), Telemetry(server.api.counters))

    def run() -> None:
        with suppress(LeaseLostError):
            running.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return running, thread


def test_a_standby_writes_nothing() -> None:
    """From the first moment on: while it waits for the Lease, whatever asks for a write is refused."""
    with keeping() as (shown, server):
        shown.instead = lambda line: Said(500) if "/leases" in line else None
        running, thread = standby(server)
        until(lambda: server.count("/leases"), "it tries for the Lease")
        with pytest.raises(LeaseLostError):
            server.api.send("delete", PODS.select("dra"), "a", {})
        running.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_standby_without_an_answer_about_the_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster's certificate may have been replaced; a new process reads it."""
    monkeypatch.setattr(controller, "SILENT_SECONDS", 0.1)
    with keeping() as (shown, server):
        shown.instead = lambda _line: Said()
        running = Controller(server.api, FOLLOWING, Identity(ELECTION), Telemetry(server.api.counters))
        with pytest.raises(ApiError, match="no answer about the Lease"):
            running.run()
        running.stop()


def test_events_are_written_before_the_lease_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next leader does not report what this one did; without the Lease nothing is written."""
    monkeypatch.setattr(events, "STOP_SECONDS", PATIENCE)
    stopping = threading.Event()
    with keeping() as (shown, server):
        shown.instead = lambda line: None if "events" not in line or stopping.wait(PATIENCE) else Said()
        running, _thread = standby(server)
        until(lambda: running._leading is not None, "it leads")
        assert running._leading is not None
        for number in range(4):
            running._leading._reporter._progress.recorder.event(PLUGIN, "Restarted", "note", about=str(number))
        threading.Timer(0.05, stopping.set).start()
        leader = partial(running._telemetry.registry.get_sample_value, "gpu_operator_post_leader")
        assert leader() == 1
        running.stop()
        assert leader() == 0
        assert server.count("PATCH /api/v1/namespaces/dra/events") == 4
        until(lambda: shown.holder == "", "the Lease is released")


def test_a_process_never_leads_with_the_identity_of_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that restarts has the same host name, and pods on the host's network share it."""
    monkeypatch.setenv("HOSTNAME", "pod-a")
    one, other = own_identity(), own_identity()
    assert (one != other, one[:6], other[:6]) == (True, "pod-a_", "pod-a_")


def state(decision: Decision, restarted: int = 0) -> ControllerState:
    """Return the state after this decision."""
    return ControllerState(decision, LATER, Affected(), restarted=restarted)


REFRESHED: Final = state(replace(DONE, reason=Reason.REFRESHED), 2)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(state(DONE), [], id="at rest"),
        pytest.param(
            state(replace(DONE, phase=Phase.FAIL, reason=Reason.UPGRADE_FAILED)),
            [("Deployment", "UpgradeFailed", "", True)],
            id="failed",
        ),
        pytest.param(
            REFRESHED, [(kind, "Refreshed", "", False) for kind in ("Deployment", "DaemonSet")], id="refreshed"
        ),
    ],
)
def test_each_change_is_reported_once(shown: ControllerState, expected: list[tuple[str, str, str, bool]]) -> None:
    """What fails, and what was refreshed; nothing of a fleet at rest."""
    recorder = Recorder()
    reporter = StateReporter(ProgressReporter(recorder, OWNER), GPU_OPERATOR)
    for _time in range(3):
        reporter.report(shown, [PLUGIN])
    assert recorder.heard == expected


@pytest.mark.parametrize(
    ("shown", "count"),
    [(state(replace(DONE, phase=Phase.WAIT, reason=Reason.NODES_PENDING)), 2), (state(DONE), 0)],
)
def test_a_fleet_that_waits_gets_a_summary_from_time_to_time(
    shown: ControllerState, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Deployment shows what the controller waits for, minutes apart. A fleet at rest has none."""
    recorder, now = Recorder(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reporter = StateReporter(ProgressReporter(recorder, OWNER), GPU_OPERATOR)
    for _second in range(int(2 * SUMMARY_SECONDS) + 1):
        now[0] += 1
        reporter.report(shown, [PLUGIN])
    assert [("Deployment", "NodesPending", "", False)] * count == recorder.heard
