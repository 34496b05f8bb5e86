"""The program's time: this machine's when the process began, and from there on by the monotonic clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """A clock that does not jump when the time of the machine is set."""

    def __init__(self, now: datetime | None = None) -> None:
        self.began = now or datetime.now(UTC)
        """When the run began."""
        self._origin = self.began - timedelta(seconds=time.monotonic())

    def now(self) -> datetime:
        """Return the time."""
        return self._origin + timedelta(seconds=time.monotonic())

    def count_from(self, started: datetime) -> None:
        """Let the run begin with its Job, all pods of which share one deadline.

        A start in the future, by the clock of another machine, would delay the deadline.
        """
        self.began = min(self.began, started)
