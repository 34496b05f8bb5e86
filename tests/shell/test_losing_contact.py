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
from hook.decide.result import Decision, DeletePod, StalePod, Verdict
from hook.errors import UnreachableError
from hook.kube import client, informer, requests, retry
from hook.kube.cache import Observer
from hook.kube.events import Subject, Teller
from hook.kube.informer import Reflector
from hook.kube.requests import NODES, Request, Selection
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR
from hook.run import loop
from hook.run.loop import Actor, Rounds
from hook.run.report import Narrator
from tests.shell.server import JSON, Said, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    import urllib3

PATIENCE: Final = 60.0
SUBJECT: Final = Subject("apps/v1", "DaemonSet", "dra", "plugin", "uid")


def told(**fields: Any) -> Said:  # noqa: ANN401 - JSON
    """Answer with an object."""
    return Said(200, json.dumps({"kind": "List", **fields}).encode())


EMPTY: Final = told(items=[], metadata={"resourceVersion": "1"})


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that a thread does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TooSlowError("a reflector did not come so far")
        time.sleep(0.02)


def following(server: Server) -> Reflector:
    """Start to follow the nodes."""
    reflector = Reflector(server.api, Selection(NODES), readers.node, lambda: None, retry.starting(PATIENCE))
    reflector.start()
    return reflector


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
        reflector = following(server)
        until(lambda: reflector.synced)
        reflector.stop()
        assert reflector.problem is None
        assert server.count("limit") >= 3


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_within_a_watch_may_pass(code: int) -> None:
    """Credentials rotate, and RBAC changes: the list after it decides whether only a person can help."""
    error = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "no"}}).encode() + b"\n"
    with serving(lambda line: Said(200, error) if "watch=true" in line else EMPTY) as server:
        reflector = following(server)
        until(lambda: server.count("watch=true") > 1)
        assert reflector.problem is None
        reflector.stop()


def test_a_list_that_expires_again_and_again_ends_no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind may come into sight late, on a server that is busy; a Job's run ends, and is tried again."""
    monkeypatch.setattr(informer, "GAP_SECONDS", 0.1)
    gone = Said(410, b'{"kind": "Status", "code": 410}')
    with serving(lambda _line: gone) as server:
        job = following(server)
        until(lambda: job.problem is not None)
        assert isinstance(job.problem, UnreachableError)
    with serving(lambda _line: gone) as server:
        reflector = Reflector(server.api, Selection(NODES), readers.node, lambda: None, retry.FOLLOWING)
        reflector.start()
        until(lambda: server.count("/nodes") > 3)
        assert (reflector.problem, reflector.synced) == (None, False)
        reflector.stop()


@pytest.mark.parametrize("said", [Said(), Said(403, b'{"kind": "Status", "code": 403}')])
def test_who_is_told_to_stop_tries_nothing_again(said: Said) -> None:
    """A kind that nobody needs any more is let go of also while it cannot be read, however endless the patience."""
    with serving(lambda _line: said) as server:
        reflector = Reflector(server.api, Selection(NODES), readers.node, lambda: None, retry.FOLLOWING)
        reflector.start()
        until(lambda: server.count("/nodes") > 1)
        reflector.stop()
        until(lambda: not reflector._thread.is_alive())
        assert reflector.problem is None


def test_watches_that_bring_nothing_become_rare() -> None:
    """A server that ends each one at once is not asked five times a second, by a dozen watches, for hours."""
    with serving(lambda line: Said(200) if "watch" in line else EMPTY) as server:
        reflector = following(server)
        time.sleep(4.0)
        reflector.stop()
        assert 2 <= server.count("watch") <= 8


def test_after_a_long_gap_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch does not say when it has caught up; until a list says so, contact is lost."""
    monkeypatch.setattr(informer, "GAP_SECONDS", 0.5)
    up = [True]

    def answer(line: str) -> Said:
        return (Said(200) if "watch" in line else EMPTY) if up[0] else Said()

    with serving(answer) as server:
        reflector = following(server)
        until(lambda: server.count("watch") > 0)
        lists, up[0] = server.count("limit"), False
        until(lambda: reflector.contact.lost is not None and reflector.contact.lost.seconds > 1)
        assert "nodes" in str(reflector.contact.lost)
        up[0] = True
        until(lambda: reflector.contact.lost is None)
        reflector.stop()
        assert server.count("limit") > lists


def test_after_silence_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that outlives its time without a byte was cut off somewhere; what it missed is not asked of it."""
    monkeypatch.setattr(informer, "WATCH_SECONDS", 0)
    monkeypatch.setattr(informer, "WATCH_SPREAD_SECONDS", 1)
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.3)
    over = threading.Event()

    def answer(line: str) -> Said:
        return Said(200, b"", {**JSON, "content-length": "9"}) if "watch" in line else EMPTY

    with serving(answer, linger=over) as server:
        reflector = following(server)
        until(lambda: server.count("limit") >= 3)
        reflector.stop()
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
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced)
        slow[0], began = True, time.monotonic()
        with pytest.raises(UnreachableError):
            observer.read_again(1.0)
        slow[0] = False
        observer.stop()
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
        observer = Observer(server.api, [GPU_OPERATOR], settings, retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced and observer.lost is None)
        narrator = Narrator(Teller(server.api, "run", silent=True), None)
        rounds = Rounds(server.api, observer, settings, narrator, server.api.now())
        decision = Decision(Verdict.WAIT, Reason.NODES_PENDING, "", actions=(stale("a"),))
        up[0] = False
        until(lambda: observer.lost is not None)
        rounds.act(decision, 60)
        assert server.count("DELETE") == 0
        up[0] = True
        until(lambda: observer.lost is None)
        rounds.act(decision, 60)
        observer.stop()
        assert server.count("DELETE") == 1


def stale(name: str) -> DeletePod:
    """Ask for the restart of a stale plugin."""
    pod = StalePod("dra", name, f"uid-{name}", "7", "ds", because="it is stale", driver_run="run")
    return DeletePod("gpu-0", pod, "gpu")


def test_a_deletion_without_an_answer_counts_once_its_pod_is_gone() -> None:
    """The server may have done it, or not: what is there then tells."""
    with serving(lambda _line: Said()) as server:
        actor = Actor(server.api)
        (deed,) = actor.act([stale("a")], 60)
        assert deed.trouble
        assert (actor.settle({"uid-a"}), actor.restarted) == ([], 0)
        (deed,) = actor.settle(set())
        assert (deed.action, actor.restarted) == (stale("a"), 1)
        assert actor.settle(set()) == []


def test_a_deletion_that_is_granted_after_all_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer was lost, the second one came: what is gone then is the same restart."""
    monkeypatch.setattr(retry, "WRITING", retry.Patience(unreachable=0))
    answers = [Said()]
    with serving(lambda _line: answers.pop() if answers else told()) as server:
        actor = Actor(server.api)
        (deed,) = actor.act([stale("a")], 60)
        assert deed.trouble
        (deed,) = actor.act([stale("a")], 60)
        assert deed.note
        assert (actor.settle({"uid-a"}), actor.settle(set()), actor.restarted) == ([], [], 1)


@pytest.mark.parametrize("then", [404, 409])
def test_a_deletion_without_an_answer_that_is_gone_then_was_ours(then: int) -> None:
    """The server did it, as its answer to the next try shows: it counts once the pod is gone, and not before."""
    answers = [Said()]
    status = Said(then, json.dumps({"kind": "Status", "code": then}).encode())
    with serving(lambda _line: answers.pop() if answers else status) as server:
        actor = Actor(server.api)
        assert list(actor.act([stale("a")], 60)) == []
        assert (actor.settle({"uid-a"}), actor.restarted) == ([], 0)
        (deed,) = actor.settle(set())
        assert (bool(deed.note), actor.restarted) == (True, 1)


def test_a_deletion_that_did_not_happen_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes that pod days later is somebody else; what is long past shows nothing either way."""
    monkeypatch.setattr(loop, "ASK_AGAIN", timedelta(0))
    monkeypatch.setattr(retry, "WRITING", retry.Patience(unreachable=0))
    with serving(lambda _line: Said()) as server:
        actor = Actor(server.api)
        assert len(list(actor.act([stale("a"), stale("b")], 60))) == 2
        assert actor.settle({"uid-a", "uid-b"}, current=False) == []
        assert [stale("a")] == [one.action for one in actor.settle({"uid-b"})]
        assert (actor.settle(set()), actor.restarted) == ([], 1)


def test_no_try_of_a_write_goes_on_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the Lease next may act then: each try has only what is left of the same time."""
    monkeypatch.setattr(retry, "WRITING", retry.Patience(unreachable=PATIENCE))
    with serving(lambda _line: Said()) as server:
        granted: list[float] = []
        send = server.api.send

        def asked(request: Request, seconds: float) -> dict[str, Any]:
            granted.append(seconds)
            return send(request, seconds)

        monkeypatch.setattr(server.api, "send", asked)
        began = time.monotonic()
        (deed,) = Actor(server.api).act([stale("a")], 4)
        assert deed.trouble
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
        actor = Actor(server.api)
        (deed,) = actor.act([stale("a"), stale("b")], 60)
        assert deed.trouble
        assert list(actor.act([stale("a"), stale("b")], 60)) == []
        assert server.count("DELETE") == 1
        assert actor.settle(set()) == []


def test_nobody_waits_for_ever_between_two_tries() -> None:
    """Ten seconds at most, and something by chance, however often it failed."""
    assert max(retry.pause(failures) for failures in (5, 50, 5000)) <= 10.5
    assert retry.asked(UnreachableError("no")) == 0


def test_last_words_are_tried_whatever_failed_before() -> None:
    """Events are given up for a while after a failure, but not the one that tells the end."""
    with serving(lambda _line: Said(500)) as server:
        teller = Teller(server.api, "run", silent=False)
        for reason in ("One", "Two"):
            teller.tell(SUBJECT, reason, "note")
        teller.last_words()
        assert server.count("POST") == 1
        teller.tell(SUBJECT, "End", "note")
        assert server.count("POST") == 2
