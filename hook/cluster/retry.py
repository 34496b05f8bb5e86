"""Every retry and backoff policy, as values. Nothing else retries, so budgets never multiply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import tenacity

from hook.errors import (
    ClusterError,
    ConflictError,
    NotFoundError,
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
        """Say for how long an error is worth another try; zero: not at all."""
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


def starting(seconds: float) -> Patience:
    """Before anything was seen, an unreachable server is reported soon; the Job tries again."""
    return Patience(unreachable=seconds)


WRITING: Final = Patience(unreachable=5.0, unauthorized=30.0, denied=15.0)
"""A write that fails for longer is decided upon anew, from what is there then."""
TELLING: Final = Patience(unreachable=2.0, unauthorized=0.0, denied=0.0)
"""Events are for people; they must not hold up the work."""


def retrying(patience: Patience, sleep: Callable[[float], None]) -> tenacity.Retrying:
    """Build a retrier that raises the last error itself once its patience is at an end."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: patience.of(error) > 0),
        wait=_wait,
        stop=lambda state: _would_exceed(state, patience),
        sleep=sleep,
        reraise=True,
    )


def waits_for_person(error: ClusterError) -> bool:
    """Whether only a person can make a request succeed."""
    return isinstance(error, PermissionDeniedError)


def already_so(error: ClusterError) -> bool:
    """Whether a deletion need not happen any more, or not as it was asked."""
    return isinstance(error, NotFoundError | ConflictError)


_BACKOFF: Final = tenacity.wait_exponential_jitter(
    multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS, jitter=JITTER_SECONDS
)


def _wait(state: tenacity.RetryCallState) -> float:
    """Wait as long as the server asks, else exponentially with jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "retry_after", None)
    return max(_BACKOFF(state), asked or 0.0)


def _would_exceed(state: tenacity.RetryCallState, patience: Patience) -> bool:
    """Stop before a wait that ends beyond the patience for this error (tenacity's stop_before_delay)."""
    error = state.outcome.exception() if state.outcome else None
    return (state.seconds_since_start or 0.0) + state.upcoming_sleep >= patience.of(error)
