"""Names and messages of strangers in everything that people read: shown, never obeyed, and never too long."""

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
from hook.format import LONGEST_LINE, escaped, shortened
from hook.kube import events
from hook.kube.client import Api
from hook.kube.connection import by_library
from hook.objects.decoding import LONGEST_TEXT
from hook.run import report
from hook.run.report import ProgressReporter
from tests.properties.mutations import ESCAPES, MEBIBYTE, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.kube.requests import Request

texts = st.sampled_from([*TEXTS, ESCAPES * 500, "é" * 3000, "\x1b" * 3000, "🙈" * 2000]) | st.text(max_size=30)
sane = texts.filter(lambda text: len(text) <= LONGEST_TEXT and text.isprintable() | text.isascii())
"""What readers let into the names of things; see `hook.objects.decoding`."""
SUBJECT = events.ObjectReference("apps/v1", "DaemonSet", "ns", "ds", "uid")


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    """Give a decision in which everything that comes from a cluster is hostile."""
    judgement = st.builds(
        NodeStatus,
        node=sane,
        state=st.sampled_from(NodeState),
        reason=st.sampled_from([Reason.MALFORMED_OBJECT, Reason.UPGRADE_FAILED, Reason.DRIVER_FAILING]),
        message=texts,
        subject=sane,
        plugin=sane,
        stack=st.sampled_from(["gpu", "network"]),
    )
    return Decision(
        draw(st.sampled_from(Phase)),
        Reason.NODES_PENDING,
        draw(texts),
        statuses=tuple(draw(st.lists(judgement, max_size=5))),
        warnings=tuple(draw(st.lists(texts, max_size=5))),
        cause=Reason.MALFORMED_OBJECT,
        stack="gpu",
    )


@pytest.fixture(params=LogFormat)
def log(request: pytest.FixtureRequest) -> Iterator[io.TextIOWrapper]:
    """Give what is logged, as bytes of a file that takes UTF-8 and nothing else."""
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

    @given(decision=decisions())
    def told(decision: Decision) -> None:
        ProgressReporter(None, None).report(decision, timedelta(minutes=1))  # type: ignore[arg-type]
        logging.getLogger("hook").warning("%s", decision.message)
        found = lines_of(log)
        assert all(line.isprintable() for line in found)
        assert all(len(line) <= 20 * LONGEST_LINE for line in found)
        assert any(line for line in found)

    told()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, größer €", "plain text, größer €"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\r\tc", "a\\x0ab\\x0d\\x09c"),
        ("\u202eexe.txt", "\\u202eexe.txt"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
    ids=["plain", "escape", "newline", "direction", "separator", "half-a-character", "tag"],
)
def test_what_cannot_be_seen_is_spelled(text: str, shown: str) -> None:
    """So that people see what somebody put there."""
    assert shown == escaped(text)


def test_a_mebibyte_is_cut_and_says_so() -> None:
    """At its end, where the eye is."""
    assert "…" == shortened(MEBIBYTE, 100)[-1]
    assert 100 == len(shortened(MEBIBYTE, 100))
    assert "short" == shortened("short", 5)
