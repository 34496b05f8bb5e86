"""Who of several followers acts: the one that holds the Lease.

How a leader is chosen is the client library's (``kubernetes.leaderelection``, the algorithm of client-go). Its own
lock needs typed models, which this program does without, so the lock is ours: the same object, as raw JSON.

What that library leaves to its user is here: requests end in time, clocks that are set do not matter, the Lease is
given back at the end, and nothing is written unless it was renewed a moment ago.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord

from hook.cluster.requests import LEASES, Request
from hook.core import names
from hook.core.fields import MalformedObjectError, mapping, number, text
from hook.errors import ClusterError, ConflictError, LeaseLostError, NotFoundError, RejectedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.cluster.api import Api
    from hook.core.fields import Json

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15
RENEW_SECONDS: Final = 10
RETRY_SECONDS: Final = 2
"""As every controller of Kubernetes itself has them (K8S ``component-base/config/options``): a leader that is gone is
replaced after 15 s, one that cannot renew for 10 s gives up, and five seconds are between the two."""
REQUEST_SECONDS: Final = RENEW_SECONDS / 2
"""As client-go: one request that hangs must not use up the time of two."""
RELEASE_SECONDS: Final = 1.0
"""Giving back is a courtesy; whoever stops us waits for our end."""
MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Terms:
    """Which Lease, and who wants it."""

    namespace: str
    name: str
    identity: str
    """Of this process alone: two with the same one would both lead."""


class Lease:
    """One follower's hold on the Lease. A thread of its own acquires and renews it."""

    def __init__(self, api: Api, terms: Terms, tried: Callable[[str], None] = lambda _trouble: None) -> None:
        self._api, self.terms, self._tried = api, terms, tried
        self._lock = Lock(api, terms)
        self._over = threading.Event()
        self._moved = threading.Condition()
        config = Config(self._lock, LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, self._note, self._over.set)
        self._thread = threading.Thread(target=self._run, args=(config,), name="lease", daemon=True)

    def start(self) -> None:
        """Begin to try for it, and to renew it once it is held."""
        self._thread.start()

    @property
    def leading(self) -> bool:
        """It is ours and was renewed within the renew deadline, so nobody else can hold it."""
        ours = self._lock.holder == self.terms.identity and self._lock.age < RENEW_SECONDS
        return ours and not self._over.is_set()

    @property
    def age(self) -> float:
        """Seconds since it was last renewed."""
        return self._lock.age

    @property
    def ended(self) -> bool:
        """It was held and is lost, or was given back; this process does not try again."""
        return self._over.is_set()

    @property
    def answered(self) -> float:
        """When the API server last answered for the Lease, by the monotonic clock."""
        return self._lock.answered

    @property
    def trouble(self) -> str:
        """Why the last try failed; empty if somebody else just holds it, or we do."""
        return self._lock.trouble

    @property
    def holder(self) -> str:
        """Who holds it, as it was last read."""
        return self._lock.holder

    @property
    def annotations(self) -> Mapping[str, str]:
        """What else it says, as it was last read."""
        return self._lock.annotations

    def wait(self, seconds: float) -> None:
        """Wait until something came of a try, at most so long."""
        with self._moved:
            self._moved.wait(seconds)

    def check(self) -> None:
        """Raise LeaseLostError unless we hold it for sure."""
        if not self.leading:
            raise LeaseLostError(f"the Lease {self.terms.namespace}/{self.terms.name} {self._lock.loss}")

    def permit(self, request: Request) -> None:
        """Let nothing be written by whoever does not lead; but for the Lease itself, whose version decides."""
        if request.resource != LEASES:
            self.check()

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Write annotations, and the label by which the Lease is found. Raises ClusterError."""
        self.check()
        metadata = {"annotations": dict(annotations), "labels": names.OWN_LABELS}
        try:
            self._lock.patch(metadata)
        except ConflictError:
            # Our own renewal came in between, or somebody who annotates.
            self._lock.refresh()
            self.check()
            self._lock.patch(metadata)

    def release(self) -> None:
        """Give it back, so that the next one need not wait until it expires; in a moment or not at all."""
        if not self._thread.is_alive() or self._over.is_set():
            return
        self._over.set()
        self._lock.closed = True
        if self._lock.holder in ("", self.terms.identity):
            giving = threading.Thread(target=self._lock.release, name="release", daemon=True)
            giving.start()
            giving.join(RELEASE_SECONDS)

    def _run(self, config: Config) -> None:
        """Acquire and renew, until it is lost; whatever ends this is a loss."""
        try:
            _Election(config, self._note_try).run()
        finally:
            self._over.set()
            self._note()

    def _note_try(self) -> None:
        self._tried(self._lock.trouble)
        self._note()

    def _note(self) -> None:
        with self._moved:
            self._moved.notify_all()


class _Election(LeaderElection):
    """The library's algorithm, by a clock that nobody sets."""

    def __init__(self, config: Config, tried: Callable[[], None]) -> None:
        super().__init__(config)
        self._tried = tried
        self._offset = time.time() - time.monotonic()

    def try_acquire_or_renew(self) -> bool:
        """Try once. A clock that was set since moves what was observed along with it, so that no lease expires."""
        offset = time.time() - time.monotonic()
        self.observed_time_milliseconds += int((offset - self._offset) * 1000)
        self._offset = offset
        try:
            return bool(super().try_acquire_or_renew())
        finally:
            self._tried()


class Lock:
    """The Lease object, as ``kubernetes.leaderelection`` wants a lock to be: it gets, creates and updates."""

    def __init__(self, api: Api, terms: Terms) -> None:
        self._api, self._terms = api, terms
        self.name, self.namespace, self.identity = terms.name, terms.namespace, terms.identity
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
            self._judged = text(lease, "metadata", "resourceVersion")
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

    def patch(self, metadata: dict[str, Any], seconds: float = REQUEST_SECONDS, **more: Any) -> None:  # noqa: ANN401
        """Change something of it, if it still is as it was when we were last seen to hold it. Raises ClusterError."""
        body = {"metadata": {**metadata, "resourceVersion": self._ours}, **more}
        self._keep(self._send("patch", body, seconds))

    def refresh(self) -> None:
        """Read it again; it may change hands meanwhile. Raises ClusterError."""
        if self._keep(self._send("get")) != self.identity:
            raise LeaseLostError(f"the Lease {self.namespace}/{self.name} {self.loss}")

    def release(self) -> None:
        """Leave it without a holder, unless somebody else has it by now; a renewal of ours may be on its way."""
        now = _stamp(datetime.now(UTC))
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        for _try in range(2):
            try:
                if self._keep(self._send("get", seconds=RELEASE_SECONDS)) == self.identity:
                    self.patch({}, RELEASE_SECONDS, spec=spec)
            except ConflictError:
                continue
            except (ClusterError, MalformedObjectError) as error:
                log.debug("the Lease was not given back: %s", error)
            return

    def _take(self, verb: str, body: dict[str, Any], record: LeaderElectionRecord) -> bool:
        if self.closed:
            return False
        asked = time.monotonic()
        try:
            self._keep(self._send(verb, {**body, "spec": _spec(record)}))
        except (ClusterError, MalformedObjectError) as error:
            self.trouble = str(error)
            return False
        # Counted from before the request: whoever reads it later waits longer, not shorter.
        self._renewed, self.trouble = asked, ""
        return True

    def _send(self, verb: str, body: dict[str, Any] | None = None, seconds: float = REQUEST_SECONDS) -> Json:
        if body is not None and verb == "create":
            body = {"apiVersion": f"{LEASES.group}/{LEASES.version}", "kind": LEASES.kind, **body}
        kind = MERGE if verb == "patch" else "application/json"
        name = "" if verb == "create" else self.name
        request = Request(verb, LEASES, self.namespace, name, body=body, content_type=kind)
        try:
            answer = self._api.send(request, seconds)
        except UnreachableError:
            raise
        except ClusterError:
            # A refusal is an answer, too.
            self.answered = time.monotonic()
            raise
        self.answered = time.monotonic()
        return answer

    def _read(self, lease: Json) -> LeaderElectionRecord:
        holder = self._keep(lease)
        seconds = number(lease, "spec", "leaseDurationSeconds")
        acquired, renewed = (_local(text(lease, "spec", field)) for field in ("acquireTime", "renewTime"))
        return LeaderElectionRecord(holder or None, str(seconds) if seconds else None, acquired, renewed)

    def _keep(self, lease: Json) -> str:
        """Note what it says, whichever thread read it. Gives its holder."""
        holder, version = text(lease, "spec", "holderIdentity"), text(lease, "metadata", "resourceVersion")
        self.holder = holder
        found = mapping(lease, "metadata", "annotations")
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
