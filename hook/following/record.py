"""Status annotation of the controller's Lease, and when it is written."""

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
"""Time between two writes. While a fleet reloads, the status changes all the time."""
LOOK_SECONDS: Final = 30.0
"""Time between two writes if only the time of the last reconcile, or the estimated time, changed."""
RETRY_SECONDS: Final = 1.0
"""Time between two attempts to write."""


class Record:
    """Status annotation of one leader. Its first one replaces that of the previous leader."""

    def __init__(self, lease: LeaderElector) -> None:
        self._lease = lease
        self._written: Following | None = None
        self._written_at = self._tried_at = float("-inf")

    def keep(self, now: Following) -> bool:
        """Write the status if that is due. Return whether the Lease has an equivalent status."""
        if time.monotonic() >= self._due(now) and self._write(now):
            self._written, self._written_at = now, time.monotonic()
        return self._tells(now)

    def _due(self, now: Following) -> float:
        """Return when a status is due to be written, by the monotonic clock."""
        again = self._tried_at + RETRY_SECONDS
        before = self._written
        if before is None or (before.epochs, before.breakers) != (now.epochs, now.breakers):
            return again
        return max(again, self._written_at + (LOOK_SECONDS if self._tells(now) else WRITE_SECONDS))

    def _tells(self, now: Following) -> bool:
        before = self._written
        return before is not None and replace(now, last_look=before.last_look, about=before.about) == before

    def _write(self, now: Following) -> bool:
        """Write the annotation. After an error, the next reconcile writes it again."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate({names.FOLLOWING_ANNOTATION: now.encode()})
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True
