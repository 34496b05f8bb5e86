"""Who of several followers acts: the one that holds the Lease.

How a leader is chosen is the client library's (``kubernetes.leaderelection``, the algorithm of client-go); the lock
that it uses is ours (``leaselock``).

What that library leaves to its user is here: requests end in time, clocks that are set do not matter, the Lease is
given back at the end, and nothing is written unless it was renewed a moment ago.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection

from hook.cluster.leaselock import Lock
from hook.cluster.requests import LEASES
from hook.core import names
from hook.errors import ConflictError, LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.cluster.api import Api
    from hook.cluster.leaselock import Terms
    from hook.cluster.requests import Request

LEASE_SECONDS: Final = 15
RENEW_SECONDS: Final = 10
RETRY_SECONDS: Final = 2
"""As every controller of Kubernetes itself has them (K8S ``component-base/config/options``): a leader that is gone is
replaced after 15 s, one that cannot renew for 10 s gives up, and five seconds are between the two."""
REQUEST_SECONDS: Final = RENEW_SECONDS / 2
"""As client-go: one request that hangs must not use up the time of two."""
ANNOTATE_TRIES: Final = 8
"""For one annotation. Each renewal of ours that comes in between is a conflict, and a busy machine may let several of
them come in between."""
RELEASE_SECONDS: Final = 1.0
"""Giving back is a courtesy; whoever stops us waits for our end."""


class Lease:
    """One follower's hold on the Lease. A thread of its own acquires and renews it."""

    def __init__(self, api: Api, terms: Terms, tried: Callable[[str], None] = lambda _trouble: None) -> None:
        self.terms, self._tried = terms, tried
        self._lock = Lock(api, terms, REQUEST_SECONDS)
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
        """Write annotations, and the label by which the Lease is found. Raises ClusterError.

        A conflict means that our own renewal came in between, or another annotation. The write is tried again on what
        is there then, while the Lease is ours, and at most for as long as the renew deadline.
        """
        metadata = {"annotations": dict(annotations), "labels": names.OWN_LABELS}
        end = time.monotonic() + RENEW_SECONDS
        for tries in range(1, ANNOTATE_TRIES + 1):
            self.check()
            try:
                self._lock.patch(metadata)
            except ConflictError:
                if tries == ANNOTATE_TRIES or time.monotonic() >= end:
                    raise
                self._lock.refresh()
            else:
                return

    def release(self) -> None:
        """Give it back, so that the next one need not wait until it expires; in a moment or not at all."""
        if not self._thread.is_alive() or self._over.is_set():
            return
        self._over.set()
        self._lock.closed = True
        if self._lock.holder in ("", self.terms.identity):
            giving = threading.Thread(target=self._lock.release, args=(RELEASE_SECONDS,), name="release", daemon=True)
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
