"""Restart backoff: the controller waits longer before each further restart of a plugin that is not verified.

A Job fails a node whose plugin is stale again after a restart. The controller reports the node at once and tries
again, because the cause (a clock, an admission policy) may be fixed by then. The first restart is immediate. Each
further one waits twice as long as the previous one, up to a limit. The count starts again once a plugin was verified
on the node and its driver has been reloaded since.

The history is in memory only, so a new leader starts with an empty one: at most one extra restart per process that
ends. Only the kubelet's backoff limits a process that ends again and again (docs/reliability.md, "Not survived").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hook.core.memory import AskedRestart
    from hook.core.verdicts import StalePod
    from hook.settings import Settings

MOST_DOUBLINGS: Final = 22
"""Limit on doublings, to prevent an overflow. 2^22 s is longer than any duration that a flag accepts."""


def held_until(before: AskedRestart, pod: StalePod, settings: Settings) -> datetime | None:
    """Return when a pod may be restarted after an earlier restart, or None if the earlier one does not delay it."""
    if before.served(pod) or before.pending(pod):
        return None
    return before.at + _pause(before.tries, settings)


def _pause(count: int, settings: Settings) -> timedelta:
    doubled: timedelta = settings.restart_backoff * 2 ** min(count - 1, MOST_DOUBLINGS)
    return min(doubled, settings.restart_backoff_max)
