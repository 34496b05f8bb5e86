"""The program's clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from hook.run.clock import Clock
from tests.fixtures.objects import at


def test_a_clock_of_the_machine_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Job's time is up by that, and no grace or pause ends. Time passes as by the monotonic clock."""
    steady = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: steady[0])
    clock = Clock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(minutes=5)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    steady[0] += 60
    assert clock.now() - clock.began == timedelta(minutes=1)


@pytest.mark.parametrize(("started", "began"), [(-60, -60), (60, 0)])
def test_a_run_begins_with_its_job_but_not_in_the_future(started: float, began: float) -> None:
    """All pods of a Job share its deadline. A wrong clock of the control plane does not delay it."""
    clock = Clock(at(0))
    clock.count_from(at(started))
    assert at(began) == clock.began
    assert clock.now() >= at(0)
