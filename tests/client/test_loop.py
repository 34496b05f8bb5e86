"""The reconcile loop: what it waits for, what holds it back, and what it remembers."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.kube.cache import Cache
from hook.kube.informer import OutOfSync
from hook.run import loop, restarts
from hook.run.restarts import RestartResult
from tests.client.runs import runner, stale_pods
from tests.client.server import EMPTY, PATIENCE, Said, bounded, serving, told, until
from tests.client.shown import Shown
from tests.fixtures.cluster import cluster, stale
from tests.fixtures.objects import at


def test_nothing_is_restarted_while_the_cache_is_out_of_sync() -> None:
    """What was decided on is of before; writes may get through where reads do not."""
    up, decided = threading.Event(), Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=tuple(stale_pods("a")))
    up.set()

    def answer(line: str) -> Said:
        if "GET" not in line:
            return told()
        return Said() if not up.is_set() else EMPTY if "limit" in line else Said(200)

    with serving(answer) as server:
        run = runner(server)
        looped, cache = run._loop, run._cache
        cache.start()
        until(lambda: cache.synced and cache.out_of_sync is None, "all is read")
        for connected in (False, True):
            (up.set if connected else up.clear)()
            until(lambda connected=connected: (cache.out_of_sync is None) is connected, "it notices")  # type: ignore[misc]
            looped.act(decided, 60)
            assert server.count("DELETE") == connected
        cache.stop()


def test_nothing_is_decided_before_what_is_new_is_read() -> None:
    """The pods of a plugin that is seen for the first time are not listed yet: they would look missing."""
    blocker, shown = threading.Event(), Shown(cluster())

    def held(line: str) -> None:
        if "kubelet-plugin" in line:
            blocker.wait(PATIENCE)

    shown.instead = held
    with serving(shown) as server:
        run = runner(server)
        looped, cache = run._loop, run._cache
        cache.start()
        until(lambda: cache.synced, "what is known to matter is read")
        assert looped.observe() is None
        blocker.set()
        until(lambda: cache.synced, "the new pods are read")
        assert (found := looped.observe()) is not None
        cache.stop()
    assert len(found.plugin_pods) == 1


@pytest.mark.parametrize(
    ("lost", "ours"),
    [
        pytest.param(OutOfSync("pods", 0.0, "refused"), 1, id="out of sync: the pod may be gone"),
        pytest.param(None, 0, id="in sync: it was not deleted"),
    ],
)
def test_a_deletion_without_an_answer_is_given_up_by_a_cache_in_sync_only(
    lost: OutOfSync | None, ours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After half a minute in which its pod stays live. If it is gone later, another client deleted it."""
    now = [1000.0]
    monkeypatch.setattr(restarts, "time", SimpleNamespace(monotonic=lambda: now[0]))
    (pod,) = stale().of("plugin-pod")
    (action,) = stale_pods("a")
    action = replace(action, pod=structs.replace(action.pod, uid=pod["metadata"]["uid"]))
    with serving(lambda line: Said() if "DELETE" in line else EMPTY) as server:
        looped = runner(server)._loop
        list(looped.restarter.act([action], 60))
        now[0] += 31
        monkeypatch.setattr(Cache, "out_of_sync", lost)
        looped.decide(stale().seen())
        monkeypatch.setattr(Cache, "out_of_sync", None)
        looped.decide(stale().only("plugin-pod").seen())
    assert (looped.restarter.restarted, len(looped.memory.records)) == (ours, ours)


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        pytest.param({"note": "restarted", "deleted_at": at(5)}, ("uid-a", at(5), "", None), id="restarted"),
        pytest.param({"refused": "no"}, ("uid-a", None, "no", None), id="refused"),
        pytest.param({"trouble": "busy"}, ("", None, "", "busy"), id="to be tried again"),
    ],
)
def test_each_result_is_remembered(how: dict[str, object], kept: tuple[object, ...]) -> None:
    """With the time that the API server gave the deletion."""
    (action,) = stale_pods("a")
    with serving(EMPTY) as server:
        looped = runner(server)._loop
        looped.remember(RestartResult(action, **how))  # type: ignore[arg-type]
    record = looped.memory.of(action.node, "ds")
    assert (record.pod, record.deleted_at, record.refused, record.trouble and record.trouble.why) == kept


@pytest.mark.parametrize(
    ("before", "later", "changes", "pause"),
    [
        pytest.param({"a"}, 0.25, True, 0.75, id="after a change"),
        pytest.param({"a"}, 7, True, loop.BATCH_SECONDS, id="after a change long ago"),
        pytest.param(set(), 0.25, True, loop.BATCH_SECONDS, id="after a decision on no change"),
        pytest.param(set(), 0.25, False, 0.0, id="without a change"),
    ],
)
def test_two_decisions_on_changes_are_a_second_apart(
    before: set[str], later: float, changes: bool, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much changes meanwhile. A change after that waits a moment for others, and for no second to end."""
    now, slept = [10.0], list[float]()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=slept.append))
    with serving(EMPTY) as server:
        run = runner(server)
        run._loop._changed = before
        run._loop.decide(cluster().seen())
        now[0] += later
        if changes:
            run._cache._note_change(None, None)
        run._loop.rest(0)
    assert slept == [pause]


def test_a_change_ends_the_wait_for_it_and_no_other_one() -> None:
    """A change before the wait, or during it. A loop that never waits again takes a whole CPU."""
    with serving(EMPTY) as server:
        run = runner(server)
        run._cache._note_change(None, None)
        with bounded():
            run._loop.rest(PATIENCE)
            threading.Timer(0.05, run._cache._note_change, (None, None)).start()
            run._loop.rest(PATIENCE)
        assert not run._cache._changed, "the next wait is for the next change"
