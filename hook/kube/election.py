"""Elect one replica of the controller by a Lease, and fence its writes.

The algorithm is that of client-go's ``tools/leaderelection``, without its optimistic update: each write names the
version that its own thread has just read. Durations are measured on the monotonic clock alone. The times in the Lease
are for readers and are compared with no clock, so setting a clock loses no Lease.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hook.errors import CONFLICT, NO_ANSWER, NOT_FOUND, ApiError, LeaseLostError
from hook.kube.resources import LEASES
from hook.kube.retry import CHANCE
from hook.objects import names
from hook.objects.decoding import section
from hook.objects.stacks import StackName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.kube.client import Api
    from hook.kube.resources import Resource

log = logging.getLogger(__name__)

JITTER_FACTOR: Final = 1.2
"""A replica that waits for the Lease lengthens each pause by up to this share of it, as in client-go."""
RELEASE_SECONDS: Final = 1.0
"""Releasing the Lease is a courtesy, and the kubelet waits for the end of this process."""


@dataclass(frozen=True, slots=True)
class LeaderElectionConfig:
    """Which Lease, which identity wants it, and client-go's durations in seconds.

    The durations are those of Kubernetes' own controllers (K8S ``component-base/config/options``). In the five seconds
    between the first two, a write that the fence let pass comes to its end.
    """

    namespace: str
    name: str
    identity: str
    """Unique to this process: two processes with the same identity would both lead."""
    lease_duration: int = 15
    """A Lease that has not changed for this time may be taken by another replica."""
    renew_deadline: float = 10
    """A leader that has not renewed for this time stops leading."""
    retry_period: float = 2
    stack: StackName = StackName.GPU

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels by which `status` finds the Lease."""
        return {**names.OWN_LABELS, names.OWN_STACK_LABEL: self.stack}


class LeaderElectionRecord(NamedTuple):
    """What a Lease shows of its leader. As long as it stays equal, the leader has not renewed."""

    holder: str
    lease_duration: float
    acquire_time: str
    renew_time: str
    transitions: int


class LeaderElector:
    """Acquires and renews the Lease in a thread of its own, and knows whether it is held."""

    def __init__(
        self,
        api: Api,
        config: LeaderElectionConfig,
        on_try: Callable[[str], None] = lambda _trouble: None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.config = config
        self._api, self._on_try, self._clock = api, on_try, clock or time.monotonic
        self._over, self._acquired = threading.Event(), threading.Event()
        self._sleep = sleep or self._over.wait
        self._thread = threading.Thread(target=self.run, name="election", daemon=True)
        self.holder = ""
        """The identity that holds the Lease, as last read; empty if none does."""
        self.trouble: ApiError | None = None
        """Why the last try failed; None if it succeeded, or if another replica just holds the Lease."""
        self.answered = self._clock()
        """When the API server last answered for the Lease, on the monotonic clock."""
        self._observed: LeaderElectionRecord | None = None
        self._observed_at = self._renewed_at = float("-inf")
        """When the observed record was first read; when the last successful renewal was sent. A standby replica counts
        from later, so it waits longer."""

    @property
    def leading(self) -> bool:
        """Return whether the Lease is held for certain: no other replica can have taken it yet."""
        renewed = self._clock() - self._renewed_at < self.config.renew_deadline
        return renewed and self.holder == self.config.identity and not self.ended

    @property
    def ended(self) -> bool:
        """Return whether the Lease was lost or released; this process does not try again."""
        return self._over.is_set()

    @property
    def remaining(self) -> float:
        """Return the seconds until another replica can take the Lease."""
        return self._renewed_at + self.config.lease_duration - self._clock()

    def check(self) -> None:
        """Raise LeaseLostError unless the Lease is held for certain."""
        if self.leading:
            return
        why = f"was not renewed in time{f': {self.trouble}' if self.trouble else ''}"
        if self.holder not in ("", self.config.identity):
            why = f"is held by {self.holder}"
        raise LeaseLostError(f"the Lease {self.config.namespace}/{self.config.name} {why}")

    def fence(self, resource: Resource) -> None:
        """Let no write pass without the Lease, except those to the Lease itself, which name a version."""
        if resource.plural != LEASES.plural:
            self.check()

    def start(self) -> None:
        """Begin to acquire and renew."""
        self._thread.start()

    def await_lease(self, seconds: float) -> None:
        """Wait until the Lease is acquired or the election ends, at most `seconds`."""
        self._acquired.wait(seconds)

    def run(self) -> None:
        """Acquire the Lease, then renew it until it is lost or released."""
        try:
            while not self.ended and not self._try():
                self._sleep(self.config.retry_period * (1 + JITTER_FACTOR * CHANCE.random()))
            self._acquired.set()
            while self.leading:
                self._try()
                self._sleep(self.config.retry_period)
        finally:
            self._over.set()
            self._acquired.set()

    def release(self) -> None:
        """Clear the holder, so that the next replica need not wait until the Lease expires; in a second or not at all.

        It ends the election: nothing is acquired or renewed any more.
        """
        if self.ended:
            return  # A Lease that was lost must expire: a write may still be on its way.
        self._over.set()
        self._acquired.set()
        if self.holder not in ("", self.config.identity):
            return
        end = time.monotonic() + RELEASE_SECONDS
        while (left := end - time.monotonic()) > 0:
            try:
                found, version = self._send("get", seconds=left)
                if found.holder == self.config.identity:
                    now = self._now()
                    spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
                    self._send("patch", {"metadata": {"resourceVersion": version}, "spec": spec}, left)
            except ApiError as error:
                if error.status == CONFLICT:
                    continue  # A renewal was on its way. It was the last one.
                log.debug("the Lease was not released: %s", error)
            return

    def _try(self) -> bool:
        trouble, succeeded = None, False
        try:
            succeeded = self._try_acquire_or_renew()
        except ApiError as error:
            trouble = error
        self.trouble = trouble
        self._on_try(str(trouble or ""))
        return succeeded

    def _try_acquire_or_renew(self) -> bool:
        """Return whether this replica has the Lease now, renewed. Raises ApiError."""
        try:
            found, version = self._send("get")
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            metadata = {"name": self.config.name, "namespace": self.config.namespace, "labels": self.config.labels}
            return self._renew("create", metadata, transitions=0)
        if found != self._observed:
            self._observed, self._observed_at = found, self._clock()
        metadata = {"resourceVersion": version}
        if found.holder == self.config.identity:
            return self._renew("patch", metadata)
        if found.holder and self._clock() - self._observed_at < found.lease_duration:
            return False
        return self._renew("patch", {**metadata, "labels": self.config.labels}, transitions=found.transitions + 1)

    def _renew(self, verb: str, metadata: Mapping[str, Any], transitions: int | None = None) -> bool:
        """Write a renewal. With `transitions` it is also an acquisition."""
        if self.ended:
            return False
        sent, now = self._clock(), self._now()
        spec: dict[str, Any] = {"holderIdentity": self.config.identity, "renewTime": now}
        spec["leaseDurationSeconds"] = self.config.lease_duration
        if transitions is not None:
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        self._send(verb, {"metadata": metadata, "spec": spec})
        self._renewed_at = sent
        return True

    def _now(self) -> str:
        """Return the time as ``metav1.MicroTime``."""
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _send(
        self, verb: str, body: Mapping[str, Any] | None = None, seconds: float | None = None
    ) -> tuple[LeaderElectionRecord, str]:
        """Send a request. Return what the answer shows, with its version, and note it, whichever thread asked."""
        name = self.config.name
        if verb == "create":
            name, body = "", {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **(body or {})}
        try:
            answer = self._api.send(verb, LEASES.select(self.config.namespace), name, body, seconds or self._timeout())
        except ApiError as error:
            if not error.unreachable and error.status != NO_ANSWER:  # A refusal is an answer, too.
                self.answered = self._clock()
            raise
        self.answered = self._clock()
        spec = section(answer, "spec")
        record = LeaderElectionRecord(
            holder=spec.get("holderIdentity") or "",
            lease_duration=spec.get("leaseDurationSeconds") or 0,
            acquire_time=spec.get("acquireTime") or "",
            renew_time=spec.get("renewTime") or "",
            transitions=spec.get("leaseTransitions") or 0,
        )
        version = section(answer, "metadata").get("resourceVersion")
        if not version:
            raise ApiError(NO_ANSWER, "the Lease has no resourceVersion")
        self.holder = record.holder
        return record, version

    def _timeout(self) -> float:
        """Return the seconds for one request. One that hangs leaves time for another, and none outlasts the Lease."""
        half = self.config.renew_deadline / 2
        left = self._renewed_at + self.config.renew_deadline - self._clock()
        return min(half, left) if self.leading else half
