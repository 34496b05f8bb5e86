"""Wait for what a real cluster brings about in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from devcluster.patience import TooSlowError

T = TypeVar("T")


def until(look: Callable[[], T], seconds: float = 30) -> T:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise TooSlowError(f"{seconds} s passed without it")
        time.sleep(0.05)
    return seen
