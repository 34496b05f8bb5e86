"""The Lease as an object: what the client library's election reads, creates and updates.

Its own lock needs typed models, which this program does without, so the lock is ours: the same object, as raw JSON.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord

from hook.cluster.requests import LEASES, Request
from hook.core import names
from hook.errors import ClusterError, ConflictError, LeaseLostError, NotFoundError, RejectedError, UnreachableError
from hook.objects import decoding
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.cluster.api import Api
    from hook.objects.decoding import Json

log = logging.getLogger(__name__)

MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Terms:
    """Which Lease, and who wants it."""

    namespace: str
    name: str
    identity: str
    """Of this process alone: two with the same one would both lead."""


class Lock:
    """The Lease object, as ``kubernetes.leaderelection`` wants a lock to be: it gets, creates and updates."""

    def __init__(self, api: Api, terms: Terms, seconds: float) -> None:
        self._api = api
        self.name, self.namespace, self.identity = terms.name, terms.namespace, terms.identity
        self._seconds = seconds
        """So long may one request take."""
        self.closed = False
        """Nothing is acquired or renewed any more."""
        self.holder = self.trouble = ""
        self.annotations: Mapping[str, str] = {}
        self.answered = time.monotonic()
        self._renewed = float("-inf")
        self._judged = ""
        """The version upon which the election decides: of what its own last read gave, and of nothing later."""
        self._ours = ""
        """The version of the last object that had us as its holder. What another one holds is never written over."""

    @property
    def age(self) -> float:
        """Seconds since the last renewal was asked for that succeeded; endless without one."""
        return time.monotonic() - self._renewed

    @property
    def loss(self) -> str:
        """Say how it was lost."""
        why = f": {self.trouble}" if self.trouble else ""
        return f"is held by {self.holder}" if self.holder != self.identity else f"was not renewed in time{why}"

    def get(self, _name: str, _namespace: str) -> tuple[bool, LeaderElectionRecord | _Failure]:
        """Read it: the record, or why there is none."""
        try:
            lease = self._send("get")
            record = self._read(lease)
            self._judged = _text(lease, "metadata", "resourceVersion")
        except NotFoundError as error:
            return False, _Failure(str(error), json.dumps({"code": 404}))
        except (ClusterError, MalformedObjectError) as error:
            self.trouble = str(error)
            return False, _Failure(self.trouble)
        self.trouble = ""
        return True, record

    def create(self, *, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        """Make it, with us as its holder."""
        metadata = {"name": name, "namespace": namespace, "labels": names.OWN_LABELS}
        return self._take("create", {"metadata": metadata}, election_record)

    def update(self, _name: str, _namespace: str, record: LeaderElectionRecord) -> bool:
        """Take or renew it, if it still is as it was read."""
        return self._take("patch", {"metadata": {"resourceVersion": self._judged}}, record)

    def patch(self, metadata: dict[str, Any], **more: Any) -> None:  # noqa: ANN401
        """Change something of it, if it still is as it was when we were last seen to hold it. Raises ClusterError."""
        body = {"metadata": {**metadata, "resourceVersion": self._ours}, **more}
        self._keep(self._send("patch", body))

    def refresh(self) -> None:
        """Read it again; it may change hands meanwhile. Raises ClusterError."""
        if self._keep(self._send("get")) != self.identity:
            raise LeaseLostError(f"the Lease {self.namespace}/{self.name} {self.loss}")

    def release(self, seconds: float) -> None:
        """Leave it without a holder, unless somebody else has it by now; a renewal of ours may be on its way."""
        self._seconds = seconds
        now = _stamp(self._api.now())
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        for _try in range(2):
            try:
                if self._keep(self._send("get")) == self.identity:
                    self.patch({}, spec=spec)
            except ConflictError:
                continue
            except (ClusterError, MalformedObjectError) as error:
                log.debug("the Lease was not given back: %s", error)
            return

    def _take(self, verb: str, body: dict[str, Any], record: LeaderElectionRecord) -> bool:
        if self.closed:
            return False
        self._date(record)
        asked = time.monotonic()
        try:
            self._keep(self._send(verb, {**body, "spec": _spec(record)}))
        except (ClusterError, MalformedObjectError) as error:
            self.trouble = str(error)
            return False
        # Counted from before the request: whoever reads it later waits longer, not shorter.
        self._renewed, self.trouble = asked, ""
        return True

    def _date(self, record: LeaderElectionRecord) -> None:
        """Have it say when by the API server's clock, which whoever reads it has in common with us."""
        now = _local(_stamp(self._api.now()))
        if record.acquire_time == record.renew_time:  # not ours before: a renewal keeps when it was acquired
            record.acquire_time = now
        record.renew_time = now

    def _send(self, verb: str, body: dict[str, Any] | None = None) -> Json:
        if body is not None and verb == "create":
            body = {"apiVersion": f"{LEASES.group}/{LEASES.version}", "kind": LEASES.kind, **body}
        kind = MERGE if verb == "patch" else "application/json"
        name = "" if verb == "create" else self.name
        request = Request(verb, LEASES, self.namespace, name, body=body, content_type=kind)
        try:
            answer = self._api.send(request, self._seconds)
        except UnreachableError:
            raise
        except ClusterError:
            # A refusal is an answer, too.
            self.answered = time.monotonic()
            raise
        self.answered = time.monotonic()
        return answer

    def _read(self, lease: Json) -> LeaderElectionRecord:
        holder, spec = self._keep(lease), decoding.section(lease, "spec")
        seconds = spec.get("leaseDurationSeconds")
        acquired, renewed = (_local(str(spec.get(field) or "")) for field in ("acquireTime", "renewTime"))
        return LeaderElectionRecord(holder or None, str(seconds) if seconds else None, acquired, renewed)

    def _keep(self, lease: Json) -> str:
        """Note what it says, whichever thread read it. Gives its holder."""
        holder, version = _text(lease, "spec", "holderIdentity"), _text(lease, "metadata", "resourceVersion")
        self.holder = holder
        found = decoding.section(decoding.section(lease, "metadata"), "annotations")
        self.annotations = {key: value for key, value in found.items() if key in names.LEASE_ANNOTATIONS}
        if not version:
            raise RejectedError("the Lease has no version")
        if holder == self.identity:
            self._ours = version
        return holder


class _Failure:
    """A failed read, as the library asks about it."""

    def __init__(self, reason: str, body: str = "") -> None:
        self.reason, self.body = reason, body


def _text(lease: Json, section: str, field: str) -> str:
    return decoding.read(decoding.Text, decoding.section(lease, section).get(field) or "")


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    """Give a record as the Lease has it. The library's times are local and have no zone."""
    acquired, renewed = (datetime.fromisoformat(one) for one in (record.acquire_time, record.renew_time))
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": int(record.lease_duration),
        "acquireTime": _stamp(acquired),
        "renewTime": _stamp(renewed),
    }


def _stamp(moment: datetime) -> str:
    """Write a time as ``metav1.MicroTime`` has it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _local(stamp: str) -> str | None:
    """Give a time of the Lease as the library has it, so that what was written compares equal when it is read."""
    try:
        return str(datetime.fromisoformat(stamp).astimezone().replace(tzinfo=None)) if stamp else None
    except (ValueError, OverflowError):
        # Taken for a Lease that nobody filled in; only the API server's own validation could be wrong here.
        return None
