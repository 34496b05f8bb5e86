"""Events on the deployer's own objects: whatever they cannot be, the run ends as it would without them."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec import structs

from hook.config import EventTarget, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, Job, ObjectReference, TargetResolver
from hook.run.job import Runner
from hook.run.report import ProgressReporter
from tests.client.server import Said, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE: Final = 60.0
OURS: Final = EventTarget("helm.toolkit.fluxcd.io/v2", "HelmRelease", "flux-system", "post")
OBJECT: Final = "GET /apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/post"
EVENTS: Final = "POST /api/v1/namespaces/{}/events"
KIND: Final = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease"}
ABOUT: Final = {
    **KIND,
    "namespace": "flux-system",
    "name": "post",
    "uid": "release-uid",
}
JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "job-uid")
PLUGIN: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "plugin-uid")
OVER: Final = Decision(Phase.DEADLINE, Reason.STALLED, "no node advanced", stack="gpu")
REFRESHED: Final = Decision(Phase.DONE, Reason.REFRESHED, "all is done", stack="gpu")

Answers = dict[str, Any]
"""By request: a status, an object, or how to answer; with a status of 0 the connection is closed."""


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what is written, where a test is not about the waiting."""
    for name in ("FLUSH_SECONDS", "TARGET_FLUSH_SECONDS"):
        monkeypatch.setattr(events, name, PATIENCE)


def answers(**instead: Any) -> Answers:  # noqa: ANN401 - see above
    """Give what an API server with Flux says, but for what a test has it say instead."""
    usual = {
        "object": {**KIND, "metadata": {"uid": ABOUT["uid"]}},
        "event": {"kind": "Event"},
        **instead,
    }
    more = {line: answer for line, answer in usual.items() if line.startswith("GET ")}
    return {**more, OBJECT: usual["object"], EVENTS.format("flux-system"): usual["event"]}


class Heard:
    """Keeps the events that reach the server, and answers as it is told to."""

    def __init__(self, said: Answers) -> None:
        """Begin without any."""
        self._said = said
        self._events: list[tuple[dict[str, Any], str]] = []

    def answer(self, line: str) -> Said:
        """Answer a request without a body, or one that is no event."""
        said = self._said.get(line, {"kind": "Event"})
        if callable(said):
            said = said()
        if said == 0:
            return Said()
        if isinstance(said, int):
            return Said(said, json.dumps({"kind": "Status", "message": "as the test wants it"}).encode())
        return Said(200, json.dumps(said).encode())

    def wrote(self, line: str, body: bytes) -> Said:
        """Take note of an event, and answer."""
        event = json.loads(body)
        self._events.append((event["involvedObject"], event["message"]))
        return self.answer(line)

    @property
    def ordered(self) -> list[tuple[dict[str, Any], str]]:
        """Return the objects and messages in order, those of event targets last: each of both has a thread."""
        return sorted(self._events, key=lambda event: event[0]["kind"] == KIND["kind"])

    @property
    def about(self) -> list[dict[str, Any]]:
        """Return the objects of the events."""
        return [about for about, _message in self.ordered]

    @property
    def messages(self) -> list[str]:
        """Return the messages of the events."""
        return [message for _about, message in self.ordered]

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the objects of the events."""
        return [each["kind"] for each in self.about]


def runner(server: Server, *, dry_run: bool = False, event_targets: tuple[EventTarget, ...] = (OURS,)) -> Runner:
    """Give a run that is about to end, with a plugin in sight."""
    settings = Settings(event_targets=event_targets, dry_run=dry_run)
    cache = Cache(server.api, [], settings, retry.WRITE)
    recorder = EventRecorder(server.api, JOB.uid, silent=settings.dry_run)
    found = Runner(server.api, cache, settings, recorder, Job(JOB, server.api.now()))
    found._loop.subjects = {PLUGIN.uid: PLUGIN}
    return found


def ended(said: Answers, decision: Decision = OVER) -> tuple[Heard, Server]:
    """End a run against such a server."""
    heard = Heard(said)
    with serving(heard.answer, wrote=heard.wrote) as server:
        runner(server).report_end(decision)
    return heard, server


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give what was warned of."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_unhappy_end_is_told_on_it_as_on_the_job() -> None:
    """By the UID that `kubectl describe` selects; after all that is ours, because it has to be asked for."""
    heard, server = ended(answers())
    assert ["Job", "DaemonSet", "HelmRelease"] == heard.kinds
    assert ABOUT == heard.about[-1]
    assert 1 == len(set(heard.messages))
    assert 1 == server.asked.count(OBJECT)


@pytest.mark.parametrize(("restarted", "told"), [(0, ["Job"]), (1, ["Job", "DaemonSet", "HelmRelease"])])
def test_a_happy_end_is_told_where_something_was_done(restarted: int, told: list[str]) -> None:
    """A release that found nothing to do is not commented upon; nor is anything asked for it."""
    heard = Heard(answers())
    with serving(heard.answer, wrote=heard.wrote) as server:
        one = runner(server)
        one._loop.restarter.restarted = restarted
        one.report_end(REFRESHED)
        assert bool(restarted) == bool(server.count(OBJECT))
    assert told == heard.kinds


@pytest.mark.parametrize(
    "instead",
    [
        pytest.param({"object": 404}, id="no-such-object"),
        pytest.param({"object": 403}, id="not-permitted"),
        pytest.param({"object": 500}, id="server-in-trouble"),
        pytest.param({"object": {"kind": "HelmRelease", "metadata": {"uid": 7}}}, id="malformed-object"),
        pytest.param({"object": {**KIND, "metadata": {}}}, id="object-without-uid"),
        pytest.param({"object": {"kind": "HelmRelease", "metadata": {"uid": "x"}}}, id="object-without-version"),
        pytest.param({"event": 403}, id="refused-by-the-guard"),
        pytest.param({"event": 500}, id="in-trouble"),
    ],
)
def test_what_cannot_be_told_is_one_warning(instead: Answers, caplog: pytest.LogCaptureFixture) -> None:
    """The Job and the DaemonSet are told all the same."""
    heard, _server = ended(answers(**instead))
    assert ["Job", "DaemonSet"] == heard.kinds[:2]
    assert len(heard.kinds) == (3 if "event" in instead else 2)
    (warning,) = warnings(caplog)
    assert str(OURS) in warning or "event" in instead


@pytest.mark.parametrize("what", ["object", "event"])
def test_a_server_that_hangs_over_it_holds_up_no_end(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """What converts a kind may be down, or a webhook that looks at events: however many objects, a moment in all.

    Also where it hangs since a node failed before: what is told on the Job and the DaemonSet does not wait for it.
    """
    monkeypatch.setattr(events, "TARGET_FLUSH_SECONDS", 0.5)
    hangs = threading.Event()

    def hang() -> int:
        hangs.wait(PATIENCE)
        return 0

    heard = Heard(answers(**{what: hang}))
    with serving(heard.answer, wrote=heard.wrote) as server:
        one = runner(server, event_targets=(OURS, structs.replace(OURS, name="above")))
        one._reporter.report_changes(_failed("a"))
        began = time.monotonic()
        one.report_end(OVER)
        took = time.monotonic() - began
        hangs.set()
    assert took < PATIENCE / 2  # half a second; with an answer it were all of it
    assert ["Job", "Job", "DaemonSet"] == [kind for kind in heard.kinds if kind != "HelmRelease"]


def test_a_dry_run_asks_for_nothing() -> None:
    """It writes nothing, so there is nothing to look up."""
    heard = Heard(answers())
    with serving(heard.answer, wrote=heard.wrote) as server:
        runner(server, dry_run=True).report_end(OVER)
        assert [] == server.asked
    assert [] == heard.about


def _failed(node: str) -> Decision:
    judged = NodeStatus(node, NodeState.FAILED, Reason.DRIVER_FAILING, "its image cannot be pulled", stack="gpu")
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "waiting", statuses=(judged,), stack="gpu")


def test_a_node_that_fails_is_told_at_once() -> None:
    """Who looks why a release hangs finds it long before the end; what else goes on is told on the Job alone."""
    heard = Heard(answers())
    with serving(heard.answer, wrote=heard.wrote) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        reporter = ProgressReporter(recorder, JOB, [TargetResolver(server.api, OURS)])
        for node in ("a", "b"):
            reporter.report_changes(_failed(node))
        reporter.summarise(_failed("b"))
        recorder.flush()
        recorder.shutdown(PATIENCE)
        assert 1 == server.asked.count(OBJECT)
    assert ["HelmRelease"] * 2 + ["Job"] * 3 == sorted(heard.kinds)
    told = [message for kind, message in zip(heard.kinds, heard.messages, strict=True) if kind == "HelmRelease"]
    assert [True, True] == [one in message for one, message in zip("ab", told, strict=True)]


def test_only_the_first_nodes_that_fail_are_told_on_it() -> None:
    """All of its events are shown with it: of a thousand nodes the end's would be the last."""
    heard = Heard(answers())
    with serving(heard.answer, wrote=heard.wrote) as server:
        one = runner(server)
        for node in range(25):
            one._reporter.report_changes(_failed(f"n{node}"))
        one.report_end(OVER)
    assert [26, 10 + 1] == [heard.kinds.count(kind) for kind in ("Job", "HelmRelease")]
    assert OVER.message in heard.messages[-1]


def _two_tries(*outcomes: object) -> Callable[[], object]:
    left = list(outcomes)
    return lambda: left.pop(0)


def test_what_was_not_found_is_looked_for_once_more_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Not at each node that fails, which may be a thousand; and a warning is enough once."""
    found = answers()[OBJECT]
    heard = Heard(answers(object=_two_tries(500, found)))
    with serving(heard.answer, wrote=heard.wrote) as server:
        one = runner(server)
        for node in ("a", "b", "c"):
            one._reporter.report_changes(_failed(node))
        one.report_end(OVER)
        assert 2 == server.asked.count(OBJECT)
    assert ["Job", "Job", "Job", "Job", "DaemonSet", "HelmRelease"] == heard.kinds
    assert 1 == sum(str(OURS) in one for one in warnings(caplog))


@pytest.mark.parametrize("answer", [403, "hangs"])
def test_what_it_refuses_neither_silences_nor_delays_all_else(answer: object) -> None:
    """Events are given up for a while after a failure; one that others forbid says nothing of the server."""
    hangs = threading.Event()

    def hang() -> int:
        hangs.wait(PATIENCE)
        return 0

    heard = Heard(answers(event=hang if answer == "hangs" else answer))
    with serving(heard.answer, wrote=heard.wrote) as server:
        one = runner(server)
        for node in range(20):
            one._reporter.report_changes(_failed(f"n{node}"))
        one.report_end(OVER)
        hangs.set()
    assert [21, 2] == [heard.kinds.count(kind) for kind in ("Job", "HelmRelease")]
