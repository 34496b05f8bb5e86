"""Answers that no API server gives, but proxies, broken disks and enemies do: an error that says so, in time."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from hook.errors import ClusterError, RejectedError, ThrottledError, UnreachableError
from hook.kube.client import LONGEST_RETRY_AFTER, Api
from hook.kube.connection import by_library
from hook.kube.events import own_job
from hook.kube.requests import NODES, RESOURCE_SLICES, Request
from hook.kube.retry import RetryPolicy
from tests.process.program import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEEP = b'{"metadata": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
NOT_JSON = {
    "empty": b"",
    "html": b"<html>hello</html>",
    "cut-off": b'{"items": [',
    "list": b"[]",
    "text": b'"x"',
    "null": b"null",
    "nan": b"NaN",
    "latin-1": '{"a": "ä"}'.encode("latin-1"),
    "endless-number": b'{"a": ' + b"9" * 5000 + b"}",
    "zeros": b"\x00" * 100,
}


@contextmanager
def answering(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve one answer to everything, on loopback."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), "Connection": "close", **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def api(url: str) -> Api:
    """Connect without credentials."""
    configuration = client.Configuration()
    configuration.host = url
    return Api(by_library(configuration))


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_an_answer_that_is_no_object_is_worth_another_try(body: bytes) -> None:
    """Half an answer, or somebody else's."""
    with answering(body) as url, pytest.raises(UnreachableError):
        api(url).send(Request("get", NODES))


def test_an_answer_that_is_nested_without_end_is_refused() -> None:
    """Trying again would not help."""
    with answering(DEEP) as url, pytest.raises(RejectedError, match="nested too deeply"):
        api(url).send(Request("get", NODES))


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", 7.0), ("9" * 400, LONGEST_RETRY_AFTER), ("²", None), ("-5", None), ("soon", None), ("", None)],
    ids=["seconds", "for-ever", "superscript", "negative", "a-word", "empty"],
)
def test_a_wait_is_as_long_as_asked_within_reason(header: str, expected: float | None) -> None:
    """A run must not be stopped by a header."""
    headers = {"Retry-After": header}
    with answering(b'{"kind": "Status"}', 429, headers) as url, pytest.raises(ThrottledError) as found:
        api(url).send(Request("get", NODES))
    assert expected == found.value.retry_after


@pytest.mark.parametrize(
    "date",
    ["", "soon", f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", "Mon, 99 Jan 1 99:99:99 X"],
    ids=["empty", "word", "far-away", "impossible"],
)
def test_a_date_that_cannot_be_read_moves_no_clock(date: str) -> None:
    """Then our own is as good as any."""
    with answering(b'{"kind": "NodeList"}', headers={"Date": date}) as url:
        one = api(url)
        before = one.now()
        one.send(Request("get", NODES))
        assert abs((one.now() - before).total_seconds()) < 3600


@pytest.mark.parametrize("start", ["9999-12-31T23:59:59Z", "2999-01-01T00:00:00+01:00"], ids=["last-second", "far"])
def test_a_job_that_is_to_start_does_not_put_off_the_end(start: str) -> None:
    """The time counts from now at the latest."""
    body = json.dumps({"kind": "Job", "metadata": {"uid": "u"}, "status": {"startTime": start}}).encode()
    with answering(body) as url:
        one = api(url)
        job = own_job(one, "ns", "job", RetryPolicy(1.0))
        assert job is not None
        assert job.started <= one.now()


@pytest.mark.parametrize("start", [5, "soon", [], "2026-01-01T10:00:00"], ids=["number", "word", "list", "no-zone"])
def test_a_job_that_cannot_be_read_is_none(start: object) -> None:
    """The time counts from now, and the log says why."""
    body = json.dumps({"kind": "Job", "metadata": {"uid": "u"}, "status": {"startTime": start}}).encode()
    with answering(body) as url:
        assert own_job(api(url), "ns", "job", RetryPolicy(1.0)) is None


@pytest.mark.parametrize("versions", [{}, [{"version": 1}], ["v1"], "v1"], ids=["object", "number", "text", "word"])
def test_a_list_of_versions_that_cannot_be_read_is_worth_another_try(versions: object) -> None:
    """It decides whether slices count."""
    with (
        answering(json.dumps({"kind": "APIGroup", "versions": versions}).encode()) as url,
        pytest.raises(UnreachableError),
    ):
        api(url).served_versions(RESOURCE_SLICES)


ANSWERS: dict[str, tuple[bytes, int]] = {
    "nested": (DEEP, 200),
    "no-kind": (b"{}", 200),
    "no-items": (b'{"kind": "NodeList"}', 200),
    "items-of-text": (b'{"kind": "NodeList", "items": ["x"], "metadata": {}}', 200),
    "html-error": (b"\x1b[2J<html>", 418),
    "message-is-a-list": (b'{"kind": "Status", "message": ["\\u001b[2J"]}', 400),
    "not-json": (b"OK", 200),
}


@pytest.mark.parametrize("command", ["run", "status"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_program_ends_with_one_line_and_a_documented_code(
    answer: tuple[bytes, int], command: str, tmp_path: Path
) -> None:
    """Whatever answers in the API server's place: exit 1 or 3, no traceback, no escape."""
    body, status = answer
    with answering(body, status) as url:
        kubeconfig = tmp_path / "kubeconfig"
        cluster: dict[str, Any] = {"name": "c", "cluster": {"server": url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
        kubeconfig.write_text(json.dumps({**config, "current-context": "c"}))
        patience = ["advanced.apiPatience=2s"] if command == "run" else []
        ended = run(command, f"--kubeconfig={kubeconfig}", *patience)
    assert ended.code in (1, 3), ended.said
    assert "Traceback" not in ended.said
    assert "\x1b" not in ended.said


def test_every_refusal_has_a_class() -> None:
    """And none of them escapes as something else."""
    for status in (400, 401, 403, 404, 409, 410, 418, 422, 429, 499, 500, 503, 599):
        with answering(b"[]", status) as url, pytest.raises(ClusterError):
            api(url).send(Request("get", NODES))
