"""What is done beside the loop: deletions of one wave together, and events that nobody waits for."""

from __future__ import annotations

import json
import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from hook import cli
from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, RolloutRestart, StalePod
from hook.errors import PermissionDeniedError, RejectedError, TerminatedError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.client import at_once
from hook.kube.events import EventRecorder, ObjectReference
from hook.run import loop
from hook.run.job import Runner
from hook.run.loop import SIDE_BY_SIDE, ReconcileLoop, Restarter
from hook.run.report import ProgressReporter
from tests.client.server import Said, serving
from tests.fixtures.cluster import LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import FrameType

    from hook.run.job import Outcome
    from hook.run.report import RestartResult
    from tests.client.server import Server

PATIENCE: Final = 60.0
SUBJECT: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "uid")
GRANTED: Final = Said(200, json.dumps({"kind": "Status"}).encode())


def refused(status: int) -> Said:
    """Refuse as an API server does."""
    return Said(status, json.dumps({"kind": "Status", "message": "no"}).encode())


def stale(count: int) -> list[DeletePod]:
    """Ask for restarts of stale plugins, each on a node of its own."""
    pods = (
        StalePod("dra", f"p{n}", f"uid-{n}", "7", "ds", because="it is stale", driver_run="run") for n in range(count)
    )
    return [DeletePod(f"gpu-{number}", pod, "gpu") for number, pod in enumerate(pods)]


ROLLOUT: Final = RolloutRestart(
    "dra", "plugin", "ds", LATER, tuple((one.node, one.pod) for one in stale(2)), "gpu"
)  # fmt: skip


class Counting:
    """Answers deletions, and keeps how many were under way at once."""

    def __init__(self, answer: Callable[[str], Said]) -> None:
        self._answer, self._lock = answer, threading.Lock()
        self._now = self.most = 0

    def __call__(self, line: str) -> Said:
        """Answer one request."""
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            return self._answer(line)
        finally:
            with self._lock:
                self._now -= 1


def test_a_wave_is_restarted_side_by_side_once_one_was_granted() -> None:
    """The others are answered only when all of them have come: one after the other they would never be."""
    together = threading.Barrier(SIDE_BY_SIDE)

    def answer(line: str) -> Said:
        if "p0" not in line:
            together.wait(PATIENCE)
        return GRANTED

    with serving(answer) as server:
        restarter = Restarter(server.api)
        results = list(restarter.act(stale(1 + SIDE_BY_SIDE), 60))
    assert (1 + SIDE_BY_SIDE, 1 + SIDE_BY_SIDE) == (len(results), restarter.restarted)
    assert not together.broken


def test_whoever_is_not_granted_one_asks_for_one_at_a_time() -> None:
    """Pods that changed meanwhile, here: a server that refuses is not pressed."""
    counting = Counting(lambda _line: refused(409))
    with serving(counting) as server:
        assert list(Restarter(server.api).act(stale(5), 60)) == []
    assert counting.most == 1


@pytest.mark.parametrize("status", [403, 404, 409, 422, 503])
@pytest.mark.parametrize("nth", [0, 3, 7])
def test_after_any_other_answer_one_is_asked_for_alone(monkeypatch: pytest.MonkeyPatch, status: int, nth: int) -> None:
    """Whatever it is, and whichever of a wave it answers; what is granted then widens the way again."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    monkeypatch.setattr(loop, "ACT_SECONDS", PATIENCE)
    waves: list[int] = []

    def noted(work: Callable[[DeletePod], object], items: Sequence[DeletePod]) -> list[object]:
        waves.append(len(items))
        return list(at_once(work, items))

    def answer(line: str) -> Said:
        if "POST" in line:
            return Said(200, json.dumps({"kind": "SelfSubjectAccessReview", "status": {"allowed": True}}).encode())
        return refused(status) if f"/p{1 + nth}" in line else GRANTED

    monkeypatch.setattr(loop, "at_once", noted)
    with serving(answer) as server:
        restarter = Restarter(server.api)
        # No name of another pod begins as the refused one's does.
        list(restarter.act(stale(9) + [one for one in stale(99) if one.pod.name > "p9"][:9], PATIENCE))
    assert [1, 8, 1, 8] == waves
    assert restarter.restarted == 17


def test_what_is_decided_is_done_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is decided anew, from what is there then."""
    monkeypatch.setattr(loop, "ACT_SECONDS", -1.0)
    with serving(lambda _line: GRANTED) as server:
        assert list(Restarter(server.api).act(stale(3), 60)) == []
        assert server.asked == []
    monkeypatch.setattr(loop, "ACT_SECONDS", 0.0)
    with serving(lambda _line: GRANTED) as server:
        assert 1 >= len(list(Restarter(server.api).act(stale(3), 60)))


@pytest.mark.parametrize("left", [0.0, -5.0])
def test_a_write_has_a_chance_when_the_time_is_nearly_up(left: float) -> None:
    """A second at least: what is decided in the last moment is done."""
    with serving(lambda _line: GRANTED) as server:
        (result,) = Restarter(server.api).act(stale(1), left)
        assert result.note


def test_only_a_missing_permission_is_asked_about() -> None:
    """What the server refuses for another reason is refused by its own words."""
    with serving(lambda _line: refused(422)) as server:
        (result,) = Restarter(server.api).act(stale(1), 60)
        assert (result.refused, result.trouble, server.count("POST")) == ("no", "", 0)


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_gone_or_changed_was_not_our_restart(status: int) -> None:
    """It is looked at again, and no event reports it."""
    with serving(lambda _line: refused(status)) as server:
        restarter = Restarter(server.api)
        assert list(restarter.act([*stale(1), ROLLOUT], 60)) == []
        assert (restarter.restarted, restarter.settle(set())) == (0, [])


def test_a_rollout_without_an_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look shows whether it continues: nothing is counted before."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0))
    answers = [Said()]
    with serving(lambda _line: answers.pop() if answers else GRANTED) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act([ROLLOUT], 60)
        assert (result.note, bool(result.trouble), restarter.restarted) == ("", True, 0)
        (result,) = restarter.act([ROLLOUT], 60)
        assert (bool(result.note), result.trouble, restarter.restarted) == (True, "", 2)


def test_a_refused_rollout_ends_a_job_and_no_controller() -> None:
    """No other restart follows it; a controller tries again, but not the next second."""
    with serving(lambda _line: refused(422)) as server:
        with pytest.raises(RejectedError):
            list(Restarter(server.api).act([ROLLOUT], 60))
        restarter = Restarter(server.api, lasting=True)
        (result,) = restarter.act([ROLLOUT, *stale(1)], 60)
        assert (result.note, result.trouble, restarter.restarted) == ("", "no", 0)
        assert list(restarter.act(stale(1), 60)) == []
        assert server.count("DELETE") == 0


def test_what_was_granted_is_known_although_something_beside_it_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A permission that is taken away in the middle of a wave: the restarts before and beside it were made."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=5, denied=0))

    def answer(line: str) -> Said:
        if "POST" in line:
            return Said(200, json.dumps({"kind": "SelfSubjectAccessReview", "status": {"allowed": False}}).encode())
        return refused(403) if "p1" in line else GRANTED

    found: list[RestartResult] = []
    with serving(answer) as server:
        restarter = Restarter(server.api)
        results = restarter.act(stale(4), 60)
        with pytest.raises(PermissionDeniedError):
            found.extend(results)
    nodes = [one.action.node for one in found if isinstance(one.action, DeletePod)]
    assert (3, ["gpu-0", "gpu-2", "gpu-3"]) == (restarter.restarted, nodes)


def test_restarts_are_told_although_what_comes_next_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are all that some deployers show."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=5, denied=0))

    def answer(line: str) -> Said:
        return refused(403) if "POST" in line or "p1" in line else GRANTED

    told: list[bytes] = []

    def wrote(line: str, body: bytes) -> Said:
        if "events" in line:
            told.append(body)
        return answer(line) if "DELETE" in line else GRANTED

    with serving(answer, wrote=wrote) as server:
        rounds, recorder = _rounds(server)
        decision = Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=tuple(stale(4)))
        with pytest.raises(PermissionDeniedError):
            rounds.act(decision, 60)
        recorder.flush()
    assert [True] * 3 == [any(f"plugin pod p{number}:".encode() in one for one in told) for number in (0, 2, 3)]


def test_who_is_told_to_stop_knows_what_was_granted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes while three deletions are under way, whose answers come a moment later: all count."""
    monkeypatch.setattr(events, "STOP_SECONDS", PATIENCE)
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0))
    together, stopped = threading.Barrier(3), threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.set()
        raise TerminatedError(number)

    def wrote(line: str, _body: bytes) -> Said:
        if "DELETE" in line and "p0" not in line:
            if together.wait(PATIENCE) == 0:
                signal.pthread_kill(main, signal.SIGTERM)
            stopped.wait(PATIENCE)
        return GRANTED

    main, before = threading.get_ident(), signal.signal(signal.SIGTERM, stop)
    try:
        with serving(lambda _line: GRANTED, wrote=wrote) as server:
            rounds, recorder = _rounds(server)
            with pytest.raises(TerminatedError):
                rounds.act(Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=tuple(stale(4))), 60)
            recorder.flush()
            assert (rounds.restarter.restarted, server.count("POST")) == (4, 4)
            assert len(rounds.memories["gpu"].restarts) == 4
    finally:
        signal.signal(signal.SIGTERM, before)


def _rounds(server: Server) -> tuple[ReconcileLoop, EventRecorder]:
    """Give rounds that have begun to look at nothing, and who tells of them."""
    settings, recorder = Settings(drivers=("gpu",)), EventRecorder(server.api, "run", silent=False)
    cache = Cache(server.api, [], settings, retry.WRITE)
    return ReconcileLoop(server.api, cache, settings, ProgressReporter(recorder, SUBJECT), server.api.now()), recorder


def test_nobody_waits_for_an_event() -> None:
    """A server that takes its time for events holds up no restart."""
    slow = threading.Event()

    def answer(line: str) -> Said:
        if "POST" in line:
            slow.wait(PATIENCE)
        return GRANTED

    with serving(answer) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for number in range(9):
            recorder.event(SUBJECT, "Restarted", "note", about=str(number))
        (result,) = Restarter(server.api).act(stale(1), 60)
        assert (result.note != "", server.count("POST") <= 1) == (True, True)
        slow.set()
        recorder.flush()
        assert server.count("POST") == 9


def test_a_slow_server_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the rest of the queue is dropped, and so is what a last flush cannot write."""
    monkeypatch.setattr(events, "FLUSH_SECONDS", 0.1)
    monkeypatch.setattr(events, "WRITE_SECONDS", PATIENCE)
    hangs = threading.Event()

    def answer(_line: str) -> Said:
        hangs.wait(PATIENCE)
        return GRANTED

    with serving(answer) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for number in range(99):
            recorder.event(SUBJECT, "Restarted", "note", about=str(number))
        began = time.monotonic()
        recorder.flush()
        recorder.event(SUBJECT, "End", "note")
        recorder.shutdown(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2  # a fraction of a second; with an answer it were all of it
        hangs.set()
    assert server.count("POST") <= 1


def test_who_is_told_to_stop_writes_what_waits_or_gives_up_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program ends as it does by a signal; the server takes its time for the first event."""
    monkeypatch.setattr(events, "STOP_SECONDS", PATIENCE)
    monkeypatch.setattr(cli, "ignore_signals", lambda: None)

    def run(self: Runner, _delegated_to: object) -> Outcome:
        for number in range(5):
            self._recorder.event(SUBJECT, "Restarted", "note", about=str(number))
        raise TerminatedError(signal.SIGTERM)

    def answer(line: str) -> Said:
        time.sleep(0.5 if "POST" in line else 0)
        return GRANTED

    monkeypatch.setattr(Runner, "run", run)
    where = {"service_account_dir": str(tmp_path), "termination_log": str(tmp_path / "none")}
    values = {"job_name": "", "job_namespace": "", "log_format": "json", **where}
    with serving(answer) as server:
        assert cli._run(server.api, Settings(drivers=("gpu",)), values) == 128 + signal.SIGTERM
        assert server.count("POST") == 5


def test_who_is_told_to_stop_waits_for_no_server_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody waits for the end; the log has what the events would tell."""
    monkeypatch.setattr(events, "WRITE_SECONDS", PATIENCE)
    hangs = threading.Event()

    def answer(_line: str) -> Said:
        hangs.wait(PATIENCE)
        return GRANTED

    with serving(answer) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for number in range(5):
            recorder.event(SUBJECT, "Restarted", "note", about=str(number))
        began = time.monotonic()
        recorder.stop()
        assert time.monotonic() - began < PATIENCE / 2  # half a second; with an answer it were all of it
        assert server.count("POST") <= 1
        hangs.set()


def test_events_keep_their_order_and_no_more_wait_than_the_queue_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Event that cannot be written, here because its object has no name, is no hindrance for the next one."""
    monkeypatch.setattr(events, "FLUSH_SECONDS", PATIENCE)
    monkeypatch.setattr(events, "QUEUE_LIMIT", 3)
    first, blocker = threading.Event(), threading.Event()
    written: list[str] = []

    def wrote(_line: str, body: bytes) -> Said:
        first.set()
        blocker.wait(PATIENCE)
        written.append(json.loads(body)["message"])
        return GRANTED

    with serving(lambda _line: GRANTED, wrote=wrote) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        recorder.event(SUBJECT, "Restarted", "0", about="0")
        assert first.wait(PATIENCE)
        broken = replace(SUBJECT, name=None)  # type: ignore[arg-type]
        for target, number in ((broken, 1), (SUBJECT, 2), (SUBJECT, 3), (SUBJECT, 4)):
            recorder.event(target, "Restarted", str(number), about=str(number))
        blocker.set()
        recorder.flush()
    assert ["0", "2", "3"] == written
