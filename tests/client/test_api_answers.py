"""What the API server says, and what others say in its place, is told apart."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hook.errors import (
    ClusterError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from hook.kube.requests import NODES, ListOptions, Request
from tests.client.server import HTML, JSON, Said, serving

PAGE = b"<html>default backend - 404</html>"
PLAIN = {"content-type": "text/plain; charset=utf-8"}
ONE = Request("get", NODES, name="gpu-0")


def status(code: int) -> Said:
    """Refuse as an API server does."""
    return Said(code, json.dumps({"kind": "Status", "message": "no", "code": code}).encode())


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        pytest.param(status(404), NotFoundError, id="404-of-an-api-server"),
        pytest.param(Said(404, b"404 page not found\n", PLAIN), NotFoundError, id="404-for-a-path-nobody-knows"),
        pytest.param(Said(404, PAGE, HTML), UnreachableError, id="404-of-a-load-balancer"),
        pytest.param(status(403), PermissionDeniedError, id="403-of-an-api-server"),
        pytest.param(Said(403, PAGE, HTML), UnreachableError, id="403-of-a-firewall"),
        pytest.param(Said(400, PAGE, HTML), UnreachableError, id="400-of-a-proxy"),
        pytest.param(Said(410, b"{}"), UnreachableError, id="410-without-a-status"),
        pytest.param(Said(401, b"Unauthorized", PLAIN), UnauthorizedError, id="401-in-plain-text"),
        pytest.param(Said(429, b"Too many requests", PLAIN), ThrottledError, id="429-in-plain-text"),
        pytest.param(Said(503, PAGE, HTML), UnreachableError, id="503"),
        pytest.param(Said(302, b"", {"location": "/login", **HTML}), UnreachableError, id="redirect-to-a-login"),
        pytest.param(Said(200, PAGE, HTML), UnreachableError, id="page"),
        pytest.param(Said(200, b"{}"), UnreachableError, id="no-kind"),
        pytest.param(Said(200, b'{"kind": "No'), UnreachableError, id="half-an-object"),
        pytest.param(Said(200, b'{"kind": ' + b"[" * 100_000), RejectedError, id="too-deep"),
        pytest.param(Said(200, b"[]"), UnreachableError, id="list"),
        pytest.param(Said(), UnreachableError, id="nothing"),
    ],
)
def test_an_answer_is_read_as_what_it_is(said: Said, kind: type[ClusterError]) -> None:
    """Only an API server can say that something is not there, or not allowed."""
    with serving(lambda _line: said) as server, pytest.raises(ClusterError) as caught:
        server.api.send(ONE)
    assert type(caught.value) is kind


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7.0), ("soon", None), ("²", None), ("", None)])
def test_how_long_a_server_asks_to_wait(asked: str, seconds: float | None) -> None:
    """A number of seconds, or nothing that we understand."""
    said = Said(429, b"", {**PLAIN, "retry-after": asked})
    with serving(lambda _line: said) as server, pytest.raises(ThrottledError) as caught:
        server.api.send(ONE)
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    ("status_code", "kind", "followed"),
    [pytest.param(200, "application/json", True, id="api-server"),
     pytest.param(503, "text/html", False, id="error-page"),
     pytest.param(200, "text/html", False, id="page")],
)  # fmt: skip
def test_whose_clock_is_followed(status_code: int, kind: str, followed: bool) -> None:
    """Ours is set by the API server, not by the load balancer that says that there is none."""
    theirs = datetime.now(UTC) + timedelta(hours=2)
    said = Said(status_code, b'{"kind": "Node"}', {"content-type": kind, "date": format_datetime(theirs, usegmt=True)})
    with serving(lambda _line: said) as server:
        for _ in range(3):
            try:
                server.api.send(ONE)
            except UnreachableError:
                assert not followed
        assert followed is (server.api.now() - datetime.now(UTC) > timedelta(hours=1))


def test_a_date_of_an_unknown_place() -> None:
    """It is UTC all the same, and no reason to break down."""
    said = Said(200, b'{"kind": "Node"}', {**JSON, "date": "Wed, 01 Jan 2020 00:00:00 -0000"})
    with serving(lambda _line: said) as server:
        assert server.api.send(ONE) == {"kind": "Node"}
        assert server.api.now().year < datetime.now(UTC).year


def test_a_watch_that_is_no_watch() -> None:
    """A page in its place is an outage, from its first byte."""
    with serving(lambda _line: Said(200, PAGE, HTML)) as server, pytest.raises(UnreachableError):
        server.api.open_watch(ListOptions(NODES).watch("1", 60), 60)
