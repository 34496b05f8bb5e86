"""Status of the controller, which it writes into one annotation of its Lease.

A Job in delegate mode compares the spec hashes. ``status`` shows the rest. A new leader reads nothing of it. Any
account that may write the Lease may write any text there, so known fields are read strictly and within limits. Unknown
fields are ignored: after a rollback, an older program reads the status of a newer one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from hook.core import fields, gates
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
"""Version of the format. New fields keep the version. A changed meaning of a field needs a new one."""
LONGEST: Final = 8192
"""Longest status that is read, in characters. This program writes a few hundred."""
LONGEST_ABOUT: Final = 365 * 24 * 3600
"""Longest remaining time, in seconds: one year."""
LONGEST_WHY: Final = 512
"""Longest message of a breaker, in characters: enough for five nodes with long names."""
EPOCH_DIGITS: Final = 16
"""Hexadecimal digits of a spec hash: enough to distinguish all specs that a cluster ever has."""
_EPOCH: Final = re.compile(f"([0-9a-f]{{{EPOCH_DIGITS}}})?")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open breaker."""

    at: datetime
    why: str

    def encoded(self) -> dict[str, str]:
        """Return the JSON object."""
        return {"openedAt": moment(self.at), "why": self.why[:LONGEST_WHY]}


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
        }
        known = {key: value for key, value in record.items() if value is not None}
        return json.dumps(known, separators=(",", ":"), sort_keys=True)

    @classmethod
    def decode(cls, text: str) -> Following:
        """Return the status from its JSON text. Raises MalformedObjectError if a known field is invalid."""
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
            by=fields.text(record, "by"),
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


def _read(text: str) -> Json:
    if len(text) > LONGEST:
        raise MalformedObjectError(f"record: {len(text)} characters, expected at most {LONGEST}")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedObjectError("record: not JSON") from error
    if not isinstance(record, dict):
        raise MalformedObjectError("record: expected an object")
    return record


def _stacks(record: Json, key: str) -> Iterable[str]:
    """Return the known stacks in the object under a key."""
    return [stack for stack in STACKS if stack in fields.mapping(record, key)]


def _epoch(record: Json, stack: str) -> str:
    found = fields.text(record, "epochs", stack)
    if not _EPOCH.fullmatch(found):
        raise MalformedObjectError(f"epochs.{stack}: {found[:40]!r} is not a spec hash")
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
