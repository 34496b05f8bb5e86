"""What a follower writes down for others: which intent it serves, and how far it is.

The record stands in one annotation of the follower's Lease. A Job that hands over compares epochs; `status` shows
the rest; a follower that takes over goes on with a breaker that is open. Whoever may write the Lease may write
anything there, so it is read strictly, and within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.verdicts import Decision

VERSION: Final = 1
"""Of the record: another one is not understood."""
LONGEST: Final = 4096
"""Characters of a record; what is written here takes a few hundred."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open breaker."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Following:
    """What a follower has seen and done."""

    epochs: Mapping[str, str] = field(default_factory=dict)
    """By stack: the intent that it serves; empty while that is not rendered."""
    to_go: int = 0
    """Nodes that are not served yet."""
    about: int | None = None
    """Seconds that they will take, as far as that can be told."""
    restarted: int = 0
    """Plugins that this follower restarted since it began."""
    last_look: datetime | None = None
    last_acted: datetime | None = None
    breakers: Mapping[str, Opened] = field(default_factory=dict)
    """By stack: those that are open."""

    def encode(self) -> str:
        """Write the record as one line of JSON."""
        raise NotImplementedError

    @classmethod
    def decode(cls, text: str) -> Following:
        """Read a record. Raises MalformedObjectError for anything that this version did not write."""
        raise NotImplementedError


def epoch(fleet: Fleet) -> str:
    """Name the intent that a stack's drivers are rendered from; empty while they are not."""
    raise NotImplementedError


def to_go(decision: Decision) -> int:
    """Count the nodes that are neither served nor left alone."""
    raise NotImplementedError
