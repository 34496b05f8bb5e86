"""Events: written in order and in the background, on the Job and on DaemonSets; and the own Job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import ApiError, LeaseLostError
from hook.kube import events, retry
from hook.kube.events import EventRecorder
from hook.kube.own import own_job
from hook.kube.resources import Resource
from hook.objects import Malformed, read_daemonset
from hook.objects.stacks import GPU_OPERATOR
from hook.run import job
from hook.run.report import next_step
from tests.client.runs import JOB, LATE, PLUGIN, runner
from tests.client.server import GRANTED, PATIENCE, SILENT, Said, bounded, refused, serving, told
from tests.client.shown import Shown
from tests.fixtures.objects import at, obj, raw


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a write, and the end of a run, have as much time as a busy machine needs."""
    monkeypatch.setattr(events, "WRITE_SECONDS", PATIENCE)
    monkeypatch.setattr(job, "FLUSH_SECONDS", PATIENCE)
    monkeypatch.setattr(EventRecorder.flush, "__defaults__", (PATIENCE,))


class Held(Shown):
    """An API server that holds back its first answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = threading.Event(), threading.Event()
        self.instead = self._wait

    def _wait(self, _line: str) -> None:
        self.asked.set()
        self.go.wait(PATIENCE)


@contextmanager
def recording(shown: Shown) -> Iterator[EventRecorder]:
    """Record Events on a server."""
    with serving(shown, shown.wrote) as server:
        yield EventRecorder(server.api, "run", silent=False)


def record(recorder: EventRecorder, *about: str) -> None:
    """Record an Event about each of these."""
    for each in about:
        recorder.event(PLUGIN, "Restarted", each, about=each)


def test_events_keep_their_order_and_no_more_wait_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for them. Those beyond the limit are dropped, and the program continues."""
    monkeypatch.setattr(events, "QUEUE_LIMIT", 3)
    held = Held()
    with recording(held) as recorder:
        record(recorder, "0")
        assert held.asked.wait(PATIENCE)
        record(recorder, "1", "2", "3", "4")
        assert held.events == []
        held.go.set()
        recorder.flush()
    assert [each["message"] for each in held.events] == ["0", "1", "2", "3"]


def test_the_same_fact_that_waits_is_written_once() -> None:
    """With the newest message, and how often it occurred. Another reason is another fact."""
    held = Held()
    with recording(held) as recorder:
        record(recorder, "other")
        assert held.asked.wait(PATIENCE)
        for message in ("one", "two", "three"):
            recorder.event(PLUGIN, "Restarted", message, about="gpu-0")
        recorder.event(PLUGIN, "Failed", "five", about="gpu-0", warning=True)
        held.go.set()
        recorder.flush()
    assert [(each["reason"], each["type"], each["message"], each["count"]) for each in held.events] == [
        ("Restarted", "Normal", "other", 1), ("Restarted", "Normal", "three", 3), ("Failed", "Warning", "five", 1),
    ]  # fmt: skip


def test_what_an_event_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the fields that kubectl shows. The time of the first occurrence stays, that of the last one moves.

    Each write has all of it: the API server deletes an Event after an hour, and the next one creates it again.
    """
    times = ["2026-01-01T10:00:00Z", "2026-01-01T10:00:09Z"]
    monkeypatch.setattr(events, "timestamp", lambda _now: times.pop(0))
    shown = Shown()
    with recording(shown) as recorder:
        for message in ("one", "two"):
            recorder.event(PLUGIN, "Restarted", message, about="gpu-0", warning=True)
            recorder.flush()
    first, event = shown.events
    assert first["metadata"] == event.pop("metadata")
    subject = {"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": "dra", "name": "plugin", "uid": "ds"}
    by = "gpu-operator-post"
    assert event == {
        "apiVersion": "v1", "kind": "Event", "involvedObject": subject, "source": {"component": by},
        "reportingComponent": by, "type": "Warning", "reason": "Restarted", "message": "two", "count": 2,
        "firstTimestamp": "2026-01-01T10:00:00Z", "lastTimestamp": "2026-01-01T10:00:09Z",
    }  # fmt: skip


def test_what_an_event_on_a_daemonset_refers_to() -> None:
    """Its namespace, name and UID."""
    metadata = {"namespace": "dra", "name": "plugin", "uid": "ds"}
    found = read_daemonset(raw(obj("plugin-daemonset", {"metadata": metadata})))
    assert not isinstance(found, Malformed)
    assert events.daemonset_reference(found) == PLUGIN


def test_the_memory_for_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Events that were not written for the longest time are forgotten first, and count from one again."""
    monkeypatch.setattr(events, "WRITTEN_LIMIT", 2)
    shown = Shown()
    with recording(shown) as recorder:
        for about in "abacab":
            record(recorder, about)
            recorder.flush()
    assert [each["count"] for each in shown.events] == [1, 1, 2, 1, 3, 1]


@pytest.mark.parametrize("said", [SILENT, Said(503)])
def test_a_server_that_takes_no_events_holds_up_no_end(said: Said, caplog: pytest.LogCaptureFixture) -> None:
    """After its time the rest is dropped, and one line reports that."""
    with serving(said) as server, bounded():
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, *map(str, range(9)))
        recorder.flush(0.1)
        assert not recorder._waiting
        assert server.count("PATCH") <= 1
    assert sum("Events" in message for message in caplog.messages) <= 2


@pytest.mark.parametrize(
    ("said", "at_the_end"),
    [
        pytest.param(Said(500), 2, id="users look for the Event about the end, so it is tried"),
        pytest.param(refused(429, **{"retry-after": "60"}), 1, id="the server asked for time"),
    ],
)
def test_events_pause_after_a_failure(said: Said, at_the_end: int, caplog: pytest.LogCaptureFixture) -> None:
    """The program does not retry for each node, and warns once."""
    with serving(said) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2", "3")
        recorder.flush()
        assert server.count("PATCH") == 1
        record(recorder, "end")
        recorder.flush()
        assert server.count("PATCH") == at_the_end
    assert [record.message.partition(":")[0] for record in caplog.records if record.levelname == "WARNING"] == [
        "cannot write Kubernetes Events, continuing without them"
    ]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(refused(403, 'events "x" is forbidden: exceeded quota: few'), id="quota"),
        pytest.param(refused(403), id="permission"),
        pytest.param(refused(404, 'namespaces "dra" not found'), id="no namespace"),
    ],
)
def test_a_namespace_that_refuses_events_holds_up_no_other(said: Said) -> None:
    """The quota of the plugins is not the Job's. The namespace itself is not asked for each node."""
    written: list[str] = []

    def wrote(line: str, _body: bytes) -> Said:
        written.append(line.split("/namespaces/")[1].split("/", maxsplit=1)[0])
        return said if written[-1] == "dra" else GRANTED

    with serving(GRANTED, wrote) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2")
        recorder.event(JOB, "AffectedWorkloads", "some")
        recorder.flush()
    assert written == ["dra", "gpu-operator"]


def test_without_the_lease_no_event_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """The new leader reports what it does. The process that lost the Lease is about to exit."""

    def fence(_resource: Resource) -> None:
        raise LeaseLostError("lost")

    with serving(GRANTED) as server:
        server.api.fence = fence
        recorder = EventRecorder(server.api, "run", silent=False)
        record(recorder, "1", "2")
        recorder.flush()
        assert (server.asked, caplog.messages) == ([], [])


REFRESHED = Decision(Phase.DONE, Reason.REFRESHED, "all is done")


@pytest.mark.parametrize(
    ("decision", "restarted", "kinds"),
    [
        pytest.param(LATE, 0, ["Job", "DaemonSet"], id="time up"),
        pytest.param(REFRESHED, 0, ["Job"], id="nothing to do"),
        pytest.param(REFRESHED, 1, ["Job", "DaemonSet"], id="restarted"),
    ],
)
def test_an_end_is_an_event_on_the_job_and_on_the_plugins(decision: Decision, restarted: int, kinds: list[str]) -> None:
    """By the UID that `kubectl describe` selects. The plugins of a run with nothing to do get none."""
    shown = Shown()
    with serving(shown, shown.wrote) as server:
        run = runner(server, silent=False)
        run._loop.subjects = {PLUGIN.uid: PLUGIN}
        run._loop.restarter.restarted = restarted
        run.report_end(decision)
    found = shown.events
    assert kinds == [each["involvedObject"]["kind"] for each in found]
    job = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "gpu-operator", "name": "post", "uid": "job-uid"}
    assert job == found[0]["involvedObject"]
    for event in found:
        assert event["message"].startswith(headline(decision))
        assert (next_step(decision, GPU_OPERATOR) in event["message"]) is decision.unhappy


def test_affected_pods_and_failed_nodes_are_events_on_the_job() -> None:
    """Users who look why a release hangs find a node that fails, with the cause, long before the end."""
    status = NodeStatus("a", NodeState.FAILED, Reason.DRIVER_FAILING, "its image cannot be pulled")
    pods = tuple(AffectedPod("team", f"train-{one}", f"{one}", "gpu-0", at(5), ()) for one in range(99))
    shown = Shown()
    with serving(shown, shown.wrote) as server:
        run = runner(server, silent=False)
        run._reporter.report_changes(replace(LATE, phase=Phase.WAIT, statuses=(status,)))
        run.workloads.affected = Affected(pods)
        run.report_end(REFRESHED)
    failed, _end, affected = shown.events
    assert failed["involvedObject"]["kind"] == affected["involvedObject"]["kind"] == "Job"
    assert failed["type"] == affected["type"] == "Warning"
    assert "node a: Failed (DriverFailing): its image cannot be pulled" in failed["message"]
    assert affected["message"].startswith("99 pods may hold files of an old driver: team/train-0 on gpu-0, ")


@pytest.mark.parametrize("said", [refused(401), refused(403), Said(503), SILENT])
def test_reading_the_own_job_has_the_time_of_the_run(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """No try begins that would come too late, whatever the trouble, and the time is up without an error."""
    for name in ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"):
        monkeypatch.setattr(retry, name, 9 * PATIENCE)
    patience = retry.Patience(9 * PATIENCE)
    for seconds in (0.5 if said is SILENT else PATIENCE, 0.0):
        with serving(said) as server, bounded():
            assert own_job(server.api, "gpu-operator", "post", patience, seconds) is None
            assert len(server.asked) <= bool(seconds)


def test_the_own_job() -> None:
    """It has the UID for Events and the start for the deadline. A run that waits for no server asks once."""
    answers = [
        Said(503),
        told(kind="Job", metadata={"name": "post", "uid": "u"}, status={"startTime": "2026-01-01T10:00:00Z"}),
    ]
    with serving(lambda _line: answers.pop(0)) as server:
        with pytest.raises(ApiError):
            own_job(server.api, "gpu-operator", "post", retry.Patience(0), 60)
        own = own_job(server.api, "gpu-operator", "post", retry.Patience(0), 60)
    assert own is not None
    assert (own.reference, own.started) == (replace(JOB, uid="u"), datetime(2026, 1, 1, 10, tzinfo=UTC))
