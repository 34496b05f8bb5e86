"""The settings' defaults, and what is kept of the timeout for reporting."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.settings import OnDeadline, Settings, Strategy, WhenManual


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
    assert timedelta(seconds=expected) == Settings(timeout=timedelta(seconds=timeout)).margin


def test_the_defaults_are_those_that_are_documented() -> None:
    """Values, README and command line all repeat them."""
    settings = Settings()
    assert (timedelta(minutes=25), timedelta(minutes=30), timedelta(minutes=5)) == (
        settings.timeout,
        settings.stall_timeout,
        settings.plugin_timeout,
    )
    assert (OnDeadline.FAIL, Strategy.STALE_PODS, WhenManual.REPORT, 0) == (
        settings.on_deadline,
        settings.strategy,
        settings.when_manual,
        settings.max_parallel_restarts,
    )
