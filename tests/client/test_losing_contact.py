"""What a run does while it cannot see, and about writes of which it does not know what became."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.patience import TooSlowError
from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, StalePod
from hook.errors import UnreachableError
from hook.kube import client, requests, retry
from hook.kube import informer as informers
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import NODES, ListOptions, Request
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR
from hook.run import loop
from hook.run.loop import ReconcileLoop, Restarter
from hook.run.report import ProgressReporter
from tests.client.server import JSON, Said, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

PATIENCE: Final = 60.0
SUBJECT: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "uid")


def told(**fields: Any) -> Said:  # noqa: ANN401 - JSON
    """Answer with an object."""
    return Said(200, json.dumps({"kind": "List", **fields}).encode())


EMPTY: Final = told(items=[], metadata={"resourceVersion": "1"})


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that a thread does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TooSlowError("an informer did not come so far")
        time.sleep(0.02)


def following(server: Server) -> Informer:
    """Start to follow the nodes."""
    informer = Informer(server.api, ListWatch(ListOptions(NODES), readers.node), lambda: None, retry.starting(PATIENCE))
    informer.start()
    return informer


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(told(metadata={"resourceVersion": "1"}), id="no-items"),
        pytest.param(told(items=["a"], metadata={"resourceVersion": "1"}), id="no-objects"),
        pytest.param(told(items=[], metadata={}), id="no-version"),
    ],
)
def test_what_is_no_list_is_asked_for_again(wrong: Said) -> None:
    """It is no answer, so it ends no run."""
    answers = [wrong, wrong, EMPTY]
    with serving(lambda line: told() if "watch" in line else answers.pop(0) if answers else EMPTY) as server:
        informer = following(server)
        until(lambda: informer.synced)
        informer.stop()
        assert informer.problem is None
        assert server.count("limit") >= 3


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_within_a_watch_may_pass(code: int) -> None:
    """Credentials rotate, and RBAC changes: the list after it decides whether only a person can help."""
    error = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}).encode() + b"\n"
    with serving(lambda line: Said(200, error) if "watch=true" in line else EMPTY) as server:
        informer = following(server)
        until(lambda: server.count("watch=true") > 1)
        assert informer.problem is None
        informer.stop()


def test_a_list_that_expires_again_and_again_ends_no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind may come into sight late, on a server that is busy; a Job's run ends, and is tried again."""
    monkeypatch.setattr(informers, "NEXT_LIST_SECONDS", 0.1)
    gone = Said(410, b'{"kind": "Status", "code": 410}')
    with serving(lambda _line: gone) as server:
        job = following(server)
        until(lambda: job.problem is not None)
        assert isinstance(job.problem, UnreachableError)
    with serving(lambda _line: gone) as server:
        informer = Informer(server.api, ListWatch(ListOptions(NODES), readers.node), lambda: None, retry.CONTROLLER)
        informer.start()
        until(lambda: server.count("/nodes") > 3)
        assert (informer.problem, informer.synced) == (None, False)
        informer.stop()


@pytest.mark.parametrize("said", [Said(), Said(403, b'{"kind": "Status", "code": 403}')])
def test_who_is_told_to_stop_tries_nothing_again(said: Said) -> None:
    """A kind that nobody needs any more is let go of also while it cannot be read, however endless the patience."""
    with serving(lambda _line: said) as server:
        informer = Informer(server.api, ListWatch(ListOptions(NODES), readers.node), lambda: None, retry.CONTROLLER)
        informer.start()
        until(lambda: server.count("/nodes") > 1)
        informer.stop()
        until(lambda: not informer._thread.is_alive())
        assert informer.problem is None


def test_watches_that_bring_nothing_become_rare() -> None:
    """A server that ends each one at once is not asked five times a second, by a dozen watches, for hours."""
    with serving(lambda line: Said(200) if "watch" in line else EMPTY) as server:
        informer = following(server)
        time.sleep(4.0)
        informer.stop()
        assert 2 <= server.count("watch") <= 8


def test_after_a_long_gap_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch does not say when it has caught up; until a list says so, contact is lost."""
    monkeypatch.setattr(informers, "LONGEST_GAP_SECONDS", 0.5)
    up = [True]

    def answer(line: str) -> Said:
        return (Said(200) if "watch" in line else EMPTY) if up[0] else Said()

    with serving(answer) as server:
        informer = following(server)
        until(lambda: server.count("watch") > 0)
        lists, up[0] = server.count("limit"), False
        until(lambda: informer.out_of_sync is not None and informer.out_of_sync.seconds > 1)
        assert "nodes" in str(informer.out_of_sync)
        up[0] = True
        until(lambda: informer.out_of_sync is None)
        informer.stop()
        assert server.count("limit") > lists


def test_after_silence_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that outlives its time without a byte was cut off somewhere; what it missed is not asked of it."""
    monkeypatch.setattr(informers, "WATCH_SECONDS", 0)
    monkeypatch.setattr(informers, "WATCH_SPREAD_SECONDS", 1)
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.3)
    over = threading.Event()

    def answer(line: str) -> Said:
        return Said(200, b"", {**JSON, "content-length": "9"}) if "watch" in line else EMPTY

    with serving(answer, linger=over) as server:
        informer = following(server)
        until(lambda: server.count("limit") >= 3)
        informer.stop()
        over.set()
        assert 2 <= server.count("watch") <= server.count("limit")


def test_a_second_read_has_a_bound() -> None:
    """A server that is silent when the run wants to end must not carry it beyond its deadline."""
    slow = [False]

    def answer(line: str) -> Said:
        while slow[0] and "limit" in line:
            time.sleep(0.05)
        return EMPTY if "limit" in line else Said(200)

    with serving(answer) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        cache.watch_policies()
        until(lambda: cache.synced)
        slow[0], began = True, time.monotonic()
        with pytest.raises(UnreachableError):
            cache.read_consistently(1.0)
        slow[0] = False
        cache.stop()
        assert time.monotonic() - began < 30  # unbounded it is a minute for each kind


def test_nothing_is_restarted_while_contact_is_lost() -> None:
    """What was decided on is of before; writes may get through where reads do not."""
    up = [True]

    def answer(line: str) -> Said:
        if "GET" not in line:
            return told()
        return Said() if not up[0] else EMPTY if "limit" in line else Said(200)

    with serving(answer) as server:
        settings = Settings()
        cache = Cache(server.api, [GPU_OPERATOR], settings, retry.starting(PATIENCE))
        cache.watch_policies()
        until(lambda: cache.synced and cache.out_of_sync is None)
        reporter = ProgressReporter(EventRecorder(server.api, "run", silent=True), None)
        rounds = ReconcileLoop(server.api, cache, settings, reporter, server.api.now())
        decision = Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(stale("a"),))
        up[0] = False
        until(lambda: cache.out_of_sync is not None)
        rounds.act(decision, 60)
        assert server.count("DELETE") == 0
        up[0] = True
        until(lambda: cache.out_of_sync is None)
        rounds.act(decision, 60)
        cache.stop()
        assert server.count("DELETE") == 1


def stale(name: str) -> DeletePod:
    """Ask for the restart of a stale plugin."""
    pod = StalePod("dra", name, f"uid-{name}", "7", "ds", because="it is stale", driver_run="run")
    return DeletePod("gpu-0", pod, "gpu")


def test_a_deletion_without_an_answer_counts_once_its_pod_is_gone() -> None:
    """The server may have done it, or not: what is there then tells."""
    with serving(lambda _line: Said()) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act([stale("a")], 60)
        assert result.trouble
        assert (restarter.settle({"uid-a"}), restarter.restarted) == ([], 0)
        (result,) = restarter.settle(set())
        assert (result.action, restarter.restarted) == (stale("a"), 1)
        assert restarter.settle(set()) == []


def test_a_deletion_that_is_granted_after_all_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer was lost, the second one came: what is gone then is the same restart."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0))
    answers = [Said()]
    with serving(lambda _line: answers.pop() if answers else told()) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act([stale("a")], 60)
        assert result.trouble
        (result,) = restarter.act([stale("a")], 60)
        assert result.note
        assert (restarter.settle({"uid-a"}), restarter.settle(set()), restarter.restarted) == ([], [], 1)


@pytest.mark.parametrize("then", [404, 409])
def test_a_deletion_without_an_answer_that_is_gone_then_was_ours(then: int) -> None:
    """The server did it, as its answer to the next try shows: it counts once the pod is gone, and not before."""
    answers = [Said()]
    status = Said(then, json.dumps({"kind": "Status", "code": then}).encode())
    with serving(lambda _line: answers.pop() if answers else status) as server:
        restarter = Restarter(server.api)
        assert list(restarter.act([stale("a")], 60)) == []
        assert (restarter.settle({"uid-a"}), restarter.restarted) == ([], 0)
        (result,) = restarter.settle(set())
        assert (bool(result.note), restarter.restarted) == (True, 1)


def test_a_deletion_that_did_not_happen_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes that pod days later is somebody else; what is long past shows nothing either way."""
    monkeypatch.setattr(loop, "ASK_AGAIN", timedelta(0))
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0))
    with serving(lambda _line: Said()) as server:
        restarter = Restarter(server.api)
        assert len(list(restarter.act([stale("a"), stale("b")], 60))) == 2
        assert restarter.settle({"uid-a", "uid-b"}, current=False) == []
        assert [stale("a")] == [one.action for one in restarter.settle({"uid-b"})]
        assert (restarter.settle(set()), restarter.restarted) == ([], 1)


def test_no_try_of_a_write_goes_on_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the Lease next may act then: each try has only what is left of the same time."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=PATIENCE))
    with serving(lambda _line: Said()) as server:
        granted: list[float] = []
        send = server.api.send

        def asked(request: Request, seconds: float) -> dict[str, Any]:
            granted.append(seconds)
            return send(request, seconds)

        monkeypatch.setattr(server.api, "send", asked)
        began = time.monotonic()
        (result,) = Restarter(server.api).act([stale("a")], 4)
        assert result.trouble
        assert len(granted) > 1
        assert sorted(set(granted), reverse=True) == granted
        assert 1 <= granted[-1] < granted[0] <= 4
        assert time.monotonic() - began < PATIENCE / 2  # as long as its patience without


def test_a_write_has_its_time_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting takes from it: a server that took long to be reached has less to answer. A read may go on."""
    with serving(lambda _line: told()) as server:
        asked: list[urllib3.Timeout] = []
        pool = server.api.connection.pool
        request = pool.request

        def noted(*arguments: Any, timeout: urllib3.Timeout, **more: Any) -> Any:  # noqa: ANN401 - as urllib3 has it
            asked.append(timeout)
            return request(*arguments, timeout=timeout, **more)

        monkeypatch.setattr(pool, "request", noted)
        server.api.send(requests.delete_pod("dra", "p", "uid", "7"), 9)
        server.api.send(Request("get", requests.PODS, "dra", "p"), 9)
    assert [9, None] == [one.total for one in asked]


def test_a_server_that_asks_for_time_has_it_for_all_writes() -> None:
    """Longer than one write is tried for: the next decision does not ask again at once."""
    refused = Said(429, b"", {**JSON, "retry-after": "30"})
    with serving(lambda _line: refused) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act([stale("a"), stale("b")], 60)
        assert result.trouble
        assert list(restarter.act([stale("a"), stale("b")], 60)) == []
        assert server.count("DELETE") == 1
        assert restarter.settle(set()) == []


def test_nobody_waits_for_ever_between_two_tries() -> None:
    """Ten seconds at most, and something by chance, however often it failed."""
    assert max(retry.backoff(failures) for failures in (5, 50, 5000)) <= 10.5
    assert retry.retry_after(UnreachableError("no")) == 0


def test_last_words_are_tried_whatever_failed_before() -> None:
    """Events are given up for a while after a failure, but not the one that tells the end."""
    with serving(lambda _line: Said(500)) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for reason in ("One", "Two"):
            recorder.event(SUBJECT, reason, "note")
        recorder.flush()
        assert server.count("POST") == 1
        recorder.event(SUBJECT, "End", "note")
        recorder.shutdown(PATIENCE)
        assert server.count("POST") == 2
