"""What a follower writes down for others: which intent it serves, and how far it is.

The record stands in one annotation of the follower's Lease. A Job that hands over compares epochs; ``status`` shows
the rest; a follower that takes over goes on with a breaker that is open, and opens none again for those for whom it was
closed. Whoever may write the Lease may write anything there, so what is known is read strictly, and within bounds.
What is not known is ignored: after a roll-back an older program reads what a later one left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hook.core import gates
from hook.core.breaker import Breaker
from hook.core.stacks import STACKS
from hook.objects import decoding
from hook.objects.decoding import Count, MalformedObjectError, Name, Part, Text, Time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.verdicts import Decision

VERSION: Final = 1
"""Of the record: one of another version may mean something else by the same words. One that only says more keeps it."""
LONGEST: Final = 8192
"""Characters of a record; what is written here takes a few hundred."""
LONGEST_ABOUT: Final = 365 * 24 * 3600
"""Seconds: nobody plans for more than a year, and it is still a time that can be told."""
LONGEST_WHY: Final = 512
"""Characters of a breaker's reason: five nodes with long names."""
EPOCH_DIGITS: Final = 16
"""Enough to tell apart all that a cluster ever asks for; what they stand for, nobody has to read."""
_Epoch = Annotated[str, msgspec.Meta(pattern=rf"\A([0-9a-f]{{{EPOCH_DIGITS}}})?\Z")]


class _Opened(Part):
    opened_at: Time
    why: Name


class _Record(Part):
    """A record as JSON. What is None is left out."""

    version: Count
    epochs: dict[str, Any] | None = None
    to_go: Count | None = None
    about: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_ABOUT)] | None = None
    restarted: Count | None = None
    last_look: Time | None = None
    last_acted: Time | None = None
    breakers: dict[str, Any] | None = None
    closed: dict[str, Any] | None = None
    by: Text | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """An open breaker."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Following:
    """What a follower has seen and done. Times are in whole seconds."""

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
    closed: Mapping[str, datetime] = field(default_factory=dict)
    """By stack: when one was closed whose nodes are not all served yet."""
    by: str = ""
    """Who wrote this: a record outlives its writer, and whoever leads next has seen nothing of it yet."""

    def encode(self) -> str:
        """Write the record as one line of JSON, the same for the same."""
        opened = {stack: _Opened(decoding.utc(one.at), one.why[:LONGEST_WHY]) for stack, one in self.breakers.items()}
        record = _Record(
            version=VERSION,
            by=self.by or None,
            epochs=dict(self.epochs),
            to_go=self.to_go,
            about=min(self.about, LONGEST_ABOUT) if self.about is not None else None,
            restarted=self.restarted,
            last_look=decoding.utc(self.last_look) if self.last_look is not None else None,
            last_acted=decoding.utc(self.last_acted) if self.last_acted is not None else None,
            breakers=opened,
            closed={stack: decoding.utc(at) for stack, at in self.closed.items()} or None,
        )
        told = {key: value for key, value in msgspec.to_builtins(record).items() if value is not None}
        return msgspec.json.encode(told, order="sorted").decode()

    @classmethod
    def decode(cls, text: str) -> Following:
        """Read a record. Raises MalformedObjectError where it means something else than this version writes."""
        if len(text) > LONGEST:
            raise MalformedObjectError(f"record: {len(text)} characters, no more than {LONGEST} make sense")
        record = decoding.read(_Record, text.encode())
        if record.version != VERSION:
            raise MalformedObjectError(f"version: expected {VERSION}")
        breakers = _known(_Opened, record.breakers)
        closed = _known(Time, record.closed)
        if not all(one.why.isprintable() for one in breakers.values()):
            raise MalformedObjectError("why: not printable")
        if odd := breakers.keys() & closed.keys():
            raise MalformedObjectError(f"closed.{min(odd)}: it is open")
        return cls(
            epochs=_known(_Epoch, record.epochs),
            to_go=record.to_go or 0,
            about=record.about,
            restarted=record.restarted or 0,
            last_look=decoding.moment(record.last_look),
            last_acted=decoding.moment(record.last_acted),
            breakers={stack: Opened(decoding.utc(one.opened_at), one.why) for stack, one in breakers.items()},
            closed={stack: decoding.utc(at) for stack, at in closed.items()},
            by=record.by or "",
        )

    def breaker(self, stack: str) -> Breaker:
        """Give the breaker that a follower goes on with who takes over."""
        opened = self.breakers.get(stack)
        if opened is not None:
            return Breaker(opened.at, opened.why)
        return Breaker(closed_at=self.closed.get(stack))


def epoch(fleet: Fleet) -> str:
    """Name the intent that a stack's drivers are rendered from; empty while they are not, or cannot be read.

    Whoever reads the same policy and the same driver revisions comes to the same name.
    """
    if fleet.policy is None or gates.blind_to_intent(fleet) or gates.not_rendered(fleet) is not None:
        return ""
    # A follower may have seen pools that a policy has left to nobody since; a Job that begins now reads none.
    pools = fleet.seen.pools if fleet.policy.pooled else ()
    intents = (fleet.policy, *sorted(pools, key=lambda one: one.uid))
    newest = sorted((uid, one.hash, one.revision) for uid, one in fleet.newest.items() if uid in fleet.drivers)
    told = json.dumps([[(one.uid, one.generation) for one in intents], newest])
    return sha256(told.encode()).hexdigest()[:EPOCH_DIGITS]


def to_go(decision: Decision) -> int:
    """Count the nodes that are neither served nor left alone, those that need a person included."""
    return len({one.node for one in decision.judgements if one.state not in gates.TERMINAL})


def _known(shape: Any, found: Mapping[str, Any] | None) -> dict[str, Any]:  # noqa: ANN401 - what has that shape
    """Read what a record says of the stacks that this program knows."""
    return {stack: decoding.read(shape, found[stack]) for stack in STACKS if found and stack in found}
