"""What a follower writes down in its Lease, when, and what it finds there."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core import names
from hook.core.following import Following
from hook.errors import ClusterError
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from hook.cluster.lease import Lease

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 5.0
"""Between two records: while a fleet reloads something changes all the time, and people look now and then."""
LOOK_SECONDS: Final = 30.0
"""Between two records that tell nothing but that it looked again, or that the time that is left changed."""
RETRY_SECONDS: Final = 1.0
"""Between two tries, whatever came of the first."""
LONGEST_WISH: Final = 256
"""Characters of a person's wish to close the breaker that are looked at; any text is one."""


class Record:
    """The record of one leader, beginning with what the last one left."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._written: Following | None = None
        self._obeyed, self._owed = "", False
        """The last wish that was obeyed, and whether that is still to be written down."""
        self._written_at = self._tried_at = float("-inf")

    def found(self) -> Following:
        """Read what the last leader left; an empty record where there is none, or none that can be read."""
        text = self._lease.annotations.get(names.FOLLOWING_ANNOTATION, "")
        if not text:
            return Following()
        try:
            return Following.decode(text)
        except MalformedObjectError as error:
            log.warning("what the Lease says of the last leader cannot be read, beginning anew: %s", error)
            return Following()

    @property
    def wish(self) -> str:
        """Give a person's wish to close the breaker that was not obeyed yet; empty if there is none."""
        said = self._lease.annotations
        wish, obeyed = (said.get(key, "")[:LONGEST_WISH] for key in WISHES)
        return wish if wish not in (obeyed, self._obeyed) else ""

    def obey(self, wish: str) -> None:
        """Note that a wish was obeyed, so that it is obeyed once, whoever leads next.

        It is written with the breakers that are open after it: one without the other would be a wish that is lost.
        """
        self._obeyed, self._owed = wish, True

    def keep(self, now: Following) -> bool:
        """Write the record if somebody may wait for it. Gives whether what is there tells the same by then."""
        obeyed = {names.CLOSED_BREAKER_ANNOTATION: self._obeyed} if self._owed else {}
        if time.monotonic() >= self._due(now) and self._write({names.FOLLOWING_ANNOTATION: now.encode(), **obeyed}):
            self._written, self._written_at, self._owed = now, time.monotonic(), False
        return self._tells(now)

    def _due(self, now: Following) -> float:
        """Give the moment at which this is to be written."""
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
        """Write annotations; what fails is written with the next round."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate(annotations)
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True


WISHES: Final = (names.CLOSE_BREAKER_ANNOTATION, names.CLOSED_BREAKER_ANNOTATION)
