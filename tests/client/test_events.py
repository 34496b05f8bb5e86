"""Events: written in order and in the background, on the Job and on DaemonSets; and the own objects."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any, Final

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import ApiError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, Job, ObjectReference, own_job
from hook.run.job import Runner
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


def record(recorder: EventRecorder, *about: str) -> None:
    """Record an Event about each of these."""
    for each in about:
        recorder.event(SUBJECT, "Restarted", each, about=each)


def test_events_keep_their_order_and_no_more_wait_than_the_queue_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for them. One that cannot be written, here as its object has no name, hinders no other one."""
    monkeypatch.setattr(events, "QUEUE_LIMIT", 3)
    first, blocker, written = threading.Event(), threading.Event(), list[str]()

    def wrote(_line: str, body: bytes) -> Said:
        first.set()
        blocker.wait(PATIENCE)
        written.append(json.loads(body)["message"])
        return GRANTED

    with serving(GRANTED, wrote) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "0")
        assert first.wait(PATIENCE)
        recorder.event(replace(SUBJECT, name=None), "Restarted", "1", about="1")  # type: ignore[arg-type]
        record(recorder, "2", "3", "4")
        assert written == []
        blocker.set()
        recorder.flush()
    assert ["0", "2", "3"] == written


def test_a_server_that_hangs_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time the rest of the queue is dropped, and so is what a last flush, or a signal, cannot write."""
    with monkeypatch.context() as patch, serving(SILENT) as server, bounded():
        for name in ("FLUSH_SECONDS", "STOP_SECONDS"):
            patch.setattr(events, name, 0.1)
        recorder = EventRecorder(server.api, "run", silent=False)
        for end in (recorder.flush, lambda: recorder.shutdown(PATIENCE), recorder.stop):
            record(recorder, *map(str, range(9)))
            end()
        assert server.count("POST") <= 1
    with serving(Said(500)) as server:  # Events pause for a while after a failure, but not the one about the end
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2")
        recorder.flush()
        assert server.count("POST") == 1
        record(recorder, "end")
        recorder.shutdown(PATIENCE)
        assert server.count("POST") == 2


class Heard:
    """Keeps the Events that reach the server."""

    def __init__(self) -> None:
        """Grant every Event."""
        self.events: list[tuple[dict[str, Any], str]] = []
        """The object of each, and its message."""

    def wrote(self, _line: str, body: bytes) -> Said:
        """Take note of an Event."""
        event = json.loads(body)
        self.events.append((event["involvedObject"], event["message"]))
        return told(kind="Event")


def runner(server: Server, *, dry_run: bool = False) -> Runner:
    """Return a run that is about to end, with a plugin in sight."""
    settings = Settings(dry_run=dry_run)
    cache = Cache(server.api, settings, retry.WRITE)
    recorder = EventRecorder(server.api, JOB.uid, silent=settings.dry_run)
    found = Runner(server.api, cache, settings, recorder, Job(JOB, server.api.now()))
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
        assert len({message for _about, message in heard.events}) == 1
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
    patience = retry.starting(9 * PATIENCE)
    for said in (refused(401), refused(403), Said(503), SILENT):
        for seconds in (0.5 if said is SILENT else PATIENCE, 0.0):
            with serving(said) as server, bounded():
                assert own_job(server.api, "gpu-operator", "post", patience, seconds) is None
                assert len(server.asked) <= bool(seconds), said
    with serving(Said(503)) as server, pytest.raises(ApiError):
        own_job(server.api, "gpu-operator", "post", retry.starting(0), 60)
    assert len(server.asked) == 1
    job = told(kind="Job", metadata={"uid": "u"}, status={"startTime": "2026-01-01T10:00:00Z"})
    with serving(job) as server:
        own = own_job(server.api, "gpu-operator", "post", retry.starting(0), 60)
    assert own is not None
    assert (own.reference.uid, own.started.hour) == ("u", 10)
    late = told(kind="Job", metadata={"uid": "u"}, status={"startTime": "9999-12-31T23:59:59Z"})
    with serving(late) as server:  # its time counts from now at the latest
        own = own_job(server.api, "gpu-operator", "post", retry.starting(0), 60)
        assert own is not None
        assert own.started <= server.api.now()
