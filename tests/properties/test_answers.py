"""Answers that no API server gives, but proxies and broken disks do: an error that says so, in time."""

from __future__ import annotations

import http.server
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from kubernetes import client

from hook.errors import ClusterError, RejectedError, ThrottledError, UnreachableError
from hook.kube.client import LONGEST_RETRY_AFTER, Api
from hook.kube.connection import by_library
from hook.kube.events import own_job
from hook.kube.requests import NODES, RESOURCE_SLICES, Request
from hook.kube.retry import RetryPolicy
from tests.fixtures.objects import error_of
from tests.process.program import run
from tests.properties.budget import sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.process.program import Ended

DEEP: Final = b'{"metadata": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
NOT_JSON: Final = (
    b"", b"<html>hello</html>", b'{"items": [', b"[]", b'"x"', b"null", b"NaN", '{"a": "ä"}'.encode("latin-1"),
    b'{"a": ' + b"9" * 5000 + b"}", b"\x00" * 100,
)  # fmt: skip


@contextmanager
def answering(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Serve one answer to everything, on loopback; what is no bytes, as JSON."""
    answer = body if isinstance(body, bytes) else json.dumps(body).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(answer)), "Connection": "close", **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
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


def test_an_answer_that_is_no_object_is_tried_again() -> None:
    """It is half an answer, or that of another server. Nesting without end is refused: trying again would not help."""
    for body in NOT_JSON:
        with answering(body) as url:
            assert error_of(UnreachableError, api(url).send, Request("get", NODES)), body[:40]
    with answering(DEEP) as url, pytest.raises(RejectedError, match="nested too deeply"):
        api(url).send(Request("get", NODES))


def test_every_refusal_has_a_class() -> None:
    """None of them escapes as something else."""
    for status in (400, 401, 403, 404, 409, 410, 418, 422, 429, 499, 500, 503, 599):
        with answering([], status) as url:
            assert error_of(ClusterError, api(url).send, Request("get", NODES)), status


def test_a_wait_is_as_long_as_asked_within_reason() -> None:
    """A header must not stop a run."""
    waits = {"7": 7.0, "9" * 400: LONGEST_RETRY_AFTER, "²": None, "-5": None, "soon": None, "": None}
    for header, expected in waits.items():
        with answering({"kind": "Status"}, 429, {"Retry-After": header}) as url, pytest.raises(ThrottledError) as found:
            api(url).send(Request("get", NODES))
        assert expected == found.value.retry_after, header


def test_a_date_that_cannot_be_read_moves_no_clock() -> None:
    """Then our own is as good as any."""
    for date in ("", "soon", f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", "Mon, 99 Jan 1 99:99:99 X"):
        with answering({"kind": "NodeList"}, headers={"Date": date}) as url:
            one = api(url)
            before = one.now()
            one.send(Request("get", NODES))
            assert abs((one.now() - before).total_seconds()) < 3600, date


def test_the_start_of_a_job_does_not_put_off_the_end() -> None:
    """The time counts from now at the latest. Where the Job cannot be read it counts from now, and the log says why."""
    far = {"9999-12-31T23:59:59Z": True, "2999-01-01T00:00:00+01:00": True}
    for start, is_time in (*far.items(), ("soon", False), ("2026-01-01T10:00:00", False), (5, False), ([], False)):
        with answering({"kind": "Job", "metadata": {"uid": "u"}, "status": {"startTime": start}}) as url:
            one = api(url)
            job = own_job(one, "ns", "job", RetryPolicy(1.0))
            assert is_time is (job is not None), start
            assert job is None or job.started <= one.now(), start


def test_a_list_of_versions_that_cannot_be_read_is_tried_again() -> None:
    """It decides whether slices count."""
    wrong: tuple[object, ...] = ({}, [{"version": 1}], ["v1"], "v1")
    for versions in wrong:
        with answering({"kind": "APIGroup", "versions": versions}) as url:
            assert error_of(UnreachableError, api(url).served_versions, RESOURCE_SLICES), versions


ANSWERS: Final[dict[str, tuple[bytes, int]]] = {
    "nested": (DEEP, 200),
    "no kind": (b"{}", 200),
    "no items": (b'{"kind": "NodeList"}', 200),
    "items of text": (b'{"kind": "NodeList", "items": ["x"], "metadata": {}}', 200),
    "HTML error": (b"\x1b[2J<html>", 418),
    "message is a list": (b'{"kind": "Status", "message": ["\\u001b[2J"]}', 400),
    "not JSON": (b"OK", 200),
}


def answered(command: str, name: str, folder: Path) -> Ended:
    """Run the program against one of these answers."""
    body, status = ANSWERS[name]
    with answering(body, status) as url:
        kubeconfig = folder / f"{command} {name}"
        cluster: dict[str, Any] = {"name": "c", "cluster": {"server": url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
        kubeconfig.write_text(json.dumps({**config, "current-context": "c"}))
        return run(command, f"--kubeconfig={kubeconfig}", *(["advanced.apiPatience=2s"] if command == "run" else []))


def test_the_program_ends_with_one_line_and_a_documented_code(tmp_path: Path) -> None:
    """Whatever answers in the API server's place: exit 1 or 3, no traceback, no escape."""
    cases = [(command, name) for command in ("run", "status") for name in sample(ANSWERS)]
    with ThreadPoolExecutor(len(cases)) as pool:  # They wait most of the time.
        found = pool.map(lambda case: answered(case[0], case[1], tmp_path), cases)
    for case, end in zip(cases, found, strict=True):
        assert end.code in (1, 3), (case, end.said)
        assert "Traceback" not in end.said, case
        assert "\x1b" not in end.said, case
