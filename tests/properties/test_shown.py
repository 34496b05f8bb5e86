"""Hostile names and messages in everything that users read: shown, never obeyed by a terminal, never too long."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hook import logs
from hook.config import LogFormat, LogLevel
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.format import LONGEST_LINE
from hook.kube import events
from hook.objects.decoding import LONGEST_TEXT
from hook.run import report
from hook.run.report import ProgressReporter
from tests.client.server import GRANTED, Said, serving
from tests.properties.budget import examples
from tests.properties.mutations import ESCAPES, TEXTS

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
def log(request: pytest.FixtureRequest) -> Iterator[io.BytesIO]:
    """Return what is logged, in UTF-8."""
    raw = io.BytesIO()
    before, level = list(logging.root.handlers), logging.getLogger("hook").level
    logs.configure(request.param, LogLevel.DEBUG, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    yield raw
    logging.root.handlers[:] = before
    logging.getLogger("hook").setLevel(level)


def test_what_is_shown_fits_and_is_not_obeyed(log: io.BytesIO) -> None:
    """Table, ending, JSON and log can be printed, a message a line; the termination message is whole in 4096 bytes."""

    @examples(100)
    @given(decision=decisions())
    def holds(decision: Decision) -> None:
        ending = report.ending(decision)
        log.seek(0)
        log.truncate()
        ProgressReporter(None, None).report(decision, timedelta(minutes=1))  # type: ignore[arg-type]
        logging.getLogger("hook").warning("%s", decision.message)
        logged = log.getvalue().decode().split("\n")[:-1]
        assert logged
        assert all(line.isprintable() for line in [*report.table(decision).split("\n"), *ending, *logged])
        assert all(len(line) <= LONGEST_LINE for line in ending)
        assert all(len(line) <= 20 * LONGEST_LINE for line in logged)
        json.dumps(report.as_json(decision)).encode()
        message = report.termination_message(decision, 3, 0)
        assert len(message.encode()) <= report.TERMINATION_LIMIT
        assert json.loads(message)["exitCode"] == 3

    holds()


def test_an_event_fits_and_is_not_obeyed() -> None:
    """In bytes, as the API server counts."""
    sent: list[dict[str, Any]] = []

    def wrote(_line: str, body: bytes) -> Said:
        sent.append(json.loads(body))
        return GRANTED

    with serving(GRANTED, wrote) as server:

        @examples(100)
        @given(note=texts)
        def holds(note: str) -> None:
            recorder = events.EventRecorder(server.api, "run", silent=False)
            recorder.event(SUBJECT, "Reason", note, about=note[:99])
            recorder.flush()
            message = sent.pop()["message"]
            assert len(message.encode()) <= events.MESSAGE_LIMIT
            assert message.isprintable()

        holds()
