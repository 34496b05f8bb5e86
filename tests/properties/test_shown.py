"""Hostile messages in log and Events: shown, never obeyed by a terminal, never too long."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hook.format import LONGEST_LINE
from hook.kube import events
from hook.log import configure
from hook.settings import LogFormat, LogLevel
from tests.client.server import GRANTED, PATIENCE, Said, serving
from tests.properties.budget import examples
from tests.properties.mutations import ESCAPES, TEXTS

texts = st.sampled_from([*TEXTS, ESCAPES * 500, "é" * 3000, "\x1b" * 3000, "🙈" * 2000]) | st.text(max_size=30)
SUBJECT = events.ObjectReference("apps/v1", "DaemonSet", "ns", "ds", "uid")


@pytest.fixture(params=LogFormat)
def log(request: pytest.FixtureRequest) -> Iterator[io.BytesIO]:
    """Return what is logged, in UTF-8."""
    raw = io.BytesIO()
    before, level = list(logging.root.handlers), logging.getLogger("hook").level
    configure(request.param, LogLevel.DEBUG, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    yield raw
    logging.root.handlers[:] = before
    logging.getLogger("hook").setLevel(level)


def test_what_is_logged_fits_and_is_not_obeyed(log: io.BytesIO) -> None:
    """A message a line. `test_objects.py` shows the same of table, ending, JSON and termination message."""

    @examples(100)
    @given(message=texts)
    def holds(message: str) -> None:
        log.seek(0)
        log.truncate()
        logging.getLogger("hook").warning("%s", message)
        (line,) = log.getvalue().decode().split("\n")[:-1]
        assert line.isprintable()
        assert len(line) <= 20 * LONGEST_LINE

    holds()


def test_an_event_fits_and_is_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, as the API server counts."""
    monkeypatch.setattr(events, "WRITE_SECONDS", PATIENCE)
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
            recorder.flush(PATIENCE)
            message = sent.pop()["message"]
            assert len(message.encode()) <= events.MESSAGE_LIMIT
            assert message.isprintable()

        holds()
