"""Events: written in order and in the background, on the own objects and on event targets; and the own objects."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from typing import Any, Final

import pytest
from msgspec import structs

from hook.config import EventTarget, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.errors import UnreachableError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, Job, ObjectReference, own_job
from hook.run.job import Runner
from tests.client.server import GRANTED, PATIENCE, SILENT, Said, Server, bounded, refused, serving, told

SUBJECT: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "plugin-uid")
JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "job-uid")
TARGET: Final = EventTarget("helm.toolkit.fluxcd.io/v2", "HelmRelease", "flux-system", "post")
OBJECT: Final = "GET /apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/post"
KIND: Final = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease"}
LATE: Final = Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up", stack="gpu")
REFRESHED: Final = Decision(Phase.DONE, Reason.REFRESHED, "all is done", stack="gpu")


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUSH_SECONDS", "TARGET_FLUSH_SECONDS", "STOP_SECONDS", "WRITE_SECONDS", "TARGET_SECONDS"):
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


def test_a_persistent_recorder_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage it writes the same Event again. One that is refused delays no other, and is not repeated."""
    monkeypatch.setattr(events, "PAUSE_SECONDS", 0.2)
    answers = [Said(500), GRANTED, refused(403), refused(422), GRANTED]
    with serving(GRANTED, lambda _line, _body: answers.pop(0)) as server:
        recorder = EventRecorder(server.api, "run", silent=False, persistent=True)
        record(recorder, "outage")
        recorder.flush()
        monkeypatch.setattr(events, "PAUSE_SECONDS", PATIENCE)
        record(recorder, "refused", "invalid", "last")
        recorder.shutdown(PATIENCE / 2)
    assert answers == []


class Heard:
    """Keeps the Events that reach the server."""

    def __init__(self, target: Said | None = None, event: Said | None = None) -> None:
        """Answer for the event target, and to Events on it, in this way."""
        self._target = target or told(**KIND, metadata={"uid": "release-uid"})
        self._event = event or told(kind="Event")
        self._events: list[tuple[dict[str, Any], str]] = []

    def answer(self, line: str) -> Said:
        """Answer a request without a body."""
        return self._target if line == OBJECT else told(kind="Event")

    def wrote(self, _line: str, body: bytes) -> Said:
        """Take note of an Event, and answer."""
        event = json.loads(body)
        self._events.append((event["involvedObject"], event["message"]))
        return self._event if event["involvedObject"]["kind"] == KIND["kind"] else told(kind="Event")

    @property
    def ordered(self) -> list[tuple[dict[str, Any], str]]:
        """Return the objects and messages in order, those of event targets last: each of both has a thread."""
        return sorted(self._events, key=lambda event: event[0]["kind"] == KIND["kind"])

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the objects of the Events."""
        return [about["kind"] for about, _message in self.ordered]

    def of(self, kind: str) -> list[str]:
        """Return the messages on objects of a kind."""
        return [message for about, message in self.ordered if about["kind"] == kind]


def runner(server: Server, *, dry_run: bool = False, event_targets: tuple[EventTarget, ...] = (TARGET,)) -> Runner:
    """Return a run that is about to end, with a plugin in sight."""
    settings = Settings(event_targets=event_targets, dry_run=dry_run)
    cache = Cache(server.api, [], settings, retry.WRITE)
    recorder = EventRecorder(server.api, JOB.uid, silent=settings.dry_run)
    found = Runner(server.api, cache, settings, recorder, Job(JOB, server.api.now()))
    found._loop.subjects = {SUBJECT.uid: SUBJECT}
    return found


def failed(node: str) -> Decision:
    """Decide on a node that has failed."""
    status = NodeStatus(node, NodeState.FAILED, Reason.DRIVER_FAILING, "its image cannot be pulled", stack="gpu")
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "waiting", statuses=(status,), stack="gpu")


def test_an_end_is_an_event_on_the_target_as_on_the_job() -> None:
    """By the UID that `kubectl describe` selects. A release with nothing to do gets none; nothing is read for it."""
    # A dry run writes nothing at all.
    for decision, restarted, targets in ((LATE, 0, 1), (REFRESHED, 0, 0), (REFRESHED, 1, 1)):
        heard = Heard()
        with serving(heard.answer, heard.wrote) as server:
            run = runner(server)
            run._loop.restarter.restarted = restarted
            run.report_end(decision)
            assert server.count(OBJECT) == targets, (decision.reason, restarted)
        assert heard.kinds == (["Job", "DaemonSet", "HelmRelease"] if targets else ["Job"])
        assert len({message for _about, message in heard.ordered}) == 1
    assert {**KIND, "namespace": "flux-system", "name": "post", "uid": "release-uid"} == heard.ordered[-1][0]
    with serving(GRANTED) as server:
        runner(server, dry_run=True).report_end(LATE)
        assert [] == server.asked


def test_a_target_that_cannot_be_used_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The Job and the DaemonSet get all their Events, and the target is not tried again for each node."""
    for name, heard in (
        ("no such object", Heard(refused(404))),
        ("not permitted", Heard(refused(403))),
        ("server in trouble", Heard(Said(500))),
        ("malformed object", Heard(told(**KIND, metadata={"uid": 7}))),
        ("object without UID", Heard(told(**KIND, metadata={}))),
        ("object without version", Heard(told(kind="HelmRelease", metadata={"uid": "x"}))),
        ("refused by the admission policy", Heard(event=refused(403))),
        ("Events in trouble", Heard(event=Said(500))),
    ):
        caplog.clear()
        with serving(heard.answer, heard.wrote) as server:
            run = runner(server)
            for number in range(20):
                run._reporter.report_changes(failed(f"n{number}"))
            run.report_end(LATE)
        assert ["Job"] * 21 + ["DaemonSet"] == heard.kinds[:22], name
        assert len(heard.of("HelmRelease")) in (0, 2), name  # once for the nodes, once for the end
        warnings = [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]
        about = [words for words in warnings if str(TARGET) in words or "cannot write Kubernetes Events" in words]
        assert len(about) == 1, name


def test_a_target_that_hangs_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What converts a kind may be down, or a webhook that reads Events: however many targets, a moment in all."""
    monkeypatch.setattr(events, "TARGET_FLUSH_SECONDS", 0.2)
    for heard in (Heard(SILENT), Heard(event=SILENT)):
        with serving(heard.answer, heard.wrote) as server, bounded():
            run = runner(server, event_targets=(TARGET, structs.replace(TARGET, name="above")))
            run._reporter.report_changes(failed("a"))
            run.report_end(LATE)
        assert ["Job", "Job", "DaemonSet"] == [kind for kind in heard.kinds if kind != "HelmRelease"]


def test_the_first_nodes_that_fail_are_events_on_the_target() -> None:
    """Users who look why a release hangs find them long before the end, whose Event is not lost among a thousand."""
    heard = Heard()
    with serving(heard.answer, heard.wrote) as server:
        run = runner(server)
        for node in range(25):
            run._reporter.report_changes(failed(f"n{node}"))
        run._recorder.flush()
        assert "n0" in heard.of("HelmRelease")[0]
        run._reporter.summarise(failed("n1"))  # on the Job alone
        run.report_end(LATE)
        assert server.count(OBJECT) == 1
    assert (len(heard.of("Job")), len(heard.of("HelmRelease"))) == (27, 10 + 1)
    assert LATE.message in heard.ordered[-1][1]


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
    with serving(Said(503)) as server, pytest.raises(UnreachableError):
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
