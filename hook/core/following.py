"""What a follower writes down for others: which intent it serves, and how far it is.

The record stands in one annotation of the follower's Lease. A Job that hands over compares epochs; ``status`` shows
the rest; a follower that takes over goes on with a breaker that is open, and opens none again for those for whom it was
closed. Whoever may write the Lease may write anything there, so what is known is read strictly, and within bounds.
What is not known is ignored: after a roll-back an older program reads what a later one left.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from hook.core import fields, gates
from hook.core.breaker import Breaker
from hook.core.fields import MalformedObjectError
from hook.core.sentences import moment
from hook.core.stacks import STACKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hook.core.fields import Json
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
_EPOCH: Final = re.compile(f"([0-9a-f]{{{EPOCH_DIGITS}}})?")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open breaker."""

    at: datetime
    why: str

    def encoded(self) -> dict[str, str]:
        """Give it as JSON has it."""
        return {"openedAt": moment(self.at), "why": self.why[:LONGEST_WHY]}


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
        record: dict[str, Any] = {
            "version": VERSION,
            "by": self.by or None,
            "epochs": dict(self.epochs),
            "toGo": self.to_go,
            "about": min(self.about, LONGEST_ABOUT) if self.about is not None else None,
            "restarted": self.restarted,
            "lastLook": moment(self.last_look) if self.last_look is not None else None,
            "lastActed": moment(self.last_acted) if self.last_acted is not None else None,
            "breakers": {stack: breaker.encoded() for stack, breaker in self.breakers.items()},
            "closed": {stack: moment(at) for stack, at in self.closed.items()} or None,
        }
        told = {key: value for key, value in record.items() if value is not None}
        return json.dumps(told, separators=(",", ":"), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> Following:
        """Read a record. Raises MalformedObjectError where it means something else than this version writes."""
        record = _read(text)
        if fields.number(record, "version") != VERSION:
            raise MalformedObjectError(f"version: expected {VERSION}")
        return cls(
            epochs={stack: _epoch(record, stack) for stack in _stacks(record, "epochs")},
            to_go=fields.number(record, "toGo"),
            about=_about(record),
            restarted=fields.number(record, "restarted"),
            last_look=fields.when(record, "lastLook"),
            last_acted=fields.when(record, "lastActed"),
            breakers={stack: _opened(record, stack) for stack in _stacks(record, "breakers")},
            closed={stack: _closed(record, stack) for stack in _stacks(record, "closed")},
            by=fields.text(record, "by"),
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
    intents = (fleet.policy, *sorted(pools, key=lambda pool: pool.uid))
    newest = sorted(
        (uid, revision.hash, revision.revision) for uid, revision in fleet.newest.items() if uid in fleet.drivers
    )
    told = json.dumps([[(intent.uid, intent.generation) for intent in intents], newest])
    return sha256(told.encode()).hexdigest()[:EPOCH_DIGITS]


def to_go(decision: Decision) -> int:
    """Count the nodes that are neither served nor left alone, those that need a person included."""
    return len({status.node for status in decision.judgements if status.state not in gates.TERMINAL})


def _read(text: str) -> Json:
    if len(text) > LONGEST:
        raise MalformedObjectError(f"record: {len(text)} characters, no more than {LONGEST} make sense")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedObjectError("record: no JSON") from error
    if not isinstance(record, dict):
        raise MalformedObjectError("record: expected an object")
    return record


def _stacks(record: Json, key: str) -> Iterable[str]:
    """Give the stacks under a key that this program knows."""
    return [stack for stack in STACKS if stack in fields.mapping(record, key)]


def _epoch(record: Json, stack: str) -> str:
    found = fields.text(record, "epochs", stack)
    if not _EPOCH.fullmatch(found):
        raise MalformedObjectError(f"epochs.{stack}: {found[:40]!r} is none")
    return found


def _about(record: Json) -> int | None:
    if record.get("about") is None:
        return None
    found = fields.number(record, "about")
    if found > LONGEST_ABOUT:
        raise MalformedObjectError("about: more than a year")
    return found


def _opened(record: Json, stack: str) -> Opened:
    entry = fields.mapping(record, "breakers", stack)
    at, why = fields.when(entry, "openedAt"), fields.required(entry, "why")
    if at is None or not why.isprintable():
        raise MalformedObjectError("openedAt: missing" if at is None else "why: not printable")
    return Opened(at, why)


def _closed(record: Json, stack: str) -> datetime:
    at = fields.when(record, "closed", stack)
    if at is None or stack in fields.mapping(record, "breakers"):
        raise MalformedObjectError(f"closed.{stack}: {'missing' if at is None else 'it is open'}")
    return at
