"""Retry policies for requests to the API server."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tenacity

from hook.errors import PermissionDeniedError, ThrottledError, UnauthorizedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_WAIT_SECONDS: Final = 0.2
"""Backoff after the first failure."""
LONGEST_WAIT_SECONDS: Final = 10.0
"""Longest backoff. A control plane restarts within a minute, and the program must notice that soon."""
JITTER_SECONDS: Final = 0.5
"""Random part of a wait. Watches that break at the same time must not all reconnect at the same time."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Time for which each kind of error is retried, in seconds."""

    unreachable: float
    unauthorized: float = 120.0
    """The client reads a rotated token again within a minute."""
    denied: float = 15.0
    """New RBAC objects take a moment to reach every API server."""

    def of(self, error: BaseException | None) -> float:
        """Return for how long an error is retried; zero means not at all."""
        if isinstance(error, UnauthorizedError):
            return self.unauthorized
        if isinstance(error, PermissionDeniedError):
            return self.denied
        return self.unreachable if isinstance(error, UnreachableError | ThrottledError) else 0.0


Retrier = tenacity.Retrying
"""Calls a function and retries it: ``retrier(function, *arguments)``."""

FOREVER: Final = float("inf")
WATCHING: Final = Patience(unreachable=FOREVER)
"""Job with a synced cache: retry until the deadline of the run."""
FOLLOWING: Final = Patience(unreachable=FOREVER, unauthorized=FOREVER, denied=FOREVER)
"""Controller: retry transient errors without end. It restarts nothing and reports that meanwhile."""


def watching(patience: Patience) -> Patience:
    """Return the policy that replaces another one once the cache is synced."""
    return FOLLOWING if patience is FOLLOWING else WATCHING


def starting(seconds: float) -> Patience:
    """Return the policy of a run before its cache is synced. If the server is unreachable, the Job retries the run."""
    return Patience(unreachable=seconds)


def looking(seconds: float) -> Patience:
    """Return the policy of ``status`` and ``plan``: the user waits at a terminal."""
    return Patience(unreachable=seconds, unauthorized=seconds, denied=seconds / 4)


WRITING: Final = Patience(unreachable=5.0, unauthorized=30.0, denied=15.0)
"""Policy of a write. If it fails for longer, a new decision follows."""


def retrying(patience: Patience, sleep: Callable[[float], None], end: float = FOREVER) -> tenacity.Retrying:
    """Return a retrier that raises the last error when its policy ends.

    No retry begins after `end`, by the monotonic clock.
    """
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: patience.of(error) > 0),
        wait=_wait,
        stop=_StopWhenImpatient(patience, end),
        sleep=sleep,
        reraise=True,
    )


_BACKOFF: Final = tenacity.wait_exponential_jitter(
    multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS, jitter=JITTER_SECONDS
)


def _wait(state: tenacity.RetryCallState) -> float:
    """Return the wait before the next attempt: Retry-After, else exponential backoff with jitter."""
    error = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), asked(error))


def asked(error: BaseException | None) -> float:
    """Return the seconds of Retry-After, or zero."""
    return getattr(error, "retry_after", None) or 0.0


def pause(failures: int) -> float:
    """Return the backoff after consecutive failures, for loops that retry themselves."""
    longest_power = 10  # beyond the longest wait, and no overflow after a night of failures
    wait = FIRST_WAIT_SECONDS * 2.0 ** min(failures, longest_power)
    return min(wait, LONGEST_WAIT_SECONDS) + random.uniform(0, JITTER_SECONDS)  # noqa: S311 - jitter, not a secret


class Failures:
    """Consecutive failures of a loop that retries itself."""

    def __init__(self) -> None:
        self._kind: type[BaseException] | None = None
        self._since = 0.0

    def exceed(self, patience: Patience, error: BaseException) -> bool:
        """Record a failure. Return whether the time for retries of its kind is over."""
        now = time.monotonic()
        if type(error) is not self._kind:
            self._kind, self._since = type(error), now
        return now - self._since >= patience.of(error)


class _StopWhenImpatient:
    """Stop condition: the next wait would exceed the time for this kind of error (as stop_before_delay does).

    The time starts again when the kind of error changes, for example from an outage to a refusal.
    """

    def __init__(self, patience: Patience, end: float) -> None:
        self._patience, self._end = patience, end
        self._kind: type[BaseException] | None = None
        self._since = 0.0

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        elapsed = state.seconds_since_start or 0.0
        if state.attempt_number == 1 or type(error) is not self._kind:
            self._kind, self._since = (type(error) if error else None), elapsed
        if time.monotonic() + state.upcoming_sleep > self._end:
            return True
        return elapsed - self._since + state.upcoming_sleep >= self._patience.of(error)
