"""Liveness and readiness of the controller, from its progress."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hook.cluster.contact import Lost

ALIVE_SECONDS: Final = 120.0
"""Time without progress after which the process hangs. The longest step without progress takes about 45 s: 5 s for the
discovery of ResourceSlices, 15 s for restarts (their retries end with the Lease), 20 s to write the status against
conflicts, and 5 s of waiting."""
LOST_SECONDS: Final = 60.0
"""Time without contact after which the controller is not ready. A control plane restarts within a minute."""


@dataclass(frozen=True, slots=True)
class Health:
    """State of the controller at one moment. ``dead`` and ``unready`` are empty, or return what is wrong."""

    idle: float
    """Seconds since the last progress."""
    leading: bool
    synced: bool
    """This leader has finished a reconcile."""
    open_breakers: Collection[str]
    lost: Lost | None
    unheard: float
    """Seconds since the last successful Lease request; inf before the first one."""
    trouble: str
    """Why the last Lease request failed."""

    @property
    def dead(self) -> str:
        """Return why the process should be restarted, or ""."""
        if self.idle <= ALIVE_SECONDS:
            return ""
        what = "reconcile was finished" if self.leading else "Lease request was sent"
        return f"no {what} for {self.idle:.0f} s"

    @property
    def unready(self) -> str:
        """Return why a leader does not act, or a standby could not take over; or ""."""
        if self.dead or not self.leading:
            return self.dead or self._out_of_reach
        if self.open_breakers:
            return f"the circuit breaker is open: {', '.join(sorted(self.open_breakers))}"
        if self.lost is not None and self.lost.seconds > LOST_SECONDS:
            return str(self.lost)
        return "" if self.synced else "the cluster has not been read yet"

    @property
    def _out_of_reach(self) -> str:
        """Return why a standby could not take over, or "": it has no access to its Lease."""
        if self.unheard <= LOST_SECONDS:
            return ""
        return f"the Lease is not available: {self.trouble}" if self.trouble else "no Lease request was sent yet"

    @property
    def role(self) -> str:
        """Return the role of the replica: leader or standby."""
        return "leader" if self.leading else "standby"


class Pulse:
    """Records the controller's progress. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._moved = clock()
        self._heard, self._trouble = float("-inf"), ""
        self._leading = self._synced = False
        self._open: Collection[str] = ()
        self._lost: Lost | None = None

    def lead(self, *, leading: bool) -> None:
        """Start again as leader or as standby."""
        with self._lock:
            self._moved, self._leading, self._synced = self._clock(), leading, False
            self._open, self._lost = (), None

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Record a Lease request. It is progress of a standby, but proves nothing about a leader's reconcile loop."""
        with self._lock:
            self._trouble = trouble
            if not trouble:
                self._heard = self._clock()
            if not self._leading:
                self._moved = self._clock()

    def wait(self, lost: Lost | None) -> None:
        """Record progress while the cache is not synced."""
        with self._lock:
            self._moved, self._lost = self._clock(), lost

    def finish_round(self, lost: Lost | None, open_breakers: Collection[str]) -> None:
        """Record a finished reconcile."""
        with self._lock:
            self._moved, self._synced, self._lost, self._open = self._clock(), True, lost, tuple(open_breakers)

    @property
    def health(self) -> Health:
        """Return the current state."""
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
