"""The gate of ``helm test``: what it waits for, and that an earlier success or failure is not taken for this run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Final

import pytest

from hook.errors import NotFoundError
from hook.run import gate
from tests.client.server import Said, refused, serving, told

START: Final = "2020-01-01T00:00:00Z"
LATER: Final = "2999-01-01T00:00:00Z"
RUN: Final = {"runId": "r2", "startedRunId": "r2", "succeededRunId": ""}


def _waited(answers: Sequence[Said | Mapping[str, str]], run_id: str) -> tuple[int, list[str]]:
    """Return the exit code and the report of a gate that gets these answers, and the last one again and again."""
    given = iter(answers)
    last: list[Said] = []

    def answer(_line: str) -> Said:
        found = next(given, None)
        if found is not None:
            last[:] = [found if isinstance(found, Said) else told(kind="ConfigMap", data=found)]
        return last[0]

    said: list[str] = []
    with serving(answer) as server:
        return gate.wait(server.api, ("ns", "it-status"), run_id, 60, said.append), said


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause of the gate take no time."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(gate, "time", clock)


def test_it_waits_for_this_run() -> None:
    """Not for the run before it, whatever that one's result, and not while the fleet is refreshed."""
    earlier = {"runId": "r2", "startedRunId": "r1", "succeededRunId": "r1", "phase": "Succeeded"}
    progressing = {**RUN, "phase": "Progressing", "progress": "1/3"}
    cases: tuple[tuple[str, list[Said | Mapping[str, str]], int], ...] = (
        ("success", [earlier, progressing, {**RUN, "phase": "Succeeded", "succeededRunId": "r2"}], 0),
        ("nothing to protect", [{**RUN, "phase": "Skipped", "succeededRunId": "r2"}], 0),
        ("not started", [earlier], 124),
        ("an earlier failure", [{**earlier, "succeededRunId": "", "phase": "Failed"}], 124),
        ("failure", [earlier, progressing, {**RUN, "phase": "Failed"}], 3),
        ("out of time", [{**RUN, "phase": "TimedOut"}], 3),
        ("stopped, and tried again", [{**RUN, "phase": "Unknown"}], 124),
        ("delegated", [{**RUN, "phase": "Succeeded", "delegatedRunId": "r2"}], 124),
        ("a driver reloads after it", [{**RUN, "phase": "Progressing", "succeededRunId": "r2"}], 124),
        ("an API server that is busy", [refused(503), {**RUN, "phase": "Skipped", "succeededRunId": "r2"}], 0),
    )
    for name, answers, code in cases:
        assert _waited(answers, "r2")[0] == code, name


def test_without_a_job_it_waits_for_what_the_controller_writes_next() -> None:
    """The state of a controller that has ended says nothing."""
    for name, answers, code in (
        ("success", [{"phase": "Succeeded", "updatedAt": START}, {"phase": "Succeeded", "updatedAt": LATER}], 0),
        ("after a Job", [{**RUN, "runId": "", "phase": "Skipped", "updatedAt": LATER}], 0),
        ("failure", [{"phase": "Failed", "updatedAt": LATER}], 3),
        ("an old state", [{"phase": "Succeeded", "updatedAt": START}], 124),
        ("waiting", [{"phase": "Progressing", "updatedAt": LATER}], 124),
    ):
        assert _waited(answers, "")[0] == code, name


def test_it_waits_as_long_as_nodes_advance() -> None:
    """A controller may refresh a large fleet long after its Job has ended. Only a state that stays ends the wait."""
    steps = [{**RUN, "phase": "Progressing", "progress": f"{count}/9"} for count in range(3) for _ in range(25)]
    assert _waited([*steps, {**RUN, "phase": "Succeeded", "succeededRunId": "r2"}], "r2")[0] == 0
    assert _waited([*steps, *steps[-10:]], "r2")[0] == 124


def test_it_reports_each_change_once() -> None:
    """With all that is known; a missing object is an error at once."""
    full = {**RUN, "phase": "Progressing", "reason": "NodesPending", "progress": "1/3", "message": "2 nodes"}
    _, said = _waited([{"runId": "r2"}, full, full, {**full, "phase": "Failed"}], "r2")
    assert said == [
        "nothing has been written yet",
        "phase=Progressing reason=NodesPending progress=1/3 2 nodes",
        "phase=Failed reason=NodesPending progress=1/3 2 nodes",
    ]
    late = "the time is up: run r2 has not succeeded, and nothing changed for 60 s"
    assert _waited([full], "r2")[1][-1] == late
    with pytest.raises(NotFoundError):
        _waited([refused(404)], "r2")
