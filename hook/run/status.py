"""Status of the controller in an annotation of its Lease: its content, its writer and its reader.

A Job in delegate mode compares the spec hashes. ``status`` shows the rest. A new leader reads nothing of it. Any
account that may write the Lease may write any text there, so known fields are read strictly and within limits. Unknown
fields are ignored: after a rollback, an older program reads the status of a newer one.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec.structs import force_setattr, replace

from hook.decide import done
from hook.decide.result import except_verified
from hook.errors import ClusterError, NotFoundError
from hook.kube.requests import LEASES, ListOptions, Request
from hook.objects import decoding, names, wire
from hook.objects.decoding import Count, MalformedObjectError, Text, Time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.decide.decide import Memories
    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision
    from hook.decide.workloads import Affected
    from hook.kube.client import Api
    from hook.kube.election import LeaderElector
    from hook.kube.informer import OutOfSync
    from hook.objects.decoding import Json, Raw

log = logging.getLogger(__name__)

LONGEST: Final = 8192
"""Longest status that is read, in characters. This program writes a few hundred."""
LONGEST_ETA: Final = 365 * 24 * 3600
"""Longest remaining time, in seconds: one year."""
HASH_DIGITS: Final = 16
"""Hexadecimal digits of a spec hash: enough to distinguish all specs that a cluster ever has."""
SpecHash = Annotated[str, msgspec.Meta(pattern=rf"\A([0-9a-f]{{{HASH_DIGITS}}})?\Z")]


class ControllerStatus(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Status of the controller. Times are in whole seconds."""

    version: Literal[1] = 1
    """Version of the format. New fields keep the version. A changed meaning of a field needs a new one."""
    spec_hashes: dict[str, SpecHash] = msgspec.field(default_factory=dict)
    """Spec hash that the controller has observed, by driver. Empty while the spec is not rendered."""
    remaining: Count = 0
    """Nodes that are neither verified nor excluded."""
    eta_seconds: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_ETA)] | None = None
    """Estimated time for the remaining nodes. None if unknown."""
    restarted: Count = 0
    """Plugins that this leader has restarted."""
    observed_at: Time | None = None
    last_restart_at: Time | None = None
    writer: Text = ""
    """Identity of the writer. A new leader finds the status of the previous one, but has not read the fleet itself."""

    def __post_init__(self) -> None:
        """Cut times to whole seconds."""
        for name in ("observed_at", "last_restart_at"):
            force_setattr(self, name, decoding.moment(getattr(self, name)))

    def encode(self) -> str:
        """Return the status as one line of JSON. Equal statuses have equal text."""
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def decode(cls, text: str) -> ControllerStatus:
        """Return the status from its JSON text. Raises MalformedObjectError if a known field is invalid."""
        if len(text) > LONGEST:
            raise MalformedObjectError(f"{len(text)} characters, expected at most {LONGEST}")
        return decoding.read(cls, text.encode())


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Result of one reconcile of the leader. Lease status, metrics, health, log and Events derive from it."""

    decision: Decision
    memories: Memories
    now: datetime
    """Time of the reconcile, by the API server's clock."""
    lost: OutOfSync | None = None
    restarted: int = 0
    """Plugins that this leader has restarted."""
    last_restart_at: datetime | None = None
    spec_hashes: Mapping[str, str] = field(default_factory=dict)
    eta: int | None = None
    """Estimated seconds for the remaining nodes. None if unknown."""
    affected: Affected | None = None
    """Pods that may hold files of an old driver. None before the fleet is read."""

    def status(self, writer: str) -> ControllerStatus:
        """Return what the Lease shows."""
        return ControllerStatus(
            spec_hashes=dict(self.spec_hashes),
            remaining=remaining(self.decision),
            eta_seconds=min(self.eta, LONGEST_ETA) if self.eta is not None else None,
            restarted=self.restarted,
            observed_at=self.now,
            last_restart_at=self.last_restart_at,
            writer=writer,
        )


def spec_hash(fleet: Fleet) -> str:
    """Return the spec hash of a driver, or "" while they are not rendered or a relevant object is malformed.

    Two processes that read the same policy and driver revisions get the same hash.
    """
    if fleet.policy is None or done.blind_to_intent(fleet.context) or done.not_rendered(fleet) is not None:
        return ""
    # The controller may still have pools in its cache that the policy no longer uses. A new Job does not read them.
    pools = fleet.snapshot.pools if fleet.policy.pooled else ()
    intents = (fleet.policy, *sorted(pools, key=lambda pool: pool.uid))
    context = fleet.context
    newest = sorted((uid, each.hash, each.revision) for uid, each in context.newest.items() if uid in context.drivers)
    spec = json.dumps([[(intent.uid, intent.generation) for intent in intents], newest])
    return sha256(spec.encode()).hexdigest()[:HASH_DIGITS]


def remaining(decision: Decision) -> int:
    """Return the number of nodes that are neither verified nor excluded. Failed nodes count."""
    return len({status.node for status in except_verified(decision.statuses) if status.state not in done.TERMINAL})


ALIVE_WITHIN: Final = timedelta(seconds=20)
"""A leader renews every two seconds and loses its Lease after 15; clocks may differ by the rest."""


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """Lease of a controller, as another process reads it."""

    namespace: str
    name: str
    holder: str = ""
    """Empty: no leader."""
    renewed: datetime | None = None
    renewal: str = ""
    """The same time as text, to the microsecond. A change proves that the leader is active; clocks are not compared."""
    status: ControllerStatus | None = None
    problem: str = ""
    """Why there is no status."""

    def alive(self, now: datetime) -> bool:
        """Return whether the controller has a leader, as far as a single read can show."""
        return bool(self.holder) and self.renewed is not None and abs(now - self.renewed) <= ALIVE_WITHIN

    @property
    def outdated(self) -> bool:
        """Return whether a previous leader wrote the status: the current one has not read the fleet yet."""
        return bool(self.holder) and self.status is not None and self.status.writer != self.holder

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def lease_status(answer: Json | Raw) -> LeaseStatus:
    """Return the content of a Lease, with the status in its annotation. Raises MalformedObjectError."""
    lease = decoding.read(wire.Lease, answer)
    spec, text = lease.spec or wire.Lease.Spec(), lease.metadata.noted.status
    status, problem = None, "" if text else "it has not written a status yet"
    try:
        status = ControllerStatus.decode(text) if text else None
    except MalformedObjectError as error:
        problem = f"its status cannot be read: {error}"
    renewal = spec.renew_time.isoformat() if spec.renew_time is not None else ""
    where = (lease.metadata.namespace, lease.metadata.name)
    return LeaseStatus(*where, spec.holder_identity or "", decoding.moment(spec.renew_time), renewal, status, problem)


def get_lease(api: Api, namespace: str, name: str, seconds: float) -> LeaseStatus | None:
    """Read one Lease; return None if it does not exist. Raises ClusterError and MalformedObjectError."""
    try:
        return lease_status(api.send(Request("get", LEASES, namespace, name), seconds))
    except NotFoundError:
        return None


def list_leases(api: Api, seconds: float) -> list[LeaseStatus]:
    """List the Leases of controllers by their label. Raises ClusterError."""
    labels = ",".join(f"{key}={value}" for key, value in names.OWN_LABELS.items())
    _meta, leases = api.list_page(ListOptions(LEASES, labels=labels).page(), seconds)
    return [_readable(lease) for lease in leases]


def _readable(lease: Raw) -> LeaseStatus:
    try:
        return lease_status(lease)
    except MalformedObjectError as error:
        return LeaseStatus("", "?", problem=f"it cannot be read: {error}")


WRITE_SECONDS: Final = 5.0
"""Time between two writes. During an upgrade, the status changes all the time."""
UNCHANGED_SECONDS: Final = 30.0
"""Time between two writes if only the time of the last reconcile, or the estimated time, changed."""
RETRY_SECONDS: Final = 1.0
"""Time between two attempts to write."""


class StatusWriter:
    """Writes the status annotation of one leader. Its first status replaces that of the previous leader."""

    def __init__(self, lease: LeaderElector) -> None:
        self._lease = lease
        self._written: ControllerStatus | None = None
        self._written_at = self._tried_at = float("-inf")

    def write(self, status: ControllerStatus) -> bool:
        """Write the status if that is due. Return whether the Lease has an equivalent status."""
        if time.monotonic() >= self._due(status) and self._annotate(status):
            self._written, self._written_at = status, time.monotonic()
        return self._equivalent(status)

    def _due(self, status: ControllerStatus) -> float:
        """Return when a status is due to be written, by the monotonic clock."""
        again = self._tried_at + RETRY_SECONDS
        last = self._written
        if last is None or last.spec_hashes != status.spec_hashes:
            return again
        return max(again, self._written_at + (UNCHANGED_SECONDS if self._equivalent(status) else WRITE_SECONDS))

    def _equivalent(self, status: ControllerStatus) -> bool:
        last = self._written
        return last is not None and last == replace(status, observed_at=last.observed_at, eta_seconds=last.eta_seconds)

    def _annotate(self, status: ControllerStatus) -> bool:
        """Write the annotation. After an error, the next reconcile writes it again."""
        self._tried_at = time.monotonic()
        try:
            self._lease.annotate({names.STATUS_ANNOTATION: status.encode()})
        except ClusterError as error:
            log.debug("cannot write to the Lease, trying again: %s", error)
            return False
        return True
