"""The settings' defaults, and what is kept of the timeout for reporting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hook.config import ControllerSettings, Duration, Mode, OnDeadline, OnManualUpgrade, Settings, Strategy
from hook.format import Bound


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        pytest.param(8, 4, id="half-of-a-tiny-one"),
        pytest.param(60, 5, id="never-less-than-a-report-takes"),
        pytest.param(5 * 60, 15, id="a-twentieth"),
        pytest.param(10 * 60, 30, id="at-most"),
        pytest.param(120 * 60, 30, id="half-a-minute"),
    ],
)
def test_a_margin_of_the_timeout_is_kept_for_reporting(timeout: int, expected: int) -> None:
    """The report, the events and the pod's end must fit between our deadline and the Job's."""
    assert timedelta(seconds=expected) == Settings(timeout=Duration(seconds=timeout)).margin


def test_the_defaults_are_those_that_are_documented() -> None:
    """Values, README and command line all repeat them."""
    settings = Settings()
    assert (timedelta(minutes=25), timedelta(minutes=30), timedelta(minutes=5)) == (
        settings.timeout,
        settings.stall_timeout,
        settings.plugin_timeout,
    )
    assert (OnDeadline.FAIL, Strategy.STALE_PODS, OnManualUpgrade.REPORT, 0) == (
        settings.on_deadline,
        settings.strategy,
        settings.on_manual_upgrade,
        settings.max_parallel_restarts,
    )


def test_the_defaults_of_a_follower_are_those_that_are_documented() -> None:
    """It waits a minute, then longer; it stops at a crowd, for half an hour."""
    settings = Settings()
    assert (False, Mode.COMPLETE, None) == (settings.is_controller, settings.job.mode, settings.max_unavailable)
    assert "25%" == ControllerSettings().max_unavailable
    assert (timedelta(minutes=1), timedelta(hours=1), timedelta(minutes=30), "50%") == (
        settings.controller.restart_backoff,
        settings.controller.restart_backoff_max,
        settings.controller.circuit_breaker.reset,
        settings.controller.circuit_breaker.threshold,
    )


def test_a_deadline_belongs_to_a_run_with_an_end() -> None:
    """A follower's is never, and can be compared with any moment."""
    started = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert started + timedelta(minutes=24, seconds=30) == Settings().deadline(started)
    assert datetime.max.replace(tzinfo=UTC) == ControllerSettings().deadline(started)


@pytest.mark.parametrize(
    ("bound", "total", "expected"),
    [
        pytest.param(Bound(3), 100, 3, id="a-number"),
        pytest.param(Bound("25%"), 100, 25, id="a-share"),
        pytest.param(Bound("25%"), 101, 26, id="rounded-up"),
        pytest.param(Bound("25%"), 0, 1, id="at-least-one"),
    ],
)
def test_a_bound_is_a_number_or_a_share(bound: Bound, total: int, expected: int) -> None:
    """As a DaemonSet's maxUnavailable is."""
    assert expected == bound.of(total)


@pytest.mark.parametrize(
    ("bound", "count", "expected"),
    [
        pytest.param(Bound(3), 3, False, id="the-number"),
        pytest.param(Bound(3), 4, True, id="one-more"),
        pytest.param(Bound("50%"), 3, False, id="the-share"),
        pytest.param(Bound("50%"), 4, True, id="more-than-the-share"),
        pytest.param(Bound("100%"), 7, False, id="all"),
    ],
)
def test_more_than_a_bound_is_not_rounded(bound: Bound, count: int, *, expected: bool) -> None:
    """Of seven, three are less than half."""
    assert expected is bound.exceeded_by(count, 7)
