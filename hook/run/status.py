"""Status of the controller in an annotation of its Lease: its content, its writer and its reader.

A Job in delegate mode compares the spec hashes. ``status`` shows the rest. A new leader reads nothing of it. Any
account that may write the Lease may write any text there, so known fields are read strictly and within limits. Unknown
fields are ignored: after a rollback, an older program reads the status of a newer one.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hook.decide import done
from hook.errors import ClusterError, NotFoundError
from hook.kube.requests import LEASES, ListOptions, Request
from hook.objects import decoding, names, wire
from hook.objects.decoding import Count, MalformedObjectError, Name, Part, Text, Time
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision
    from hook.kube.client import Api
    from hook.kube.election import LeaderElector
    from hook.objects.decoding import Json, Raw

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
    remaining: Count | None = None
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
class ControllerStatus:
    """Status of the controller. Times are in whole seconds."""

    epochs: Mapping[str, str] = field(default_factory=dict)
    """Spec hash that the controller has observed, by stack. Empty while the spec is not rendered."""
    remaining: int = 0
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
            remaining=self.remaining,
            about=min(self.about, LONGEST_ABOUT) if self.about is not None else None,
            restarted=self.restarted,
            last_look=decoding.utc(self.last_look) if self.last_look is not None else None,
            last_acted=decoding.utc(self.last_acted) if self.last_acted is not None else None,
            breakers=opened,
        )
        known = {key: value for key, value in msgspec.to_builtins(record).items() if value is not None}
        return msgspec.json.encode(known, order="sorted").decode()

    @classmethod
    def decode(cls, text: str) -> ControllerStatus:
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
            remaining=record.remaining or 0,
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
    if fleet.policy is None or done.blind_to_intent(fleet.context) or done.not_rendered(fleet) is not None:
        return ""
    # The controller may still have pools in its cache that the policy no longer uses. A new Job does not read them.
    pools = fleet.seen.pools if fleet.policy.pooled else ()
    intents = (fleet.policy, *sorted(pools, key=lambda pool: pool.uid))
    newest = sorted(
        (uid, revision.hash, revision.revision) for uid, revision in fleet.newest.items() if uid in fleet.drivers
    )
    spec = json.dumps([[(intent.uid, intent.generation) for intent in intents], newest])
    return sha256(spec.encode()).hexdigest()[:EPOCH_DIGITS]


def remaining(decision: Decision) -> int:
    """Return the number of nodes that are neither verified nor excluded. Failed nodes count."""
    return len({status.node for status in decision.statuses if status.state not in done.TERMINAL})


def _known(shape: Any, found: Mapping[str, Any] | None) -> dict[str, Any]:  # noqa: ANN401 - of that shape
    """Return the decoded values of the known stacks."""
    return {stack: decoding.read(shape, found[stack]) for stack in STACKS if found and stack in found}


ALIVE_WITHIN: Final = timedelta(seconds=20)
"""A leader renews every two seconds and loses its Lease after 15; clocks may differ by the rest."""


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """A follower's Lease, as somebody else reads it."""

    namespace: str
    name: str
    holder: str = ""
    """Empty: nobody leads."""
    renewed: datetime | None = None
    renewal: str = ""
    """The same to the microsecond, as it is written: whether it changed tells life without comparing clocks."""
    record: ControllerStatus | None = None
    problem: str = ""
    """Why there is no record."""

    def alive(self, now: datetime) -> bool:
        """Whether somebody leads, as far as one look can tell."""
        return bool(self.holder) and self.renewed is not None and abs(now - self.renewed) <= ALIVE_WITHIN

    @property
    def inherited(self) -> bool:
        """Whether the record is another one's: who leads has not looked at the fleet yet."""
        return bool(self.holder) and self.record is not None and self.record.by != self.holder

    @property
    def breakers(self) -> Mapping[str, Opened]:
        """The open breakers of the leader, by stack; those of a leader before it are gone with their process."""
        return self.record.breakers if self.record is not None and self.record.by == self.holder else {}

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def read(answer: Json | Raw) -> LeaseStatus:
    """Read a Lease, and the record on it. Raises MalformedObjectError where it is no Lease at all."""
    lease = decoding.read(wire.Lease, answer)
    spec, said = lease.spec or wire.Lease.Spec(), lease.metadata.noted.following
    record, problem = None, "" if said else "it does not say yet what it follows"
    try:
        record = ControllerStatus.decode(said) if said else None
    except MalformedObjectError as error:
        problem = f"its record cannot be read: {error}"
    renewal = spec.renew_time.isoformat() if spec.renew_time is not None else ""
    where = (lease.metadata.namespace, lease.metadata.name)
    return LeaseStatus(*where, spec.holder_identity or "", decoding.moment(spec.renew_time), renewal, record, problem)


def led(api: Api, namespace: str, name: str, seconds: float) -> LeaseStatus | None:
    """Read one Lease; None where there is none. Raises ClusterError and MalformedObjectError."""
    try:
        return read(api.send(Request("get", LEASES, namespace, name), seconds))
    except NotFoundError:
        return None


def find(api: Api, namespaces: Sequence[str], seconds: float) -> list[LeaseStatus]:
    """Find the Leases of followers by their label. Raises ClusterError."""
    labels = ",".join(f"{key}={value}" for key, value in names.OWN_LABELS.items())
    found: list[LeaseStatus] = []
    for namespace in namespaces or ("",):
        _meta, leases = api.list_page(ListOptions(LEASES, namespace, labels).page(), seconds)
        found += [_readable(lease) for lease in leases]
    return found


def _readable(lease: Raw) -> LeaseStatus:
    try:
        return read(lease)
    except MalformedObjectError as error:
        return LeaseStatus("", "?", problem=f"it cannot be read: {error}")


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
        self._written: ControllerStatus | None = None
        self._written_at = self._tried_at = float("-inf")

    def keep(self, now: ControllerStatus) -> bool:
        """Write the status if that is due. Return whether the Lease has an equivalent status."""
        if time.monotonic() >= self._due(now) and self._write(now):
            self._written, self._written_at = now, time.monotonic()
        return self._tells(now)

    def _due(self, now: ControllerStatus) -> float:
        """Return when a status is due to be written, by the monotonic clock."""
        again = self._tried_at + RETRY_SECONDS
        before = self._written
        if before is None or (before.epochs, before.breakers) != (now.epochs, now.breakers):
            return again
        return max(again, self._written_at + (LOOK_SECONDS if self._tells(now) else WRITE_SECONDS))

    def _tells(self, now: ControllerStatus) -> bool:
        before = self._written
        return before is not None and replace(now, last_look=before.last_look, about=before.about) == before

    def _write(self, now: ControllerStatus) -> bool:
        """Write the annotation. After an error, the next reconcile writes it again."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate({names.STATUS_ANNOTATION: now.encode()})
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True
