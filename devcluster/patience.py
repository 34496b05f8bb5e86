"""Waiting for the world, and the error that something took too long, apart from everything that is wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    What = str | Callable[[], str]
    """What is waited for, or a function that returns it as it is at the end."""

T = TypeVar("T")

SOONEST = 0.1
LATEST = 0.5
"""Seconds between two looks, each of which costs a cluster 10 ms of CPU: a tenth of the time waited, within these."""


class TooSlowError(AssertionError):
    """The world did not get there in the time that a busy machine is given. It breaks no promise by itself."""


def told(what: What) -> str:
    """Return what is waited for, as it is now."""
    return what() if callable(what) else what


def until(look: Callable[[], T | None], what: What, seconds: float, soonest: float = SOONEST) -> T:
    """Look again and again until there is something, and return it.

    Raises TooSlowError after so many seconds; its message names `what` is missing.
    """
    began = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise TooSlowError(f"not within {seconds:.0f} s: {told(what)}")
        time.sleep(max(soonest, min(LATEST, waited / 10)))
    return found
