"""Read what a follower's Lease says: for a Job that hands over to it, and for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.cluster.requests import LEASES, Request, Selection
from hook.core import names
from hook.core.following import Following
from hook.errors import NotFoundError
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.core.following import Opened
    from hook.objects.decoding import Json, Raw

ALIVE_WITHIN: Final = timedelta(seconds=20)
"""A leader renews every two seconds and loses its Lease after 15; clocks may differ by the rest."""


@dataclass(frozen=True, slots=True)
class Led:
    """A follower's Lease, as somebody else reads it."""

    namespace: str
    name: str
    holder: str = ""
    """Empty: nobody leads."""
    renewed: datetime | None = None
    renewal: str = ""
    """The same to the microsecond, as it is written: whether it changed tells life without comparing clocks."""
    record: Following | None = None
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


def read(answer: Json | Raw) -> Led:
    """Read a Lease, and the record on it. Raises MalformedObjectError where it is no Lease at all."""
    lease = decoding.read(wire.Lease, answer)
    spec, said = lease.spec or wire.Lease.Spec(), lease.metadata.noted.following
    record, problem = None, "" if said else "it does not say yet what it follows"
    try:
        record = Following.decode(said) if said else None
    except MalformedObjectError as error:
        problem = f"its record cannot be read: {error}"
    renewal = spec.renew_time.isoformat() if spec.renew_time is not None else ""
    where = (lease.metadata.namespace, lease.metadata.name)
    return Led(*where, spec.holder_identity or "", decoding.moment(spec.renew_time), renewal, record, problem)


def led(api: Api, namespace: str, name: str, seconds: float) -> Led | None:
    """Read one Lease; None where there is none. Raises ClusterError and MalformedObjectError."""
    try:
        return read(api.send(Request("get", LEASES, namespace, name), seconds))
    except NotFoundError:
        return None


def find(api: Api, namespaces: Sequence[str], seconds: float) -> list[Led]:
    """Find the Leases of followers by their label. Raises ClusterError."""
    labels = ",".join(f"{key}={value}" for key, value in names.OWN_LABELS.items())
    found: list[Led] = []
    for namespace in namespaces or ("",):
        _meta, leases = api.list_page(Selection(LEASES, namespace, labels).page(), seconds)
        found += [_readable(lease) for lease in leases]
    return found


def _readable(lease: Raw) -> Led:
    try:
        return read(lease)
    except MalformedObjectError as error:
        return Led("", "?", problem=f"it cannot be read: {error}")
