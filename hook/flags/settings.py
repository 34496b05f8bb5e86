"""Build settings from parsed flags, and refuse flags that contradict each other or have no effect."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from hook.core.stacks import STACKS
from hook.errors import SettingsError
from hook.flags.consumers import consumer, named
from hook.flags.regarded import all_regarded
from hook.settings import DEFAULTS, OnDeadline, Settings, Wait


def settings_from(values: dict[str, Any]) -> Settings:
    """Build settings from parsed flags; a flag that a command does not have keeps its default."""
    enums = {
        name: type(value)
        for name in Settings.__dataclass_fields__
        if isinstance(value := getattr(DEFAULTS, name), StrEnum)
    }
    known: dict[str, Any] = {
        key: enums[key](value) if key in enums else value
        for key, value in values.items()
        if key in Settings.__dataclass_fields__
    }
    for name in ("timeout", "plugin_timeout"):
        if not known.get(name, getattr(DEFAULTS, name)):
            raise SettingsError(f"--{name.replace('_', '-')} must be longer than 0s")
    first = known.get("stacks", DEFAULTS.stacks)[0]
    known["consumer_names"] = tuple(named(text, first) for text in known.get("consumer_names", ()))
    known["consumers"] = tuple(consumer(text, first) for text in known.get("consumers", ()))
    known["regarding"] = all_regarded(known.get("regarding", ()))
    settings = Settings(**known)
    _refuse_what_does_not_follow(settings)
    named_stacks = {wanted.stack for wanted in (*settings.consumer_names, *settings.consumers)}
    if stray := sorted(named_stacks - set(settings.stacks)):
        raise SettingsError(f"a DaemonSet is named for stack {stray[0]}, which is not among --stack")
    _refuse_what_has_no_effect(settings)
    return settings


def _refuse_what_does_not_follow(settings: Settings) -> None:
    """Refuse flags that contradict --follow, and flags that need it without it."""
    if settings.max_unavailable is not None and not settings.max_unavailable.value:
        raise SettingsError("--max-unavailable 0 prevents every restart")
    if not settings.restart_backoff or settings.restart_backoff > settings.restart_backoff_max:
        raise SettingsError("--restart-backoff must be longer than 0s, and no longer than --restart-backoff-max")
    contradictions = {
        "--wait handover: a Job delegates to the controller": settings.wait is Wait.HANDOVER,
        "--dry-run: use the command status": settings.dry_run,
        "--on-deadline: a controller has no deadline": settings.on_deadline is not OnDeadline.FAIL,
        "--expect-chart-version: a controller handles every version": bool(settings.expect_chart_version),
        "--expect-driver-version: a controller handles every version": bool(settings.expect_driver_version),
        "--regarding: a controller does not belong to one release": bool(settings.regarding),
    }
    if settings.follow and (found := next((text for text, given in contradictions.items() if given), "")):
        raise SettingsError(f"--follow cannot be combined with {found}")
    alone = ("restart_backoff", "restart_backoff_max", "breaker_share", "breaker_reset")
    given = [name for name in alone if getattr(settings, name) != getattr(DEFAULTS, name)]
    if given and not settings.follow:
        raise SettingsError(f"--{given[0].replace('_', '-')} requires --follow")


def _refuse_what_has_no_effect(settings: Settings) -> None:
    """Refuse settings that a run would silently ignore, because users rely on them."""
    chosen = [STACKS[name] for name in settings.stacks]
    for provider in settings.providers:
        if not any(provider in stack.providers for stack in chosen):
            raise SettingsError(f"--provider {provider} does not belong to any selected --stack")
    if settings.expect_chart_version and not any(stack.policy.carries_chart for stack in chosen):
        raise SettingsError("--expect-chart-version: no policy of the chosen --stack says which chart it comes from")
