"""The kinds of values that flags have and click does not know: durations, and numbers or shares."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

import click

from hook.settings import Bound

_DURATION: Final = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
LONGEST_SECONDS: Final = 30 * 24 * 3600
"""No driver migration takes a month; a longer time is a typing error."""
_BOUND: Final = re.compile(r"([0-9]{1,6})(%?)")
"""K8S ``intstr``, as ``maxUnavailable`` of a DaemonSet has it; no fleet has a million nodes."""
WHOLE: Final = 100


def as_text(duration: timedelta) -> str:
    """Write a duration as flags have it: ``1h30m``, ``90s`` becomes ``1m30s``."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


class Duration(click.ParamType[timedelta]):
    """A duration with its units, as Helm and Kubernetes write them."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401
        """Read ``25m``, ``90s`` or ``1h30m``; a bare number is ambiguous and refused."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write it with units, such as 25m, 90s or 1h30m", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total > LONGEST_SECONDS:
            self.fail(f"{value!r} is longer than 30 days", param, ctx)
        return timedelta(seconds=total)


class Bounded(click.ParamType[Bound]):
    """A number of plugins, or a percentage of them."""

    name = "number|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bound:  # noqa: ANN401
        """Read ``3`` or ``25%``."""
        if isinstance(value, Bound):
            return value
        found = _BOUND.fullmatch(str(value))
        if found is None or (found[2] and int(found[1]) > WHOLE):
            self.fail(f"{value!r} is neither a number nor a percentage up to 100%, such as 3 or 25%", param, ctx)
        return Bound(int(found[1]), percent=bool(found[2]))
