"""The reconcile loop: what is executed of a decision, what is known of each write, and what is remembered."""

# ruff: noqa: B023 - what is defined in a loop is used in the same turn
from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, StalePod
from hook.errors import PermissionDeniedError, TerminatedError
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.informer import OutOfSync
from hook.run import loop, restarts
from hook.run.clock import Clock
from hook.run.loop import ReconcileLoop
from hook.run.report import ProgressReporter
from hook.run.restarts import SIDE_BY_SIDE, Restarter
from hook.settings import Settings
from tests.client.fixtured import Shown
from tests.client.server import EMPTY, GRANTED, PATIENCE, Said, Server, bounded, refused, serving, told, until
from tests.fixtures.cluster import LATER, cluster
from tests.fixtures.cluster import stale as stale_fleet

SUBJECT: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "uid")
DELETING: Final = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
WAVE: Final = 1 + SIDE_BY_SIDE
"""The first alone, which is granted, and the others together."""
ONCE: Final = retry.Patience(unreachable=0, denied=0)


@pytest.fixture(autouse=True)
def _not_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "ACT_SECONDS", PATIENCE)
    monkeypatch.setattr(retry, "WRITE", ONCE)


def stale(*names: str) -> list[DeletePod]:
    """Ask for restarts of stale plugins, each on a node of its own."""
    pods = (
        StalePod("dra", name, f"uid-{name}", "7", "ds", because="it is stale", load="driver-uid/0") for name in names
    )
    return [DeletePod(f"gpu-{pod.name}", pod) for pod in pods]


def wave(count: int) -> list[DeletePod]:
    """Ask for as many restarts; no name begins as another one does."""
    return stale(*(f"p{number:02}" for number in range(count)))


def decided(*actions: DeletePod) -> Decision:
    """Decide on these restarts."""
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=actions)


A, B = stale("a", "b")
OLD_DECISION_SECONDS: Final = restarts.ACT_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of the loop: its only element, which a test advances."""
    now = [1000.0]
    monkeypatch.setattr(restarts, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _seconds: None))
    return now


def looping(server: Server) -> tuple[ReconcileLoop, Cache]:
    """Return a loop at its beginning."""
    settings = Settings()
    cache = Cache(server.api, settings, retry.Patience(PATIENCE))
    reporter = ProgressReporter(EventRecorder(server.api, "run", silent=True), SUBJECT)
    return ReconcileLoop(server.api, cache, settings, reporter, Clock(LATER)), cache


def test_a_wave_is_restarted_side_by_side_once_one_was_granted() -> None:
    """The others are answered only when all of them have come: one after the other they would never be."""
    together = threading.Barrier(SIDE_BY_SIDE)

    def answer(line: str) -> Said:
        if "p00" not in line:
            together.wait(PATIENCE)
        return GRANTED

    with serving(answer) as server:
        restarter = Restarter(server.api)
        assert len(list(restarter.act(wave(WAVE), 60))) == restarter.restarted == WAVE
    assert not together.broken


@pytest.mark.parametrize("other", [refused(409), refused(422), Said(503), Said()])
def test_after_any_other_answer_one_is_restarted_alone_again(other: Said) -> None:
    """Whatever is wrong may be wrong for all of them."""
    second, together = threading.Event(), list[bool]()
    last, next_one = f"p{WAVE:02}", f"p{WAVE + 1:02}"

    def answer(line: str) -> Said:
        if next_one in line:
            second.set()
        if last in line:
            together.append(second.wait(0.2))
        return other if "p04" in line else GRANTED

    with serving(answer) as server:
        list(Restarter(server.api).act(wave(WAVE + 3), 60))
        assert server.count("DELETE") == WAVE + 3
    assert together == [False]


def test_no_try_of_a_write_begins_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next holder of the Lease may act then: each try has only what is left, however endless the patience."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(unreachable=retry.FOREVER))
    monkeypatch.setattr(retry, "JITTER_SECONDS", 0.1)
    with serving(Said()) as server:
        granted: list[float] = []
        send = server.api.send

        def noted(*request: Any) -> dict[str, Any]:  # noqa: ANN401 - as the client has them
            granted.append(request[-1])
            return send(*request)

        monkeypatch.setattr(server.api, "send", noted)
        (result,) = Restarter(server.api).act([A], 2.0)
        assert result.trouble
        assert sorted(granted, reverse=True) == granted
        assert 1 <= granted[-1] <= granted[0] <= 2


@pytest.mark.parametrize(("seconds", "expected"), [(0.9, ["p00", "p01"]), (1.1, ["p00"])])
def test_no_restart_of_an_old_decision_begins(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, seconds: float, expected: list[str]
) -> None:
    """Each deletion takes so many times the limit. What is left waits for the next decision, which may be another."""
    monkeypatch.setattr(restarts, "ACT_SECONDS", OLD_DECISION_SECONDS)
    monkeypatch.setattr(restarts, "SIDE_BY_SIDE", 1)

    def answer(_line: str) -> Said:
        clock[0] += seconds * OLD_DECISION_SECONDS
        return GRANTED

    with serving(answer) as server:
        assert expected == [result.action.pod.name for result in Restarter(server.api).act(wave(3), 60)]


def test_a_server_that_asks_for_patience_gets_it_from_the_next_decision(clock: list[float]) -> None:
    """Retry-After of a deletion holds up all that follow, and no longer than it says."""
    said = [refused(429, "slow down", **{"retry-after": "20"})]
    with serving(lambda _line: said.pop() if said else GRANTED) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act([A, B], 60)
        assert result.trouble
        for seconds, restarted in ((19.0, 0), (2.0, 2)):
            clock[0] += seconds
            list(restarter.act([A, B], 60))
            assert restarter.restarted == restarted, clock


def test_what_is_gone_or_changed_was_not_our_restart() -> None:
    """It is evaluated again, and no Event reports it."""
    for status in (404, 409):
        with serving(refused(status)) as server:
            restarter = Restarter(server.api)
            assert list(restarter.act([A], 60)) == [], status
            assert (restarter.restarted, restarter.settle(set())) == (0, []), status


def test_a_missing_permission_ends_no_controller(clock: list[float]) -> None:
    """It tries again, but not the next second. Once the permission is restored, it restarts."""
    denied = [True]
    with serving(lambda _line: refused(403) if denied else GRANTED) as server:
        restarter = Restarter(server.api, lasting=True)
        (result,) = restarter.act([A, B], 60)
        assert (bool(result.trouble), result.note, result.refused, restarter.restarted) == (True, "", "", 0)
        asked = len(server.asked)
        assert list(restarter.act([A], 60)) == []
        assert len(server.asked) == asked
        denied.clear()
        clock[0] += restarts.DENIED_SECONDS - 1
        assert list(restarter.act([A], 60)) == []
        clock[0] += 2
        assert [A] == [result.action for result in restarter.act([A], 60)]


def test_a_deletion_without_an_answer_counts_once_its_pod_is_gone() -> None:
    """The server may have done it, or not; nothing, or "gone", in answer to the next try means that it was ours."""
    # If the second answer grants it, what is gone then is the same restart.
    answers = [Said()]
    with serving(lambda _line: answers.pop() if answers else told()) as server:
        restarter = Restarter(server.api)
        for _time in range(2):
            list(restarter.act([A], 60))
        assert (restarter.settle({A.pod.uid}), restarter.settle(set()), restarter.restarted) == ([], [], 1)
    for then in (Said(), refused(404), refused(409)):
        answers = [Said()]
        with serving(lambda _line: answers.pop() if answers else then) as server:
            restarter = Restarter(server.api)
            for _time in range(2):
                list(restarter.act([A], 60))
            assert (restarter.settle({A.pod.uid}), restarter.restarted) == ([], 0), then
            (result,) = restarter.settle(set())
            assert (result.action, bool(result.note), restarter.restarted) == (A, True, 1), then
            assert restarter.settle(set()) == [], then


@pytest.mark.parametrize(("in_sync", "ours"), [(False, 1), (True, 0)])
def test_a_deletion_without_an_answer_is_given_up_by_a_cache_in_sync_only(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, in_sync: bool, ours: int
) -> None:
    """A pod that is still live after half a minute was not deleted. A cache that is out of sync may not show that."""
    (pod,) = stale_fleet().of("plugin-pod")
    action = replace(A, pod=replace(A.pod, uid=pod["metadata"]["uid"]))
    out_of_sync = OutOfSync("pods", clock[0], "refused")
    with serving(lambda line: Said() if "DELETE" in line else EMPTY) as server:
        looped, _cache = looping(server)
        list(looped.restarter.act([action], 60))
        assert looped.restarter.unanswered
        clock[0] += 31
        monkeypatch.setattr(Cache, "out_of_sync", None if in_sync else out_of_sync)
        looped.decide(stale_fleet().seen())
        monkeypatch.setattr(Cache, "out_of_sync", None)
        looped.decide(stale_fleet().only("plugin-pod").seen())
    assert (looped.restarter.restarted, len(looped.memory.records)) == (ours, ours)


def test_a_signal_forgets_no_restart_that_was_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions that are on their way get a moment. The signal then ends the process, with these in its report."""
    monkeypatch.setattr(restarts, "JOIN_SECONDS", PATIENCE)
    together = threading.Barrier(SIDE_BY_SIDE)

    def answer(line: str) -> Said:
        if "p00" in line:
            return GRANTED
        if together.wait(PATIENCE) == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        return refused(409) if "p05" in line else GRANTED

    def end(number: int, _frame: object) -> None:
        raise TerminatedError(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with serving(answer) as server:
            looped, _cache = looping(server)
            with pytest.raises(TerminatedError):
                looped.act(decided(*wave(WAVE)), 60)
    finally:
        signal.signal(signal.SIGTERM, before)
    names = {record.pod for record in looped.memory.records.values()}
    assert names == {f"uid-p{number:02}" for number in range(WAVE)} - {"uid-p05"}
    assert looped.restarter.restarted == WAVE - 1


@pytest.mark.parametrize("last", [refused(404), refused(409), refused(429), Said(503)])
def test_one_lost_answer_among_the_tries_is_enough(monkeypatch: pytest.MonkeyPatch, last: Said) -> None:
    """The first try may have deleted the pod, whatever the answer to the next one is."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(unreachable=1.0))
    answers = [Said()]
    with serving(lambda _line: answers.pop() if answers else last) as server:
        restarter = Restarter(server.api)
        list(restarter.act([A], 60))
        assert server.count("DELETE") > 1
        assert [A] == [result.action for result in restarter.settle(set())]


def test_nothing_is_restarted_while_the_cache_is_out_of_sync() -> None:
    """What was decided on is of before; writes may get through where reads do not."""
    up = threading.Event()
    up.set()

    def answer(line: str) -> Said:
        if "GET" not in line:
            return told()
        return Said() if not up.is_set() else EMPTY if "limit" in line else Said(200)

    with serving(answer) as server:
        looped, cache = looping(server)
        cache.start()
        until(lambda: cache.synced and cache.out_of_sync is None, "all is read")
        for connected in (False, True):
            (up.set if connected else up.clear)()
            until(lambda: (cache.out_of_sync is None) is connected, "it notices")
            looped.act(decided(A), 60)
            assert server.count("DELETE") == connected
        cache.stop()


def test_nothing_is_decided_before_what_is_new_is_read() -> None:
    """The pods of a plugin that is seen for the first time are not listed yet: they would look missing."""
    blocker = threading.Event()
    shown = Shown(cluster())

    def held(line: str) -> None:
        if "kubelet-plugin" in line:
            blocker.wait(PATIENCE)

    shown.instead = held
    with serving(shown) as server:
        looped, cache = looping(server)
        cache.start()
        until(lambda: cache.synced, "what is known to matter is read")
        assert looped.observe() is None
        blocker.set()
        until(lambda: cache.synced, "the new pods are read")
        assert (found := looped.observe()) is not None
        cache.stop()
    assert len(found.plugin_pods) == 1


def test_a_wave_that_admission_refuses_is_answered_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """Each deletion in the words of its refusal, which names no permission; the others go on. It ends no process."""
    webhook = 'admission webhook "freeze.example.com" denied the request: no'
    for lasting, said in product((False, True), (refused(403, webhook), refused(422, webhook))):
        caplog.clear()
        with serving(lambda line: GRANTED if "/p00" in line or "/p03" in line else said) as server:
            results = list(Restarter(server.api, lasting=lasting).act(wave(WAVE + 3), 60))
            assert len(results) == server.count("DELETE") == WAVE + 3, "each is asked for once, and nothing else"
        granted = {result.action.pod.name for result in results if result.note}
        refusals = [result.refused for result in results if not result.note]
        assert granted == {"p00", "p03"}
        assert all(webhook in refusal and "permission" not in refusal for refusal in refusals), refusals
        assert "permission" not in caplog.text


def test_a_missing_permission_ends_a_run() -> None:
    """It is the same for every pod. What was granted before is remembered."""
    with serving(lambda line: GRANTED if "/p00" in line else refused(403)) as server:
        looped, _cache = looping(server)
        with pytest.raises(PermissionDeniedError, match="permission missing: delete pods in namespace dra"):
            looped.act(decided(*wave(WAVE)), 60)
        assert [("uid-p00", "")] == [(record.pod, record.refused) for record in looped.memory.records.values()]


def test_two_decisions_are_a_second_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much changes meanwhile. What changes later is decided about at once."""
    moments, slept = [10.0, 10.25, 17.0], list[float]()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: moments.pop(0), sleep=slept.append))
    with serving(EMPTY) as server:
        rounds, cache = looping(server)
        rounds.decide(cluster().seen())
        for _time in range(2):
            cache._note_change(None, None)
            rounds.rest(PATIENCE)
    assert slept == [0.75, 0.0]


def test_a_change_ends_the_wait_for_it_and_no_other_one() -> None:
    """A change before the wait, or during it. A loop that never waits again takes a whole CPU."""
    with serving(EMPTY) as server:
        rounds, cache = looping(server)
        cache._note_change(None, None)
        with bounded():
            rounds.rest(PATIENCE)
            threading.Timer(0.05, cache._note_change, (None, None)).start()
            rounds.rest(PATIENCE)
        began = time.monotonic()
        rounds.rest(0.2)
        assert time.monotonic() - began >= 0.2


def test_calls_at_once_run_side_by_side() -> None:
    """Each result or error comes back in the place of its item."""
    together = threading.Barrier(3)

    def work(item: int) -> int:
        together.wait()
        return 1 // item

    one, none, third = restarts.at_once(work, [1, 0, 2])
    assert (one, type(none), third) == (1, ZeroDivisionError, 0)
