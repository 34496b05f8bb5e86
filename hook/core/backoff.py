"""Restart a plugin that does not become well ever more seldom.

A run with a deadline fails a node whose plugin a restart did not help, and a person looks. A follower has no end
at which to say so: it says it at once, and tries again, because what was wrong (a clock, an admission policy) may
have been mended. The first restart comes at once; each one after it waits twice as long as the one before, up to a
bound, until a plugin was verified there and its driver was reloaded since: a plugin that works is restarted for a
new run of its driver, never twice in a row for the same one.

All of this is memory, so whoever takes over from a follower begins anew: one more restart at most for each process that
ends. One that ends again and again is bounded by the kubelet's back-off alone (docs/reliability.md, "Not survived").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hook.core.memory import AskedRestart
    from hook.core.verdicts import StalePod
    from hook.settings import Settings

MOST_DOUBLINGS: Final = 22
"""A second doubled so often is longer than the longest duration that a flag takes; more would only overflow."""


def held_until(before: AskedRestart, pod: StalePod, settings: Settings) -> datetime | None:
    """Give when a pod may be restarted after what was asked for before; None where that does not matter."""
    if before.served(pod) or before.pending(pod):
        return None
    return before.at + _pause(before.tries, settings)


def _pause(count: int, settings: Settings) -> timedelta:
    doubled: timedelta = settings.restart_backoff * 2 ** min(count - 1, MOST_DOUBLINGS)
    return min(doubled, settings.restart_backoff_max)
