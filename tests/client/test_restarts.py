"""Restarts: what is executed of a decision, and what is known of each deletion."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase, StalePlugin
from hook.errors import ApiError, TerminatedError
from hook.kube import retry
from hook.run import restarts
from hook.run.restarts import ACT_SECONDS, DENIED_SECONDS, SIDE_BY_SIDE, Restarter
from tests.client.runs import runner, stale_pods
from tests.client.server import GRANTED, PATIENCE, Said, refused, serving, told

WAVE = SIDE_BY_SIDE + 1
A, B = stale_pods("a", "b")
WEBHOOK = 'admission webhook "freeze.example.com" denied the request: no'


def wave(count: int) -> list[StalePlugin]:
    """Ask for as many restarts; no name begins as another one does."""
    return stale_pods(*(f"p{number:02}" for number in range(count)))


def decided(*actions: StalePlugin) -> Decision:
    """Decide on these restarts."""
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=actions)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of restarts: its only element, which a test advances."""
    now = [1000.0]
    monkeypatch.setattr(restarts, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


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
def test_after_any_other_answer_one_is_restarted_alone_again(other: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong may be wrong for all of them: the next one is answered before another one is asked for."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(0, 0))
    with serving(lambda line: other if "p04" in line else GRANTED) as server:
        for result in Restarter(server.api).act(wave(WAVE + 3), 60):
            if result.action.pod.name == f"p{WAVE:02}":
                assert server.count(f"p{WAVE + 1:02}") == 0
        assert server.count(f"p{WAVE + 2:02}") == 1


def test_a_deletion_is_logged_with_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    """Programs find each restart in the log as JSON."""
    caplog.set_level(logging.INFO)
    with serving(GRANTED) as server:
        assert len(list(Restarter(server.api).act([A], 60))) == 1
    (record,) = caplog.records
    assert vars(record)["facts"] == {"node": A.node, "pod": "a", "action": "delete"}


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
    monkeypatch.setattr(restarts, "SIDE_BY_SIDE", 1)

    def answer(_line: str) -> Said:
        clock[0] += seconds * ACT_SECONDS
        return GRANTED

    with serving(answer) as server:
        assert expected == [result.action.pod.name for result in Restarter(server.api).act(wave(3), 60)]


@pytest.mark.parametrize(
    ("first", "lasting", "seconds", "words"),
    [
        pytest.param(refused(429, "slow down", **{"retry-after": "20"}), False, 20.0, "slow down", id="Retry-After"),
        pytest.param(refused(403), True, DENIED_SECONDS, "permission missing", id="no permission, in a controller"),
        pytest.param(refused(401), True, DENIED_SECONDS, "answered 401", id="credentials refused, in a controller"),
    ],
)
def test_what_follows_waits_as_long_as_the_first_answer_says(  # noqa: PLR0913, PLR0917 - with fixtures
    first: Said, lasting: bool, seconds: float, words: str, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next decisions, too, and no longer: after it, all is restarted. Nothing ends the controller."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(0, 0))
    answers = [first]
    with serving(lambda _line: answers.pop() if answers else GRANTED) as server:
        restarter = Restarter(server.api, lasting=lasting)
        (result,) = restarter.act([A, B], 60)
        assert (words in result.trouble, result.note, result.refused, restarter.restarted) == (True, "", "", 0)
        asked = len(server.asked)
        clock[0] += seconds - 1
        assert (list(restarter.act([A, B], 60)), len(server.asked)) == ([], asked)
        clock[0] += 2
        assert [A, B] == [result.action for result in restarter.act([A, B], 60)]


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_gone_or_changed_was_not_our_restart(status: int) -> None:
    """It is evaluated again, and no Event reports it."""
    with serving(refused(status)) as server:
        restarter = Restarter(server.api)
        assert list(restarter.act([A], 60)) == []
        assert (restarter.restarted, restarter.settle(set())) == (0, [])


@pytest.mark.parametrize("last", [Said(), Said(503), refused(404), refused(409), refused(429), told()])
def test_a_deletion_without_an_answer_counts_once_its_pod_is_gone(last: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first try may have deleted the pod, or not, whatever the answer to the next one is. It counts once."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(unreachable=1.0))
    answers, granted = [Said()], last.status == 200
    with serving(lambda _line: answers.pop() if answers else last) as server:
        restarter = Restarter(server.api)
        list(restarter.act([A], 60))
        assert server.count("DELETE") > 1
        assert (restarter.settle({A.pod.uid}), restarter.restarted) == ([], granted)
        assert [result.action for result in restarter.settle(set())] == [A] * (not granted)
        assert (restarter.settle(set()), restarter.restarted) == ([], 1)


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
            looped = runner(server)._loop
            with pytest.raises(TerminatedError):
                looped.act(decided(*wave(WAVE)), 60)
    finally:
        signal.signal(signal.SIGTERM, before)
    names = {record.pod for record in looped.memory.records.values()}
    assert names == {f"uid-p{number:02}" for number in range(WAVE)} - {"uid-p05"}
    assert looped.restarter.restarted == WAVE - 1


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("status", [403, 422])
def test_a_wave_that_admission_refuses_is_answered_at_once(
    status: int, lasting: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each deletion in the words of its refusal, which names no permission; the others go on. It ends no process."""
    said = refused(status, WEBHOOK)
    with serving(lambda line: GRANTED if "/p00" in line or "/p03" in line else said) as server:
        results = list(Restarter(server.api, lasting=lasting).act(wave(WAVE + 3), 60))
        assert len(results) == server.count("DELETE") == WAVE + 3, "each is asked for once, and nothing else"
    granted = {result.action.pod.name for result in results if result.note}
    assert granted == {"p00", "p03"}
    assert all(WEBHOOK in result.refused for result in results if not result.note), results
    assert "permission" not in caplog.text


@pytest.mark.parametrize(
    ("said", "words"),
    [(refused(403), "permission missing: delete pods in namespace dra"), (refused(401), "answered 401")],
)
def test_an_account_that_is_refused_ends_a_run(said: Said, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same for every pod. What was granted before is remembered."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(0, 0))
    with serving(lambda line: GRANTED if "/p00" in line else said) as server:
        looped = runner(server)._loop
        with pytest.raises(ApiError, match=words):
            looped.act(decided(*wave(WAVE)), 60)
        assert [("uid-p00", "")] == [(record.pod, record.refused) for record in looped.memory.records.values()]


def test_calls_at_once_run_side_by_side() -> None:
    """Each result or error comes back in the place of its item."""
    together = threading.Barrier(3)

    def work(item: int) -> int:
        together.wait()
        return 1 // item

    one, none, third = restarts.at_once(work, [1, 0, 2])
    assert (one, type(none), third) == (1, ZeroDivisionError, 0)
