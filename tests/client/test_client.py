"""The client: what an answer means, whose clock counts, for how long an answer is waited for, and what is counted."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, tzinfo
from email.utils import format_datetime
from typing import Final, Self

import pytest
import urllib3

from hook.errors import ApiError, PermissionDeniedError
from hook.kube import client as clients
from hook.kube import requests
from hook.kube.client import Api
from hook.kube.connection import Connection
from hook.kube.requests import NODES, ListOptions, Request
from tests.client.server import GRANTED, HTML, JSON, Said, Trickle, refused, serving

PAGE: Final = b"<html>default backend - 404</html>"
PLAIN: Final = {"content-type": "text/plain; charset=utf-8"}
ONE: Final = Request("get", NODES, name="gpu-0")
DELETE: Final = requests.delete_pod("dra", "p", "uid", "7")
EVERY: Final = ListOptions(NODES)
LONG_SECONDS: Final = 600.0


def test_an_answer_is_read_as_what_it_is() -> None:
    """Only an API server can report that something does not exist, or is not allowed."""
    cases: dict[str, tuple[Said, int]] = {
        "404 of an API server": (refused(404), 404),
        "404 for an unknown path": (Said(404, b"404 page not found\n", PLAIN), 404),
        "404 of a load balancer": (Said(404, PAGE, HTML), 0),
        "403 of an API server": (refused(403), 403),
        "403 of a firewall": (Said(403, PAGE, HTML), 0),
        "400 of a proxy": (Said(400, PAGE, HTML), 0),
        "410 without a Status": (Said(410, b"{}"), 0),
        "401 in plain text": (Said(401, b"Unauthorized", PLAIN), 401),
        "429 in plain text": (Said(429, b"Too many requests", PLAIN), 429),
        "503": (Said(503, PAGE, HTML), 503),
        "redirect to a login": (Said(302, b"", {"location": "/login", **HTML}), 0),
        "page": (Said(200, PAGE, HTML), 0),
        "no kind": (Said(200, b"{}"), 0),
        "half an object": (Said(200, b'{"kind": "No'), 0),
        "too deep": (Said(200, b'{"kind": ' + b"[" * 100_000), 200),
        "list": (Said(200, b"[]"), 0),
        "no number": (Said(200, b"NaN"), 0),
        "another encoding": (Said(200, '{"kind": "ä"}'.encode("latin-1")), 0),
        "a number without end": (Said(200, b'{"kind": ' + b"9" * 5000 + b"}"), 0),
        "nothing": (Said(), 0),
    }
    for name, (said, status) in cases.items():
        with serving(said) as server, pytest.raises(ApiError) as caught:
            server.api.send(ONE)
        assert caught.value.status == status, name
    # In the place of a watch a page is an outage, from its first byte.
    with serving(cases["page"][0]) as server, pytest.raises(ApiError):
        server.api.open_watch(EVERY.watch("1", 60), 60)


def test_a_403_to_a_write_is_of_rbac_or_of_admission() -> None:
    """RBAC names a user who cannot do something. All else is admission, whatever its own words are."""
    named = 'pods "p" is forbidden: '
    user = 'User "system:serviceaccount:a:b" cannot delete resource "pods" in API group "" in the namespace "dra"'
    for message, kind in {
        f"{named}{user}": PermissionDeniedError,
        f"pods is forbidden: {user}": PermissionDeniedError,
        f'{named}{user}: RBAC: clusterrole.rbac.authorization.k8s.io "x" not found': PermissionDeniedError,
        'leases.coordination.k8s.io "l" is forbidden: User "a" cannot update resource "leases"': PermissionDeniedError,
        'forbidden: User "a" cannot delete path "/x"': PermissionDeniedError,
        'admission webhook "freeze.example.com" denied the request: no': ApiError,
        f'admission webhook "freeze.example.com" denied the request: {named}{user}': ApiError,
        f"{named}ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: no": ApiError,
        f"{named}ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: {user}": ApiError,
        f"{named}exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9": ApiError,
        f"{named}unable to create new content in namespace dra because it is being terminated": ApiError,
        f'{named}violates PodSecurity "restricted:latest": privileged': ApiError,
        "HTTP 403": ApiError,
    }.items():
        with serving(refused(403, message)) as server:
            with pytest.raises(ApiError) as caught:
                server.api.send(DELETE)
            assert type(caught.value) is kind, message
            assert str(caught.value).startswith("permission missing: delete pods in namespace dra") is (
                kind is PermissionDeniedError
            ), message
            assert str(caught.value).startswith("refused by admission: ") is (kind is ApiError), message
            # Admission does not see reads.
            with pytest.raises(PermissionDeniedError):
                server.api.send(ONE)


def test_what_is_wrong_is_told_in_words() -> None:
    """Of the server and of the connection, without names of classes, brackets or lines of code."""
    cases = {
        "the response 301 is not from an API server": Said(301, b"", {"location": "/", "content-length": "0"}),
        "the response 302 is not from an API server": Said(302, b'{"kind": "Node"}', {**JSON, "location": "/"}),
        "the API server answered 401: Unauthorized": refused(401, "Unauthorized"),
        "the API server answered 429: HTTP 429": Said(429, b"Too many requests", PLAIN),
        ": Remote end closed connection without response": Said(),
        ": incorrect header check": Said(200, b"text", {**JSON, "content-encoding": "gzip"}),
    }
    for words, said in cases.items():
        with serving(said) as server:
            with pytest.raises(ApiError) as caught:
                server.api.send(ONE)
            assert str(caught.value).endswith(words), str(caught.value)
    with serving(GRANTED) as server, pytest.raises(ApiError, match=r": TLS: wrong version number$"):
        Api(Connection(f"https://127.0.0.1:{server.port}")).send(ONE)


def test_how_long_a_server_asks_to_wait() -> None:
    """A number of seconds; anything else is ignored."""
    longest = clients.LONGEST_RETRY_AFTER  # a header must not stop a run
    for asked, seconds in (("7", 7.0), ("9" * 400, longest), ("soon", 0), ("²", 0), ("-5", 0), ("", 0)):
        said = Said(429, b"", {**PLAIN, "retry-after": asked})
        with serving(said) as server, pytest.raises(ApiError) as caught:
            server.api.send(ONE)
        assert caught.value.retry_after == seconds, asked


def test_whose_clock_is_followed() -> None:
    """The API server's, not that of a load balancer. A date of an unknown place is UTC."""
    theirs = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    for status, kind, followed in ((200, JSON, True), (503, HTML, False), (200, HTML, False)):
        said = Said(status, b'{"kind": "Node"}', {**kind, "date": theirs})
        with serving(said) as server:
            for _time in range(3):
                try:
                    server.api.send(ONE)
                except ApiError:
                    assert not followed
            assert followed is (server.api.now() - datetime.now(UTC) > timedelta(hours=1)), (status, kind)
    for date in ("soon", f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", "Mon, 99 Jan 1 99:99:99 X"):
        with serving(Said(200, b'{"kind": "Node"}', {**JSON, "date": date})) as server:
            server.api.send(ONE)
            assert abs(server.api.now() - datetime.now(UTC)) < timedelta(hours=1), date
    said = Said(200, b'{"kind": "Node"}', {**JSON, "date": "Wed, 01 Jan 2020 00:00:00 -0000"})
    with serving(said) as server:
        server.api.send(ONE)
        assert server.api.now().year < datetime.now(UTC).year


class SetClock(datetime):
    """A wall clock that an administrator sets."""

    wrong = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Return what it shows."""
        return super().now(tz) + cls.wrong


def test_setting_the_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of this machine's clock is no time that passed: no pause ends by it, and no Job's time is up."""
    monkeypatch.setattr(clients, "datetime", SetClock)
    for first in (timedelta(), timedelta(hours=1)):
        for then in (timedelta(hours=1), timedelta(seconds=70), timedelta(seconds=-70), timedelta()):
            monkeypatch.setattr(SetClock, "wrong", first)
            api = Api(Connection("http://127.0.0.1"))
            for _time in range(clients.OFFSETS_KEPT):
                api._set_clock(urllib3.HTTPResponse(headers={"date": format_datetime(datetime.now(UTC), usegmt=True)}))
            monkeypatch.setattr(SetClock, "wrong", then)
            assert abs(api.now() - datetime.now(UTC)) < timedelta(seconds=30), (first, then)


BODY: Final = json.dumps({"kind": "Status", "message": "x" * 1500, "code": 500}).encode()
BOUND_SECONDS: Final = 0.3


def head(*more: str, status: int = 200) -> bytes:
    """Begin an answer."""
    return "\r\n".join((f"HTTP/1.1 {status} X", "content-type: application/json", *more)).encode() + b"\r\n\r\n"


def chunk(content: bytes, extension: bytes = b"") -> bytes:
    """Write a chunk as HTTP has it."""
    return f"{len(content):x}".encode() + extension + b"\r\n" + content + b"\r\n"


CHUNKED: Final = head("transfer-encoding: chunked")
TRICKLES: Final = {
    "body": Trickle(head(f"content-length: {len(BODY)}"), BODY),
    "chunks": Trickle(CHUNKED, b"".join(chunk(BODY[n : n + 1]) for n in range(250))),
    "trailer": Trickle(CHUNKED + chunk(BODY) + b"0\r\n", b"a: " + b"a" * 1500),
    "refusal": Trickle(head(f"content-length: {len(BODY)}", status=500), BODY),
    "header": Trickle(b"HTTP/1.1 200 OK\r\n", b"a: " + b"a" * 1500),
    "interim answers": Trickle(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 60),
}


def test_an_answer_has_its_time_as_a_whole() -> None:
    """Wherever it trickles: a write that continues could collide with another one."""

    def send(api: Api, request: Request) -> None:
        if request == EVERY.page():
            api.list_page(request, BOUND_SECONDS)
        else:
            api.send(request, BOUND_SECONDS)

    def outcome(case: tuple[str, Request]) -> str:
        name, request = case
        with serving(TRICKLES[name]) as server:
            try:
                send(server.api, request)
            except ApiError:
                return "read to its end" if server.finished.is_set() else "given up"
        return "taken"

    cases = [*((name, request) for name in TRICKLES for request in (ONE, DELETE)), ("body", EVERY.page())]
    with ThreadPoolExecutor(len(cases)) as pool:
        for case, found in zip(cases, pool.map(outcome, cases), strict=True):
            assert found == "given up", case


def test_an_answer_that_is_complete_in_time_is_taken() -> None:
    """However slowly it comes; and the connection is good for the next one, with its own time."""
    body = b'{"kind": "Node"}'
    with serving(Trickle(head(f"content-length: {len(body)}"), body)) as server:
        for _time in range(2):
            assert server.api.send(ONE, LONG_SECONDS) == {"kind": "Node"}


def test_a_watch_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends blanks without end would blind us; a refusal that trickles is not waited for either."""
    monkeypatch.setattr(clients, "READ_SECONDS", 0.5)
    monkeypatch.setattr(clients, "WATCH_SLACK_SECONDS", LONG_SECONDS)
    with serving(Trickle(head(), b"\n" * 1500)) as server:
        response = server.api.open_watch(EVERY.watch("1", 0), 0)
        with pytest.raises(ApiError):
            list(server.api.events(response, NODES))
        assert not server.finished.is_set()
    with serving(TRICKLES["refusal"]) as server:
        with pytest.raises(ApiError):
            server.api.open_watch(EVERY.watch("1", 0), 0)
        assert not server.finished.is_set()
