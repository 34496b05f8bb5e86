"""Answers that no API server gives, but proxies and broken disks do: an error that says so, in time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import pytest

from hook.errors import ClusterError, RejectedError, UnreachableError
from hook.kube.events import own_job
from hook.kube.requests import NODES, RESOURCE_SLICES, Request
from hook.kube.retry import RetryPolicy
from tests.client.server import JSON, Said, serving, told
from tests.fixtures.objects import error_of
from tests.process.program import run_each, write_kubeconfig
from tests.properties.budget import sample

if TYPE_CHECKING:
    from pathlib import Path

ANY: Final = Request("get", NODES)
DEEP: Final = b'{"metadata": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
NOT_JSON: Final = (
    b"", b'{"items": [', b"[]", b'"x"', b"null", b"NaN", '{"a": "ä"}'.encode("latin-1"), b'{"a": ' + b"9" * 5000 + b"}",
    b"\x00" * 100,
)  # fmt: skip


def test_an_answer_that_is_no_object_is_tried_again() -> None:
    """It is half an answer, or that of another server. Nesting without end is refused: trying again would not help."""
    for body in NOT_JSON:
        with serving(Said(200, body, {"content-length": str(len(body))})) as server:
            assert error_of(UnreachableError, server.api.send, ANY), body[:40]
    with serving(Said(200, DEEP)) as server, pytest.raises(RejectedError, match="nested too deeply"):
        server.api.send(ANY)
    for status in (400, 401, 403, 404, 409, 410, 418, 422, 429, 499, 500, 503, 599):
        with serving(Said(status, b"[]")) as server:
            assert error_of(ClusterError, server.api.send, ANY), status


def test_a_time_that_makes_no_sense_puts_off_no_end() -> None:
    """A date that cannot be read moves no clock, and the time of a Job counts from now at the latest."""
    for date in ("", "soon", f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", "Mon, 99 Jan 1 99:99:99 X"):
        with serving(Said(200, b'{"kind": "NodeList"}', {**JSON, "date": date})) as server:
            before = server.api.now()
            server.api.send(ANY)
            assert abs((server.api.now() - before).total_seconds()) < 3600, date
    far = {"9999-12-31T23:59:59Z": True, "2999-01-01T00:00:00+01:00": True}
    for start, is_time in (*far.items(), ("soon", False), ("2026-01-01T10:00:00", False), (5, False), ([], False)):
        with serving(told(kind="Job", metadata={"uid": "u"}, status={"startTime": start})) as server:
            job = own_job(server.api, "ns", "job", RetryPolicy(1.0))
            assert is_time is (job is not None), start
            assert job is None or job.started <= server.api.now(), start


def test_a_list_of_versions_that_cannot_be_read_is_tried_again() -> None:
    """It decides whether slices count."""
    wrong: tuple[object, ...] = ({}, [{"version": 1}], ["v1"], "v1")
    for versions in wrong:
        with serving(told(kind="APIGroup", versions=versions)) as server:
            assert error_of(UnreachableError, server.api.served_versions, RESOURCE_SLICES), versions


ANSWERS: Final = {
    "nested": Said(200, DEEP),
    "no items": Said(200, b'{"kind": "NodeList"}'),
    "items of text": Said(200, b'{"kind": "NodeList", "items": ["x"], "metadata": {}}'),
    "HTML error": Said(418, b"\x1b[2J<html>"),
    "message is a list": Said(400, b'{"kind": "Status", "message": ["\\u001b[2J"]}'),
    "not JSON": Said(200, b"OK"),
}


def test_the_program_ends_with_one_line_and_a_documented_code(tmp_path: Path) -> None:
    """Whatever answers in the API server's place: exit 1 or 3, no traceback, no escape."""
    commands: dict[str, list[str]] = {}
    with contextlib.ExitStack() as servers:
        for name, said in sample(ANSWERS.items()):
            server = servers.enter_context(serving(said))
            file = f"--kubeconfig={write_kubeconfig(tmp_path / name, server.api.host)}"
            commands |= {f"run: {name}": ["run", file, "advanced.apiPatience=1s"], f"status: {name}": ["status", file]}
        for case, end in zip(commands, run_each(tmp_path, commands.values()), strict=True):
            assert end.code in (1, 3), (case, end.said)
            assert "Traceback" not in end.said, case
            assert "\x1b" not in end.said, case
