"""Retry policy: for how long a failed request to the API server is tried again, and how long to wait in between."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import tenacity

from hook.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

FIRST_WAIT_SECONDS: Final = 0.2
"""Backoff after the first failure."""
LONGEST_WAIT_SECONDS: Final = 10.0
"""Longest backoff. A control plane restarts within a minute, and the program must notice that soon."""
JITTER_SECONDS: Final = 0.5
"""Random part of a wait. Watches that break at the same time must not all reconnect at the same time."""
CHANCE: Final = random.Random()  # noqa: S311 - jitter, not a secret
"""A generator of its own, so that a waiting thread does not advance the one of the whole process."""
FOREVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Patience:
    """Time for which a request is tried again, in seconds."""

    unreachable: float
    """While the API server does not answer, or is overloaded."""
    denied: float = 15.0
    """After a 401 or 403: credentials are rotated, and new RBAC objects take a moment to reach every API server."""

    @property
    def synced(self) -> Patience:
        """Return the patience once everything was read: an outage is outlasted until the deadline of the run."""
        return replace(self, unreachable=FOREVER)

    def seconds(self, error: ApiError) -> float:
        """Return for how long an error is tried again; zero means not at all."""
        if not error.transient:
            return 0.0
        return self.denied if error.denied else self.unreachable


CONTROLLER: Final = Patience(FOREVER, FOREVER)
"""A controller tries again without end. It restarts nothing and reports that meanwhile."""
WRITE: Final = Patience(5.0)
"""One write, or one page of the read that confirms an end. If it fails for longer, a new decision follows."""
NO_RETRY: Final = Patience(0.0, 0.0)
"""What ``status`` shows besides the nodes. The user waits for it, and may lack the permission."""


def interactive(seconds: float) -> Patience:
    """Return the patience of ``status`` and ``plan``: the user waits at a terminal."""
    return Patience(seconds, seconds / 4)


def backoff(failures: int) -> float:
    """Return the wait after consecutive failures: exponential, with jitter."""
    longest_power = 10  # beyond the longest wait, and no overflow after a night of failures
    wait = FIRST_WAIT_SECONDS * 2.0 ** min(failures, longest_power)
    return min(wait, LONGEST_WAIT_SECONDS) + CHANCE.uniform(0, JITTER_SECONDS)


def patiently(
    work: Callable[[], Result],
    patience: Patience,
    end: float = FOREVER,
    sleep: Callable[[float], None] = time.sleep,
    failed: Callable[[ApiError], object] = lambda _error: None,
) -> Result:
    """Call a function until it succeeds, and call `failed` after each failure.

    Raise the last ApiError when the time for its retries is over. No retry begins before the server's Retry-After, nor
    after `end`, by the monotonic clock.
    """
    seconds, since = 0.0, 0.0

    def is_over(state: tenacity.RetryCallState) -> bool:
        """Return whether the next attempt would come too late."""
        nonlocal seconds, since
        error, now = _error_of(state), time.monotonic()
        failed(error)
        if patience.seconds(error) != seconds:
            # The time starts again when the kind of error changes, as from an outage to a refusal.
            seconds, since = patience.seconds(error), now
        next_attempt = now + state.upcoming_sleep
        return next_attempt - since >= seconds or next_attempt > end

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(ApiError),
        wait=lambda state: max(backoff(state.attempt_number - 1), _error_of(state).retry_after),
        stop=is_over,
        sleep=sleep,
        reraise=True,
    )
    return retrying(work)


def _error_of(state: tenacity.RetryCallState) -> ApiError:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, ApiError):
        raise TypeError(error)
    return error
