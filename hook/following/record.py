"""What a controller writes to its Lease, and when."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core import names
from hook.errors import ClusterError

if TYPE_CHECKING:
    from hook.core.following import Following
    from hook.kube.election import LeaderElector

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 5.0
"""Between two records: while a fleet reloads something changes all the time, and people look now and then."""
LOOK_SECONDS: Final = 30.0
"""Between two records that tell nothing but that it looked again, or that the time that is left changed."""
RETRY_SECONDS: Final = 1.0
"""Between two tries, whatever came of the first."""


class Record:
    """The record of one leader. It replaces what the last leader wrote with its first round."""

    def __init__(self, lease: LeaderElector) -> None:
        self._lease = lease
        self._written: Following | None = None
        self._written_at = self._tried_at = float("-inf")

    def keep(self, now: Following) -> bool:
        """Write the record if it is due. Return whether the Lease shows the same by then."""
        if time.monotonic() >= self._due(now) and self._write(now):
            self._written, self._written_at = now, time.monotonic()
        return self._tells(now)

    def _due(self, now: Following) -> float:
        """Give the moment at which this is to be written."""
        again = self._tried_at + RETRY_SECONDS
        before = self._written
        if before is None or (before.epochs, before.breakers) != (now.epochs, now.breakers):
            return again
        return max(again, self._written_at + (LOOK_SECONDS if self._tells(now) else WRITE_SECONDS))

    def _tells(self, now: Following) -> bool:
        before = self._written
        return before is not None and replace(now, last_look=before.last_look, about=before.about) == before

    def _write(self, now: Following) -> bool:
        """Write the record; one that fails is written with the next round."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate({names.FOLLOWING_ANNOTATION: now.encode()})
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True
