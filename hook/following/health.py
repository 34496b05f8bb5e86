"""Whether a controller is alive and whether it is ready: by its progress, never a fixed answer."""

from __future__ import annotations

import time
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


class Health:
    """The progress of a controller, and what it says of its health; each answer is empty where all is well.

    The loop and the thread that renews the Lease note progress, and threads of the server ask. Each attribute is
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
        """Begin anew, as leader or as standby."""
        self._synced, self._open, self.lost = False, (), None
        self._moved, self._leading = self._clock(), leading

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Count a try as progress of a standby; a leader's renewals prove nothing of its loop."""
        self._trouble = trouble
        if not trouble:
            self._heard = self._clock()
        if not self._leading:
            self._moved = self._clock()

    def wait(self, lost: Lost | None) -> None:
        """Count a moment of waiting for what must be read first."""
        self._moved, self.lost = self._clock(), lost

    def finish_round(self, lost: Lost | None, open_breakers: Collection[str]) -> None:
        """Count a finished round."""
        self.lost, self._open = lost, tuple(open_breakers)
        self._moved, self._synced = self._clock(), True

    @property
    def dead(self) -> str:
        """Why it should be started again."""
        idle = self._clock() - self._moved
        what = "round was finished" if self._leading else "try for the Lease was made"
        return f"no {what} for {idle:.0f} s" if idle > ALIVE_SECONDS else ""

    @property
    def unready(self) -> str:
        """Why it does not lead, and is no standby that could."""
        lost, breakers = self.lost, self._open
        if self.dead or not self._leading:
            return self.dead or self._out_of_reach
        if breakers:
            return f"the circuit breaker is open: {', '.join(sorted(breakers))}"
        if lost is not None and lost.seconds > LOST_SECONDS:
            return str(lost)
        return "" if self._synced else "the cluster was not read yet"

    @property
    def _out_of_reach(self) -> str:
        """Why a standby could not take over: it may not, or cannot, read its Lease."""
        if self._clock() - self._heard <= LOST_SECONDS:
            return ""
        return f"the Lease cannot be had: {self._trouble}" if self._trouble else "the Lease was not tried for yet"

    @property
    def role(self) -> str:
        """What it does while all is well."""
        return "leading" if self._leading else "standing by"
