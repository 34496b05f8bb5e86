"""Informers: what a watch brings, what is listed again, and what an informer does while it cannot read."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Final

import pytest

from hook.kube import client, retry
from hook.kube import informer as informers
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import NODES, ListOptions
from hook.objects import readers
from hook.objects.views import Malformed
from tests.client.server import EMPTY, PATIENCE, SILENT, Said, Server, events, listed, refused, serving, until
from tests.fixtures.objects import obj

STATE: Final = "nvidia.com/gpu-driver-upgrade-state"


def node(name: str, version: str, state: str = "upgrade-done") -> dict[str, Any]:
    """Return a node at a version."""
    return obj("node", {"metadata": {"name": name, "resourceVersion": version, "labels": {STATE: state}}})


def informer_of(
    server: Server,
    policy: retry.RetryPolicy | None = None,
    changed: Callable[[Any, Any], object] = lambda *_views: None,
) -> Informer:
    """Start an informer of the nodes."""
    patience = policy or retry.starting(PATIENCE)
    informer = Informer(server.api, ListWatch(ListOptions(NODES), readers.node), changed, patience)  # type: ignore[arg-type]
    informer.start()
    return informer


class Watched:
    """Lists two nodes, then gives one answer for each watch; later ones end at once."""

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.versions: list[str] = []

    def __call__(self, line: str) -> Said:
        """Answer."""
        if "watch=true" not in line:
            return listed(node("a", "1"), node("b", "2"), version="10")
        found = re.search("resourceVersion=([^&]*)", line)
        self.versions.append(found[1] if found else "")
        return self.answers.pop(0) if self.answers else Said(200)


def after(watched: Watched, watches: int) -> tuple[dict[str, Any], Server]:
    """Follow until so many watches were opened; return what is known then, by name."""
    with serving(watched) as server:
        informer = informer_of(server)
        until(lambda: len(watched.versions) > watches, "so many watches")
        informer.stop()
        return {view.name: view for view in informer.views()}, server


def test_each_event_does_what_it_says() -> None:
    """A bookmark says where to go on; one without a version says nothing. A malformed object is there, and named."""
    odd = node("d", "14")
    odd["spec"] = {"taints": 7}
    changes = events(
        ("DELETED", node("a", "11")), ("ADDED", node("c", "12")), ("MODIFIED", node("b", "13", "drain-required")),
        ("ADDED", odd),
    )  # fmt: skip
    mark = {"kind": "Node", "metadata": {"resourceVersion": "77"}}
    watched = Watched(changes, events(("BOOKMARK", mark)), events(("BOOKMARK", {"metadata": {}})))
    known, server = after(watched, 3)
    assert known.keys() == {"b", "c", "d"}
    assert (known["b"].labels[STATE], isinstance(known["d"], Malformed)) == ("drain-required", True)
    assert watched.versions[:4] == ["10", "14", "77", "77"]
    assert server.count("limit") == 1


def test_a_kind_that_comes_and_goes() -> None:
    """Not served is known, too: it is absent then, and nothing of before is left; it is asked for again."""
    served = threading.Event()
    page = listed(node("a", "1"), version="10")

    def answer(line: str) -> Said:
        return refused(404) if not served.is_set() else Said(200) if "watch=true" in line else page

    with serving(answer) as server:
        informer = informer_of(server)
        until(lambda: informer.synced, "it is listed")
        assert (informer.absent, informer.views(), informer.out_of_sync) == (True, (), None)
        served.set()
        until(lambda: not informer.absent, "it is available")
        assert ["a"] == [view.name for view in informer.views()]
        served.clear()
        until(lambda: informer.absent, "it is gone")
        assert (informer.views(), informer.problem) == ((), None)
        informer.stop()


def test_an_error_within_a_watch_lists_again() -> None:
    """What it missed is not known. Also a refusal may pass: credentials rotate, and RBAC changes."""
    for code in (410, 401, 403):
        error = {"kind": "Status", "code": code, "message": "no"}
        watched = Watched(events(("ADDED", node("c", "12")), ("ERROR", error), ("ADDED", node("d", "13"))))
        known, server = after(watched, 1)
        assert {"a", "b"} == set(known), code
        assert watched.versions[:2] == ["10", "10"], code
        assert server.count("limit") == 2, code


def test_an_informer_that_is_stopped_tries_nothing_again() -> None:
    """A kind that is needed no more is let go of also while it cannot be read, however endless the patience."""
    for said in (Said(), refused(403)):
        with serving(said) as server:
            informer = informer_of(server, retry.CONTROLLER)
            until(lambda: server.count("/nodes") > 1, "it tries again")
            informer.stop()
            informer._thread.join(PATIENCE)
            assert (informer._thread.is_alive(), informer.problem) == (False, None), said


def test_watches_that_bring_nothing_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends each one at once is not asked five times a second, by a dozen watches, for hours."""
    pauses: list[float] = []
    with serving(lambda line: Said(200) if "watch" in line else EMPTY) as server:
        informer = Informer(
            server.api, ListWatch(ListOptions(NODES), readers.node), lambda *_views: None, retry.CONTROLLER
        )

        def wait(seconds: float) -> bool:
            pauses.append(seconds)
            if len(pauses) > 20:
                informer._stopping.set()
            return False

        monkeypatch.setattr(informer._stopping, "wait", wait)
        monkeypatch.setattr(retry, "LONGEST_WAIT_SECONDS", 10.0)
        monkeypatch.setattr(informers, "SHORT_WATCH_SECONDS", 2 * PATIENCE)
        informer.start()
        informer._thread.join(PATIENCE)
    assert (pauses[0], pauses[1]) == (informers.NEXT_WATCH_SECONDS, informers.NEXT_WATCH_SECONDS)
    assert all(10 <= pause <= 10.1 for pause in pauses[14:])


def test_after_a_long_gap_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch does not report when it has caught up; until a list does, the cache is out of sync."""
    monkeypatch.setattr(informers, "LONGEST_GAP_SECONDS", 0.0)
    up = threading.Event()
    up.set()

    def answer(line: str) -> Said:
        return (Said(200) if "watch" in line else EMPTY) if up.is_set() else Said()

    with serving(answer) as server:
        informer = informer_of(server)
        until(lambda: server.count("watch") > 0, "it watches")
        lists = server.count("limit")
        up.clear()
        until(lambda: informer.out_of_sync is not None, "it is out of sync")
        assert "nodes" in str(informer.out_of_sync)
        up.set()
        until(lambda: informer.out_of_sync is None, "it is in sync")
        informer.stop()
        assert server.count("limit") > lists


def test_after_silence_all_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that outlives its time without a byte was cut off somewhere; what it missed is not asked of it."""
    monkeypatch.setattr(informers, "WATCH_SECONDS", 0)
    monkeypatch.setattr(informers, "WATCH_SPREAD_SECONDS", 1)
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.1)
    with serving(lambda line: SILENT if "watch" in line else EMPTY) as server:
        informer = informer_of(server)
        until(lambda: server.count("limit") >= 3, "it is listed again and again")
        informer.stop()
        assert 2 <= server.count("watch") <= server.count("limit")
