"""Hostile names and messages in everything that users read: shown, never obeyed by a terminal, never too long."""

from __future__ import annotations

import io
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client

from hook import logs
from hook.config import LogFormat, LogLevel
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.format import LONGEST_LINE
from hook.kube import events
from hook.kube.client import Api
from hook.kube.connection import by_library
from hook.objects.decoding import LONGEST_TEXT
from hook.run import report
from hook.run.report import ProgressReporter
from tests.properties.budget import examples
from tests.properties.mutations import ESCAPES, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.kube.requests import Request

texts = st.sampled_from([*TEXTS, ESCAPES * 500, "é" * 3000, "\x1b" * 3000, "🙈" * 2000]) | st.text(max_size=30)
sane = texts.filter(lambda text: len(text) <= LONGEST_TEXT and text.isprintable() | text.isascii())
"""What readers let into the names of things; see `hook.objects.decoding`."""
SUBJECT = events.ObjectReference("apps/v1", "DaemonSet", "ns", "ds", "uid")


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    """Return a decision in which everything that comes from a cluster is hostile."""
    reasons = st.sampled_from([Reason.MALFORMED_OBJECT, Reason.UPGRADE_FAILED, Reason.DRIVER_FAILING])
    status = st.builds(
        NodeStatus, node=sane, state=st.sampled_from(NodeState), reason=reasons, message=texts, subject=sane,
        plugin=sane, stack=st.sampled_from(["gpu", "network"]),
    )  # fmt: skip
    return Decision(
        draw(st.sampled_from(Phase)), Reason.NODES_PENDING, draw(texts),
        statuses=tuple(draw(st.lists(status, max_size=5))), warnings=tuple(draw(st.lists(texts, max_size=5))),
        cause=Reason.MALFORMED_OBJECT, stack="gpu",
    )  # fmt: skip


@pytest.fixture(params=LogFormat)
def log(request: pytest.FixtureRequest) -> Iterator[io.TextIOWrapper]:
    """Return what is logged, as bytes of a file that takes UTF-8 and nothing else."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, level = list(logging.root.handlers), logging.getLogger("hook").level
    logs.configure(request.param, LogLevel.DEBUG, stream)
    yield stream
    logging.root.handlers[:] = before
    logging.getLogger("hook").setLevel(level)


def lines_of(log: io.TextIOWrapper) -> list[str]:
    """Take what was logged."""
    raw = log.buffer
    assert isinstance(raw, io.BytesIO)
    found = raw.getvalue().decode().split("\n")
    raw.seek(0)
    raw.truncate()
    return found[:-1]


@examples(100)
@given(decision=decisions())
def test_the_report_fits_and_is_not_obeyed(decision: Decision) -> None:
    """Table, ending and JSON can be printed; the termination message is whole within its 4096 bytes."""
    shown = [*report.table(decision).split("\n"), *report.ending(decision)]
    assert all(line.isprintable() for line in shown)
    assert all(len(line) <= LONGEST_LINE for line in shown if line in report.ending(decision))
    json.dumps(report.as_json(decision)).encode()
    message = report.termination_message(decision, 3, 0)
    assert len(message.encode()) <= report.TERMINATION_LIMIT
    assert json.loads(message)["exitCode"] == 3


def test_half_a_character() -> None:
    """Readers refuse it in what they read, but a key of a map may be in the path that they name."""
    half = "half \ud800"
    judged = NodeStatus(half, NodeState.FAILED, Reason.MALFORMED_OBJECT, half)
    decision = Decision(Phase.FAIL, Reason.MALFORMED_OBJECT, half, statuses=(judged,), warnings=(half,), stack="gpu")
    for line in [*report.table(decision).split("\n"), *report.ending(decision)]:
        line.encode()
    report.termination_message(decision, 3, 0).encode()


@examples(100)
@given(note=texts)
def test_an_event_fits_and_is_not_obeyed(note: str) -> None:
    """In bytes, as the API server counts."""

    class Ear(Api):
        sent: Request

        def send(self, request: Request, read_seconds: float = 0) -> dict[str, Any]:
            """Keep it."""
            assert read_seconds
            self.sent = request
            return {}

    ear = Ear(by_library(client.Configuration()))
    recorder = events.EventRecorder(ear, "run", silent=False)
    recorder.event(SUBJECT, "Reason", note, about=note[:99])
    recorder.flush()
    assert ear.sent.body is not None
    message = ear.sent.body["message"]
    assert len(message.encode()) <= events.MESSAGE_LIMIT
    assert message.isprintable()
    json.dumps(ear.sent.body).encode()


def test_the_log_stays_one_line_a_message(log: io.TextIOWrapper) -> None:
    """Whatever is in names and messages: no second line, no escape, no line without end, in either format."""

    @examples(100)
    @given(decision=decisions())
    def told(decision: Decision) -> None:
        ProgressReporter(None, None).report(decision, timedelta(minutes=1))  # type: ignore[arg-type]
        logging.getLogger("hook").warning("%s", decision.message)
        found = lines_of(log)
        assert all(line.isprintable() for line in found)
        assert all(len(line) <= 20 * LONGEST_LINE for line in found)
        assert any(line for line in found)

    told()
