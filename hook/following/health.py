"""Liveness and readiness of the controller, from its progress."""

from __future__ import annotations

import time
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


class Health:
    """Progress of the controller. ``dead`` and ``unready`` are empty, or return what is wrong.

    The reconcile loop and the thread that renews the Lease write, and threads of the server read. Each attribute is
    replaced as a whole, so no lock is needed: between two of them an answer may be one step behind.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moved = clock()
        self._heard, self._trouble = float("-inf"), ""
        """When a try for the Lease last got an answer that is no refusal, and why the last try got none."""
        self._leading = self._synced = False
        self._open: Collection[str] = ()
        self.lost: Lost | None = None
        """What cannot be read now."""

    def lead(self, *, leading: bool) -> None:
        """Start again as leader or as standby."""
        self._synced, self._open, self.lost = False, (), None
        self._moved, self._leading = self._clock(), leading

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Record a Lease request. It is progress of a standby, but proves nothing about a leader's reconcile loop."""
        self._trouble = trouble
        if not trouble:
            self._heard = self._clock()
        if not self._leading:
            self._moved = self._clock()

    def wait(self, lost: Lost | None) -> None:
        """Record progress while the cache is not synced."""
        self._moved, self.lost = self._clock(), lost

    def finish_round(self, lost: Lost | None, open_breakers: Collection[str]) -> None:
        """Record a finished reconcile."""
        self.lost, self._open = lost, tuple(open_breakers)
        self._moved, self._synced = self._clock(), True

    @property
    def dead(self) -> str:
        """Why the process should be restarted, or ""."""
        idle = self._clock() - self._moved
        what = "reconcile was finished" if self._leading else "Lease request was sent"
        return f"no {what} for {idle:.0f} s" if idle > ALIVE_SECONDS else ""

    @property
    def unready(self) -> str:
        """Why a leader does not act, or a standby could not take over; or ""."""
        lost, breakers = self.lost, self._open
        if self.dead or not self._leading:
            return self.dead or self._out_of_reach
        if breakers:
            return f"the circuit breaker is open: {', '.join(sorted(breakers))}"
        if lost is not None and lost.seconds > LOST_SECONDS:
            return str(lost)
        return "" if self._synced else "the cluster has not been read yet"

    @property
    def _out_of_reach(self) -> str:
        """Why a standby could not take over, or "": it has no access to its Lease."""
        if self._clock() - self._heard <= LOST_SECONDS:
            return ""
        return f"the Lease is not available: {self._trouble}" if self._trouble else "no Lease request was sent yet"

    @property
    def role(self) -> str:
        """The role of the replica: leader or standby."""
        return "leader" if self._leading else "standby"
