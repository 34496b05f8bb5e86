"""Status annotation of the controller's Lease: when it is written, and what a new leader reads from it."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core import names
from hook.core.fields import MalformedObjectError
from hook.core.following import Following
from hook.errors import ClusterError

if TYPE_CHECKING:
    from hook.cluster.lease import Lease

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 5.0
"""Time between two writes. While a fleet reloads, the status changes all the time."""
LOOK_SECONDS: Final = 30.0
"""Time between two writes if only the time of the last reconcile, or the estimated time, changed."""
RETRY_SECONDS: Final = 1.0
"""Time between two attempts to write."""
LONGEST_WISH: Final = 256
"""Characters of a close request that are compared. Any text is a request."""


class Record:
    """Status annotation of one leader."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._written: Following | None = None
        self._obeyed, self._owed = "", False
        """Last close request that was acknowledged, and whether that is still to be written."""
        self._written_at = self._tried_at = float("-inf")

    def found(self) -> Following:
        """Return the status of the previous leader, or an empty one if it is missing or invalid."""
        text = self._lease.annotations.get(names.FOLLOWING_ANNOTATION, "")
        if not text:
            return Following()
        try:
            return Following.decode(text)
        except MalformedObjectError as error:
            log.warning("cannot decode the status of the previous leader, starting without it: %s", error)
            return Following()

    @property
    def wish(self) -> str:
        """Return a request to close the breaker that was not acknowledged yet, or ""."""
        found = self._lease.annotations
        wish, obeyed = (found.get(key, "")[:LONGEST_WISH] for key in WISHES)
        return wish if wish not in (obeyed, self._obeyed) else ""

    def obey(self, wish: str) -> None:
        """Acknowledge a close request, so that the next leader does not execute it again.

        The acknowledgement is written together with the breakers. A crash between two writes would lose the request.
        """
        self._obeyed, self._owed = wish, True

    def keep(self, now: Following) -> bool:
        """Write the status if that is due. Return whether the Lease has an equivalent status."""
        obeyed = {names.CLOSED_BREAKER_ANNOTATION: self._obeyed} if self._owed else {}
        if time.monotonic() >= self._due(now) and self._write({names.FOLLOWING_ANNOTATION: now.encode(), **obeyed}):
            self._written, self._written_at, self._owed = now, time.monotonic(), False
        return self._tells(now)

    def _due(self, now: Following) -> float:
        """Return when a status is due to be written, by the monotonic clock."""
        again = self._tried_at + RETRY_SECONDS
        before = self._written
        if self._owed or before is None or (before.epochs, before.breakers) != (now.epochs, now.breakers):
            return again
        return max(again, self._written_at + (LOOK_SECONDS if self._tells(now) else WRITE_SECONDS))

    def _tells(self, now: Following) -> bool:
        before = self._written
        return (
            before is not None
            and not self._owed
            and replace(now, last_look=before.last_look, about=before.about) == before
        )

    def _write(self, annotations: dict[str, str]) -> bool:
        """Write annotations. After an error, the next reconcile writes them again."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate(annotations)
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True


WISHES: Final = (names.CLOSE_BREAKER_ANNOTATION, names.CLOSED_BREAKER_ANNOTATION)
