"""Every retry and backoff policy, as values. Nothing else retries, so budgets never multiply."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tenacity

from hook.errors import (
    PermissionDeniedError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_WAIT_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 10.0
"""A control plane that restarts is back within a minute; after it is, we must be quick again."""
JITTER_SECONDS: Final = 0.5
"""Several watches break at the same moment; they must not come back at the same moment."""


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long each kind of trouble is worth another try, in seconds."""

    unreachable: float
    unauthorized: float = 120.0
    """The client re-reads a rotated token within a minute of its change."""
    denied: float = 15.0
    """RBAC objects take a moment to reach every API server."""

    def of(self, error: BaseException | None) -> float:
        """Return for how long an error is worth another try; zero: not at all."""
        if isinstance(error, UnauthorizedError):
            return self.unauthorized
        if isinstance(error, PermissionDeniedError):
            return self.denied
        return self.unreachable if isinstance(error, UnreachableError | ThrottledError) else 0.0


Retrier = tenacity.Retrying
"""Calls a function again while its patience lasts: ``retrier(function, *arguments)``."""

FOREVER: Final = float("inf")
WATCHING: Final = Patience(unreachable=FOREVER)
"""Once a run has seen the cluster it outlives any outage; its own deadline ends it."""
FOLLOWING: Final = Patience(unreachable=FOREVER, unauthorized=FOREVER, denied=FOREVER)
"""Who never ends outlives whatever may pass; while it lasts nothing is restarted, and the follower says so."""


def watching(patience: Patience) -> Patience:
    """Return what a patience becomes once the cluster was seen."""
    return FOLLOWING if patience is FOLLOWING else WATCHING


def starting(seconds: float) -> Patience:
    """Before anything was seen, an unreachable server is reported soon; the Job tries again."""
    return Patience(unreachable=seconds)


def looking(seconds: float) -> Patience:
    """Return up on anything at all after what a person at a terminal waits for."""
    return Patience(unreachable=seconds, unauthorized=seconds, denied=seconds / 4)


WRITING: Final = Patience(unreachable=5.0, unauthorized=30.0, denied=15.0)
"""A write that fails for longer is decided upon anew, from what is there then."""


def retrying(patience: Patience, sleep: Callable[[float], None], end: float = FOREVER) -> tenacity.Retrying:
    """Build a retrier that raises the last error itself once its patience is at an end.

    But for the first one, no try begins after `end`, by the monotonic clock.
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
    """Wait as long as the server asks, else exponentially with jitter."""
    error = state.outcome.exception() if state.outcome else None
    return max(_BACKOFF(state), asked(error))


def asked(error: BaseException | None) -> float:
    """Return the seconds that the server asks to wait; zero where it does not ask."""
    return getattr(error, "retry_after", None) or 0.0


def pause(failures: int) -> float:
    """Return how long to wait after so many failures in a row, for loops that retry by themselves."""
    longest_power = 10  # beyond the longest wait, and no overflow after a night of failures
    wait = FIRST_WAIT_SECONDS * 2.0 ** min(failures, longest_power)
    return min(wait, LONGEST_WAIT_SECONDS) + random.uniform(0, JITTER_SECONDS)  # noqa: S311 - jitter, not a secret


class Failures:
    """Failures in a row of what a loop tries again by itself."""

    def __init__(self) -> None:
        self._kind: type[BaseException] | None = None
        self._since = 0.0

    def exceed(self, patience: Patience, error: BaseException) -> bool:
        """Note a failure; return whether the patience for its kind is at an end."""
        now = time.monotonic()
        if type(error) is not self._kind:
            self._kind, self._since = type(error), now
        return now - self._since >= patience.of(error)


class _StopWhenImpatient:
    """Stop before a wait that ends beyond the patience for this kind of error (as stop_before_delay does).

    Each kind's time counts from its first occurrence in a row: a refusal after an outage is new trouble.
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
