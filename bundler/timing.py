"""The run's time, and what the deployer must give it."""

from __future__ import annotations

import re
from typing import Final

from bundler.errors import InputError

ALLOWANCE: Final = 120
"""Seconds for pulling the image, starting the pod and deleting the Job of the run before; as the chart's NOTES say."""
LEAST: Final = 30
"""Seconds: in less no plugin restarts and is verified, and the chart refuses it, too."""
LONGEST: Final = 30 * 24 * 3600
"""As for the run itself: no driver migration takes a month."""
_DURATION: Final = re.compile(r"(?=[0-9])(?:([0-9]{1,7})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,7})s)?")


def seconds(text: str, name: str) -> int:
    """Read a duration such as 25m, 90s or 1h30m, as the chart has it."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"{name}: {text[:40]!r} is no duration; write it with units, such as 25m, 90s or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + rest
    if not LEAST <= total <= LONGEST:
        raise InputError(f"{name}: {text} is not between {LEAST}s, the least for one plugin's restart, and 30 days")
    return total


def outer(inner: int) -> int:
    """Give the deployer's limit for a run of so many seconds."""
    return inner + ALLOWANCE


def text(total: int) -> str:
    """Write seconds as Helm and Flux read them, in the largest unit that fits."""
    for unit, size in (("h", 3600), ("m", 60)):
        if total % size == 0:
            return f"{total // size}{unit}"
    return f"{total}s"
