"""Whether a follower lives and whether it serves: by what it did, never a fixed answer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hook.cluster.contact import Lost

ALIVE_SECONDS: Final = 120.0
"""Without any progress for so long something hangs. The longest step without progress takes about 45 s: 5 s to ask
which ResourceSlices the server has, 15 s of restarts (their questions and retries end with the Lease), 20 s to write
the record against conflicts, and 5 s of rest."""
LOST_SECONDS: Final = 60.0
"""A control plane that restarts is back within a minute."""


@dataclass(frozen=True, slots=True)
class Health:
    """What was known at one moment. Each of its answers is empty where all is well, else it says what is not."""

    idle: float
    """Seconds since the last progress."""
    leading: bool
    synced: bool
    """A round was finished since it leads."""
    open_breakers: Collection[str]
    lost: Lost | None
    unheard: float
    """Seconds since a try for the Lease got an answer that is no refusal; endless before the first one."""
    trouble: str
    """Why the last try got none."""

    @property
    def dead(self) -> str:
        """Say why it should be started again."""
        if self.idle <= ALIVE_SECONDS:
            return ""
        what = "round was finished" if self.leading else "try for the Lease was made"
        return f"no {what} for {self.idle:.0f} s"

    @property
    def unready(self) -> str:
        """Say why it does not serve, and is not just standing by."""
        if self.dead or not self.leading:
            return self.dead or self._out_of_reach
        if self.open_breakers:
            return f"the circuit breaker is open: {', '.join(sorted(self.open_breakers))}"
        if self.lost is not None and self.lost.seconds > LOST_SECONDS:
            return str(self.lost)
        return "" if self.synced else "the cluster was not read yet"

    @property
    def _out_of_reach(self) -> str:
        """Say why one that stands by could not take over: it may not, or cannot, read its Lease."""
        if self.unheard <= LOST_SECONDS:
            return ""
        return f"the Lease cannot be had: {self.trouble}" if self.trouble else "the Lease was not tried for yet"

    @property
    def role(self) -> str:
        """Say what it does while all is well."""
        return "leading" if self.leading else "standing by"


class Pulse:
    """Notes a follower's progress. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._moved = clock()
        self._heard, self._trouble = float("-inf"), ""
        self._leading = self._synced = False
        self._open: Collection[str] = ()
        self._lost: Lost | None = None

    def lead(self, *, leading: bool) -> None:
        """Begin anew as leader, or as one that stands by."""
        with self._lock:
            self._moved, self._leading, self._synced = self._clock(), leading, False
            self._open, self._lost = (), None

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Count a try as progress of one that stands by; a leader's renewals prove nothing of its loop."""
        with self._lock:
            self._trouble = trouble
            if not trouble:
                self._heard = self._clock()
            if not self._leading:
                self._moved = self._clock()

    def wait(self, lost: Lost | None) -> None:
        """Count a moment of waiting for what must be read first."""
        with self._lock:
            self._moved, self._lost = self._clock(), lost

    def finish_round(self, lost: Lost | None, open_breakers: Collection[str]) -> None:
        """Count a finished round."""
        with self._lock:
            self._moved, self._synced, self._lost, self._open = self._clock(), True, lost, tuple(open_breakers)

    @property
    def health(self) -> Health:
        """Give what is known now."""
        with self._lock:
            now = self._clock()
            return Health(
                idle=now - self._moved,
                leading=self._leading,
                synced=self._synced,
                open_breakers=self._open,
                lost=self._lost,
                unheard=now - self._heard,
                trouble=self._trouble,
            )
