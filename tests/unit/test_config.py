"""Settings: their defaults, and what follows from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hook.checks import settings_from
from hook.config import ControllerSettings, Duration, Settings
from hook.format import Bound


def test_the_defaults_are_those_that_are_documented() -> None:
    """The values, the README and the command line repeat them. A Job restarts as many plugins as are stale."""
    settings, controller = Settings(), ControllerSettings()
    assert (timedelta(minutes=25), timedelta(minutes=5), 0) == (
        settings.timeout, settings.plugin_timeout, settings.max_parallel_restarts,
    )  # fmt: skip
    assert ("fail", "report") == (
        settings.on_deadline, settings.on_manual_upgrade,
    )  # fmt: skip
    assert (timedelta(minutes=1), timedelta(hours=1), "25%") == (
        settings.advanced.restart_backoff, settings.advanced.restart_backoff_max, controller.max_unavailable,
    )  # fmt: skip


def test_only_a_controller_limits_how_many_plugins_are_down() -> None:
    """A Job refreshes each node as soon as it is settled."""
    values = {"controller": {"maxUnavailable": "10%"}}
    assert (False, None) == (settings_from(values).is_controller, settings_from(values).max_unavailable)
    assert Bound("10%") == settings_from(values, controller=True).max_unavailable


def test_a_margin_of_the_timeout_is_kept_for_reporting() -> None:
    """It is a twentieth, at least 5 s and at most 30 s, but never more than half. The controller has no deadline."""
    for timeout, expected in {8: 4, 60: 5, 5 * 60: 15, 10 * 60: 30, 120 * 60: 30}.items():
        assert timedelta(seconds=expected) == Settings(timeout=Duration(seconds=timeout)).margin, timeout
    started = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert started + timedelta(minutes=24, seconds=30) == Settings().deadline(started)
    assert datetime.max.replace(tzinfo=UTC) == ControllerSettings().deadline(started)
