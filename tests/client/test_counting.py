"""What goes wrong on the way to the API server is counted where it is noticed, once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from hook.errors import ClusterError
from hook.kube import retry
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import NODES, ListOptions, Request
from hook.objects import readers
from tests.client.server import Said, Server, serving
from tests.client.test_losing_contact import EMPTY, PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable

ONE: Final = Request("get", NODES, name="gpu-0")
EVERY: Final = ListOptions(NODES)


def refused(code: int) -> Said:
    """Refuse as an API server does."""
    return Said(code, json.dumps({"kind": "Status", "message": "no", "code": code}).encode())


def event(kind: str, obj: dict[str, object]) -> Said:
    """Answer a watch with one event."""
    return Said(200, json.dumps({"type": kind, "object": obj}).encode() + b"\n")


def send(server: Server) -> None:
    """Ask for one object."""
    server.api.send(ONE)


def list_all(server: Server) -> None:
    """Ask for a page."""
    server.api.list_page(EVERY.page())


def watch(server: Server) -> None:
    """Watch, to the end of the watch."""
    list(server.api.events(server.api.open_watch(EVERY.watch("1", 1), 1), NODES))


@pytest.mark.parametrize(
    ("act", "said", "counted"),
    [
        pytest.param(send, Said(), ("Unreachable", "get", "nodes"), id="no-answer"),
        pytest.param(send, refused(403), ("PermissionDenied", "get", "nodes"), id="forbidden"),
        pytest.param(send, Said(200, b"{}"), ("Unreachable", "get", "nodes"), id="no-object"),
        pytest.param(list_all, refused(410), ("Gone", "list", "nodes"), id="page-that-expired"),
        pytest.param(list_all, Said(200, b'{"kind": "L'), ("Unreachable", "list", "nodes"), id="half-a-list"),
        pytest.param(watch, refused(429), ("Throttled", "watch", "nodes"), id="watch-that-does-not-open"),
        pytest.param(watch, Said(200, b'{"type":'), ("Unreachable", "watch", "nodes"), id="half-an-event"),
    ],
)
def test_an_error_counts_once(act: Callable[[Server], None], said: Said, counted: tuple[str, str, str]) -> None:
    """Whatever is asked, a failure counts by its kind, its verb and its resource."""
    with serving(lambda _line: said) as server:
        for times in (1, 2):
            with pytest.raises(ClusterError):
                act(server)
            assert server.api.counters.errors == {counted: times}


def test_what_succeeds_is_not_counted() -> None:
    """No error, no count."""
    with serving(lambda line: Said(200) if "watch" in line else EMPTY) as server:
        for act in (send, list_all, watch):
            act(server)
        assert server.api.counters.errors == {}


@pytest.mark.parametrize(
    ("said", "why", "errors"),
    [
        pytest.param(Said(200), "Ended", set(), id="agreed-time"),
        pytest.param(
            event("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}),
            "Gone",
            {("Gone", "watch", "nodes")},
            id="expired",
        ),
        pytest.param(
            Said(200, b"{}\n", {"content-type": "application/json", "content-length": "9"}),
            "Unreachable",
            {("Unreachable", "watch", "nodes")},
            id="broken-off",
        ),
    ],
)
def test_a_watch_that_is_opened_again(said: Said, why: str, errors: set[tuple[str, str, str]]) -> None:
    """Each end of a watch counts by its reason; an end as agreed is no error."""
    with serving(lambda line: said if "watch" in line else EMPTY) as server:
        informer = Informer(server.api, ListWatch(EVERY, readers.node), lambda: None, retry.starting(PATIENCE))
        informer.start()
        until(lambda: server.api.counters.watches.get(("nodes", why), 0) >= 2)
        informer.stop()
        assert {reason for _resource, reason in server.api.counters.watches} == {why}
        assert set(server.api.counters.errors) == errors
