"""Types of flags that click does not have: durations, and numbers or percentages."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

import click

from hook.core.sentences import Bound

_DURATION: Final = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
LONGEST_SECONDS: Final = 30 * 24 * 3600
"""No driver upgrade takes a month; a longer time is a typing error."""
_BOUND: Final = re.compile(r"([0-9]{1,6})(%?)")
"""K8S ``intstr``, like ``maxUnavailable`` of a DaemonSet; no fleet has a million nodes."""
WHOLE: Final = 100


class Duration(click.ParamType[timedelta]):
    """A duration with units, like those of Helm and Kubernetes."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401
        """Parse ``25m``, ``90s`` or ``1h30m``; refuse a number without a unit."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration; use units, such as 25m, 90s or 1h30m", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total > LONGEST_SECONDS:
            self.fail(f"{value!r} is longer than 30 days", param, ctx)
        return timedelta(seconds=total)


class Bounded(click.ParamType[Bound]):
    """A number of plugins, or a percentage of them."""

    name = "number|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bound:  # noqa: ANN401
        """Parse ``3`` or ``25%``."""
        if isinstance(value, Bound):
            return value
        found = _BOUND.fullmatch(str(value))
        if found is None or (found[2] and int(found[1]) > WHOLE):
            self.fail(f"{value!r} is neither a number nor a percentage up to 100%, such as 3 or 25%", param, ctx)
        return Bound(int(found[1]), percent=bool(found[2]))
