"""Retry policies: for how long a failed request to the API server is tried again, and how long to wait in between.

Two loops have their own retries: a watch that ends is opened again (informer.py), and the next reconcile asks again for
the version of ResourceSlices (cache.py). They use the policies and the backoff of this module.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tenacity

from hook.errors import UNAUTHORIZED, ApiError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_WAIT_SECONDS: Final = 0.2
"""Backoff after the first failure."""
LONGEST_WAIT_SECONDS: Final = 10.0
"""Longest backoff. A control plane restarts within a minute, and the program must notice that soon."""
JITTER_SECONDS: Final = 0.5
"""Random part of a wait. Watches that break at the same time must not all reconnect at the same time."""
CHANCE: Final = random.Random()  # noqa: S311 - jitter, not a secret
"""A generator of its own, so that a waiting thread does not advance the one of the whole process."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Time for which each kind of error is retried, in seconds."""

    unreachable: float
    unauthorized: float = 120.0
    """The client reads a rotated token again within a minute."""
    denied: float = 15.0
    """New RBAC objects take a moment to reach every API server."""

    def seconds(self, error: BaseException | None) -> float:
        """Return for how long an error is retried; zero means not at all."""
        if not isinstance(error, ApiError) or not error.transient:
            return 0.0
        if isinstance(error, PermissionDeniedError):
            return self.denied
        return self.unauthorized if error.status == UNAUTHORIZED else self.unreachable


FOREVER: Final = float("inf")
JOB: Final = RetryPolicy(unreachable=FOREVER)
"""Job with a synced cache: retry until the deadline of the run."""
CONTROLLER: Final = RetryPolicy(unreachable=FOREVER, unauthorized=FOREVER, denied=FOREVER)
"""Controller: retry transient errors without end. It restarts nothing and reports that meanwhile."""
WRITE: Final = RetryPolicy(unreachable=5.0, unauthorized=30.0)
"""One write, or one request of a consistent read. If it fails for longer, a new decision follows."""


def starting(seconds: float) -> RetryPolicy:
    """Return the policy of a Job before its cache is synced. If the server is unreachable, another pod follows."""
    return RetryPolicy(unreachable=seconds)


def synced(policy: RetryPolicy) -> RetryPolicy:
    """Return the policy that replaces another one once the cache is synced."""
    return CONTROLLER if policy is CONTROLLER else JOB


def interactive(seconds: float) -> RetryPolicy:
    """Return the policy of ``status`` and ``plan``: the user waits at a terminal."""
    return RetryPolicy(unreachable=seconds, unauthorized=seconds, denied=seconds / 4)


Retrier = tenacity.Retrying
"""Calls a function and retries it: ``retrier(function, *arguments)``."""


def retrying(policy: RetryPolicy, sleep: Callable[[float], None], end: float = FOREVER) -> Retrier:
    """Return a retrier that raises the last error when its policy ends.

    No retry begins after `end`, by the monotonic clock.
    """
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: policy.seconds(error) > 0),
        wait=_wait,
        stop=_Stop(policy, end),
        sleep=sleep,
        reraise=True,
    )


def retry_after(error: BaseException | None) -> float:
    """Return the seconds of Retry-After, or zero."""
    return error.retry_after if isinstance(error, ApiError) else 0.0


def backoff(failures: int) -> float:
    """Return the wait after consecutive failures: exponential, with jitter."""
    longest_power = 10  # beyond the longest wait, and no overflow after a night of failures
    wait = FIRST_WAIT_SECONDS * 2.0 ** min(failures, longest_power)
    return min(wait, LONGEST_WAIT_SECONDS) + CHANCE.uniform(0, JITTER_SECONDS)


class Failures:
    """Consecutive failures. Their time starts again when the kind of error changes, as from an outage to a refusal."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._since = 0.0

    def exceed(self, policy: RetryPolicy, error: BaseException | None, wait: float = 0.0) -> bool:
        """Record a failure. Return whether the time for retries of its kind is over after another `wait`."""
        now, seconds = time.monotonic(), policy.seconds(error)
        if seconds != self._seconds:
            self._seconds, self._since = seconds, now
        return now + wait - self._since >= seconds


class _Stop:
    """Stop condition: the next attempt would come too late (as tenacity's ``stop_before_delay``)."""

    def __init__(self, policy: RetryPolicy, end: float) -> None:
        self._policy, self._end = policy, end
        self._failures = Failures()

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        if state.attempt_number == 1:  # the same retrier may call several functions, one after the other
            self._failures = Failures()
        error = state.outcome.exception() if state.outcome else None
        exceeded = self._failures.exceed(self._policy, error, state.upcoming_sleep)
        return exceeded or time.monotonic() + state.upcoming_sleep > self._end


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the wait before the next attempt: at least Retry-After."""
    error = state.outcome.exception() if state.outcome else None
    return max(backoff(state.attempt_number - 1), retry_after(error))
