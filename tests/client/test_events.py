"""Events: written in order and in the background, on the Job and on DaemonSets; and the own objects."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import ApiError, LeaseLostError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.own import Job, own_job
from hook.kube.resources import Resource
from hook.objects.stacks import GPU_OPERATOR
from hook.run.job import Runner
from hook.run.report import next_step
from hook.settings import Settings
from tests.client.server import GRANTED, PATIENCE, SILENT, Said, Server, bounded, refused, serving, told
from tests.fixtures.objects import at

SUBJECT: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "plugin-uid")
JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "job-uid")
LATE: Final = Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up")
REFRESHED: Final = Decision(Phase.DONE, Reason.REFRESHED, "all is done")


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUSH_SECONDS", "STOP_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(events, name, PATIENCE)


class Writing:
    """An API server that keeps Events, and may hold back its first answer."""

    def __init__(self, *, held: bool = False) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.order: list[str] = []
        """Messages in the order of their writes."""
        self.first, self.go = threading.Event(), threading.Event()
        if not held:
            self.go.set()

    def __call__(self, line: str, body: bytes) -> Said:
        """Create or patch an Event."""
        self.first.set()
        self.go.wait(PATIENCE)
        event = json.loads(body)
        self.order.append(event["message"])
        if line.startswith("POST"):
            self.events[event["metadata"]["name"]] = event
            return GRANTED
        name = line.rpartition("/")[2]
        if name not in self.events:
            return refused(404)
        self.events[name] |= event
        return GRANTED


@contextmanager
def recording(writing: Writing) -> Iterator[EventRecorder]:
    """Record Events on a server."""
    with serving(GRANTED, writing) as server:
        yield EventRecorder(server.api, "run", silent=False)


def record(recorder: EventRecorder, *about: str) -> None:
    """Record an Event about each of these."""
    for each in about:
        recorder.event(SUBJECT, "Restarted", each, about=each)


def test_events_keep_their_order_and_no_more_wait_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for them. Those beyond the limit are dropped, and the program continues."""
    monkeypatch.setattr(events, "QUEUE_LIMIT", 3)
    writing = Writing(held=True)
    with recording(writing) as recorder:
        record(recorder, "0")
        assert writing.first.wait(PATIENCE)
        record(recorder, "1", "2", "3", "4")
        assert writing.order == []
        writing.go.set()
        recorder.flush()
    assert writing.order == ["0", "1", "2", "3"]


def test_the_same_fact_is_one_event_with_a_count() -> None:
    """While it waits to be written, and afterwards: the newest message and time, and how often it occurred."""
    writing = Writing(held=True)
    with recording(writing) as recorder:
        record(recorder, "other")
        assert writing.first.wait(PATIENCE)
        for message in ("one", "two", "three"):
            recorder.event(SUBJECT, "Restarted", message, about="gpu-0")
        writing.go.set()
        recorder.flush()
        assert writing.order == ["other", "three"]
        recorder.event(SUBJECT, "Restarted", "four", about="gpu-0")
        recorder.event(SUBJECT, "Failed", "five", about="gpu-0", warning=True)
        recorder.flush()
    found = [(each["reason"], each["type"], each["message"], each["count"]) for each in writing.events.values()]
    assert found == [
        ("Restarted", "Normal", "other", 1), ("Restarted", "Normal", "four", 4), ("Failed", "Warning", "five", 1),
    ]  # fmt: skip
    (_other, four, _five) = writing.events.values()
    assert four["lastTimestamp"] >= four["firstTimestamp"]
    assert four["involvedObject"]["uid"] == SUBJECT.uid


def test_an_event_that_has_expired_is_created_again() -> None:
    """The API server deletes Events after an hour. A fact of a controller of months is not lost with them."""
    writing = Writing()
    with recording(writing) as recorder:
        for message in ("early", "late"):
            recorder.event(SUBJECT, "Restarted", message, about="gpu-0")
            recorder.flush()
            found = [(each["message"], each["count"]) for each in writing.events.values()]
            writing.events.clear()
        assert found == [("late", 1)]


def test_the_memory_for_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest Events are forgotten first."""
    monkeypatch.setattr(events, "COUNTS_LIMIT", 2)
    with recording(Writing()) as recorder:
        record(recorder, "a", "b", "c")
        recorder.flush()
        assert list(recorder._counts.values()) == [1, 1]
        record(recorder, "c")
        recorder.flush()
        assert sorted(recorder._counts.values()) == [1, 2]


def test_a_message_fits() -> None:
    """The API server refuses more than 1024 bytes. Control characters of foreign text are left out."""
    writing = Writing()
    with recording(writing) as recorder:
        recorder.event(SUBJECT, "Restarted", "\x1b[31m" + "ä" * 1000)
        recorder.flush()
    (message,) = writing.order
    assert len(message.encode()) <= 1024
    assert "\x1b" not in message


@pytest.mark.parametrize("said", [SILENT, Said(503)])
def test_a_server_that_takes_no_events_holds_up_no_end(said: Said, caplog: pytest.LogCaptureFixture) -> None:
    """After its time the rest is dropped, and one line reports that."""
    with serving(said) as server, bounded():
        recorder = EventRecorder(server.api, "run", silent=False)
        for _time in range(2):
            record(recorder, *map(str, range(9)))
            recorder.flush(0.1)
            assert not recorder._waiting
        assert server.count("POST") <= 2
    assert sum("Events" in message for message in caplog.messages) <= 3


def test_events_pause_after_a_failure_but_not_at_the_end() -> None:
    """The program does not retry for each node. Users look for the Event about the end, so it is tried."""
    with serving(Said(500)) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2", "3")
        recorder.flush()
        assert server.count("POST") == 1
        record(recorder, "end")
        recorder.flush()
        assert server.count("POST") == 2
    with serving(refused(429, **{"retry-after": "60"})) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for each in ("1", "end"):
            record(recorder, each)
            recorder.flush()
        assert server.count("POST") == 1, "the server asked for time"


def test_without_the_lease_no_event_is_written() -> None:
    """The new leader reports what it does. The process that lost the Lease is about to exit."""

    def fence(_resource: Resource) -> None:
        raise LeaseLostError("lost")

    with serving(GRANTED) as server:
        server.api.fence = fence
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2")
        recorder.flush()
        assert server.asked == []


class Heard:
    """Keeps the Events that reach the server."""

    def __init__(self) -> None:
        """Grant every Event."""
        self.events: list[tuple[dict[str, Any], str]] = []
        """The object of each, and its message."""

    def wrote(self, _line: str, body: bytes) -> Said:
        """Take note of an Event."""
        event = json.loads(body)
        self.events.append((event.get("involvedObject", {}), event["message"]))
        return told(kind="Event")


def runner(server: Server, *, dry_run: bool = False) -> Runner:
    """Return a run that is about to end, with a plugin in sight."""
    settings = Settings(dry_run=dry_run)
    cache = Cache(server.api, settings, retry.WRITE)
    recorder = EventRecorder(server.api, JOB.uid, silent=settings.dry_run)
    found = Runner(server.api, cache, settings, recorder, Job(JOB, None))
    found._loop.subjects = {SUBJECT.uid: SUBJECT}
    return found


def test_an_end_is_an_event_on_the_job_and_on_the_plugins() -> None:
    """By the UID that `kubectl describe` selects. The plugins of a run with nothing to do get none."""
    for decision, restarted, kinds in (
        (LATE, 0, ["Job", "DaemonSet"]),
        (REFRESHED, 0, ["Job"]),
        (REFRESHED, 1, ["Job", "DaemonSet"]),
    ):
        heard = Heard()
        with serving(GRANTED, heard.wrote) as server:
            run = runner(server)
            run._loop.restarter.restarted = restarted
            run.report_end(decision)
        assert kinds == [about["kind"] for about, _message in heard.events]
        (message,) = {message for _about, message in heard.events}
        assert message.startswith(headline(decision))
        assert (next_step(decision, GPU_OPERATOR) in message) is decision.unhappy
        job = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "gpu-operator", "name": "post", "uid": "job-uid"}
        assert job == heard.events[0][0]
    # Affected pods are one more, with a warning.
    heard, pods = Heard(), [AffectedPod("team", f"train-{one}", f"{one}", "gpu-0", at(5), ()) for one in range(99)]
    with serving(GRANTED, heard.wrote) as server:
        run = runner(server)
        run.workloads.affected = Affected(tuple(pods))
        run.report_end(REFRESHED)
    (_end, (about, message)) = heard.events
    assert about["kind"] == "Job"
    assert message.startswith("99 pods may hold files of an old driver: team/train-0 on gpu-0, ")
    # A dry run writes nothing at all.
    with serving(GRANTED) as server:
        runner(server, dry_run=True).report_end(LATE)
        assert [] == server.asked


def test_a_node_that_fails_is_an_event_on_the_job_at_once() -> None:
    """Users who look why a release hangs find it, with the cause, long before the end."""
    heard = Heard()
    status = NodeStatus("a", NodeState.FAILED, Reason.DRIVER_FAILING, "its image cannot be pulled")
    with serving(GRANTED, heard.wrote) as server:
        run = runner(server)
        run._reporter.report_changes(replace(LATE, phase=Phase.WAIT, statuses=(status,)))
        run._recorder.flush()
    ((about, message),) = heard.events
    assert "Job" == about["kind"]
    assert all(word in message for word in ("a", "DriverFailing", "its image cannot be pulled")), message


def test_reading_the_own_job_has_the_time_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No try begins that would come too late, whatever the trouble, and the time is up without an error.

    A run that waits for no server asks once.
    """
    for name in ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"):
        monkeypatch.setattr(retry, name, 9 * PATIENCE)
    patience = retry.Patience(9 * PATIENCE)
    for said in (refused(401), refused(403), Said(503), SILENT):
        for seconds in (0.5 if said is SILENT else PATIENCE, 0.0):
            with serving(said) as server, bounded():
                assert own_job(server.api, "gpu-operator", "post", patience, seconds) is None
                assert len(server.asked) <= bool(seconds), said
    with serving(Said(503)) as server, pytest.raises(ApiError):
        own_job(server.api, "gpu-operator", "post", retry.Patience(0), 60)
    assert len(server.asked) == 1
    job = told(kind="Job", metadata={"name": "post", "uid": "u"}, status={"startTime": "2026-01-01T10:00:00Z"})
    with serving(job) as server:
        own = own_job(server.api, "gpu-operator", "post", retry.Patience(0), 60)
    assert own is not None
    assert (own.reference.uid, own.started) == ("u", datetime(2026, 1, 1, 10, tzinfo=UTC))
