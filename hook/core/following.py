"""Status of the controller, which it writes into one annotation of its Lease.

A Job in delegate mode compares the spec hashes. ``status`` shows the rest. A new leader reads nothing of it. Any
account that may write the Lease may write any text there, so known fields are read strictly and within limits. Unknown
fields are ignored: after a rollback, an older program reads the status of a newer one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hook.core import gates
from hook.core.stacks import STACKS
from hook.objects import decoding
from hook.objects.decoding import Count, MalformedObjectError, Name, Part, Text, Time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.verdicts import Decision

VERSION: Final = 1
"""Version of the format. New fields keep the version. A changed meaning of a field needs a new one."""
LONGEST: Final = 8192
"""Longest status that is read, in characters. This program writes a few hundred."""
LONGEST_ABOUT: Final = 365 * 24 * 3600
"""Longest remaining time, in seconds: one year."""
LONGEST_WHY: Final = 512
"""Longest message of a breaker, in characters: enough for five nodes with long names."""
EPOCH_DIGITS: Final = 16
"""Hexadecimal digits of a spec hash: enough to distinguish all specs that a cluster ever has."""
_Epoch = Annotated[str, msgspec.Meta(pattern=rf"\A([0-9a-f]{{{EPOCH_DIGITS}}})?\Z")]


class _Opened(Part):
    opened_at: Time
    why: Name


class _Record(Part):
    """The status as JSON. Fields that are None are left out."""

    version: Count
    epochs: dict[str, Any] | None = None
    to_go: Count | None = None
    about: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_ABOUT)] | None = None
    restarted: Count | None = None
    last_look: Time | None = None
    last_acted: Time | None = None
    breakers: dict[str, Any] | None = None
    by: Text | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """An open breaker."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Following:
    """Status of the controller. Times are in whole seconds."""

    epochs: Mapping[str, str] = field(default_factory=dict)
    """Spec hash that the controller has observed, by stack. Empty while the spec is not rendered."""
    to_go: int = 0
    """Nodes that are neither verified nor excluded."""
    about: int | None = None
    """Estimated time for the remaining nodes, in seconds. None if unknown."""
    restarted: int = 0
    """Plugins that this leader has restarted."""
    last_look: datetime | None = None
    last_acted: datetime | None = None
    breakers: Mapping[str, Opened] = field(default_factory=dict)
    """Open breakers, by stack."""
    by: str = ""
    """Identity of the writer. A new leader inherits the status, but has not observed the fleet itself."""

    def encode(self) -> str:
        """Return the status as one line of JSON. Equal statuses have equal text."""
        opened = {
            stack: _Opened(decoding.utc(breaker.at), breaker.why[:LONGEST_WHY])
            for stack, breaker in self.breakers.items()
        }
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
        )
        known = {key: value for key, value in msgspec.to_builtins(record).items() if value is not None}
        return msgspec.json.encode(known, order="sorted").decode()

    @classmethod
    def decode(cls, text: str) -> Following:
        """Return the status from its JSON text. Raises MalformedObjectError if a known field is invalid."""
        if len(text) > LONGEST:
            raise MalformedObjectError(f"record: {len(text)} characters, expected at most {LONGEST}")
        record = decoding.read(_Record, text.encode())
        if record.version != VERSION:
            raise MalformedObjectError(f"version: expected {VERSION}")
        breakers = _known(_Opened, record.breakers)
        if not all(breaker.why.isprintable() for breaker in breakers.values()):
            raise MalformedObjectError("why: not printable")
        return cls(
            epochs=_known(_Epoch, record.epochs),
            to_go=record.to_go or 0,
            about=record.about,
            restarted=record.restarted or 0,
            last_look=decoding.moment(record.last_look),
            last_acted=decoding.moment(record.last_acted),
            breakers={
                stack: Opened(decoding.utc(breaker.opened_at), breaker.why) for stack, breaker in breakers.items()
            },
            by=record.by or "",
        )


def epoch(fleet: Fleet) -> str:
    """Return the spec hash of a stack's drivers, or "" while they are not rendered or a relevant object is malformed.

    Two processes that read the same policy and driver revisions get the same hash.
    """
    if fleet.policy is None or gates.blind_to_intent(fleet) or gates.not_rendered(fleet) is not None:
        return ""
    # The controller may still have pools in its cache that the policy no longer uses. A new Job does not read them.
    pools = fleet.seen.pools if fleet.policy.pooled else ()
    intents = (fleet.policy, *sorted(pools, key=lambda pool: pool.uid))
    newest = sorted(
        (uid, revision.hash, revision.revision) for uid, revision in fleet.newest.items() if uid in fleet.drivers
    )
    spec = json.dumps([[(intent.uid, intent.generation) for intent in intents], newest])
    return sha256(spec.encode()).hexdigest()[:EPOCH_DIGITS]


def to_go(decision: Decision) -> int:
    """Return the number of nodes that are neither verified nor excluded. Failed nodes count."""
    return len({status.node for status in decision.judgements if status.state not in gates.TERMINAL})


def _known(shape: Any, found: Mapping[str, Any] | None) -> dict[str, Any]:  # noqa: ANN401 - of that shape
    """Return the decoded values of the known stacks."""
    return {stack: decoding.read(shape, found[stack]) for stack in STACKS if found and stack in found}
