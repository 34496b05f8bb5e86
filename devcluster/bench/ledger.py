"""What each approach cost, by the ground truth. Pure: a journal in, figures out.

A stale node-second is a second of a node with a plugin that holds a driver which is gone, or without any while it is
replaced: new GPU pods get old files there, or fail. Seconds in which the driver itself reloads do not count: they are
the same for all approaches. The time from a loaded driver to its Ready pod counts: nothing may restart the plugin then.
"""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.truth import Truth

STALE: Final = "stale node-seconds"
LEFT: Final = "plugins left stale"
EARLY: Final = "restarted before the driver was ready"
FRESH: Final = "restarted while fresh"


def account(truth: Truth, daemonset: str, since: float, until: float) -> dict[str, float]:
    """Draw up the account of one approach, from the start of the upgrade to a moment that is the same for all."""
    stale = list(truth.stale_seconds(until, daemonset, since).values())
    return {
        STALE: round(sum(stale), 1),
        "per node, median (s)": round(median_low(stale), 2),
        LEFT: len(truth.stale_now(daemonset)),
        EARLY: len(truth.early_restarts(daemonset, since)),
        FRESH: len(truth.needless_restarts(daemonset, since)),
    }


def over(truth: Truth, daemonsets: Sequence[str], since: float) -> float:
    """Return when the upgrade was over: the last driver was ready, and the last plugin that was refreshed was fresh.

    An approach that leaves plugins stale is charged to this moment and no further: as if all of them were repaired at
    once then. How long an approach continues to confirm its end costs the others nothing.
    """
    ready = [each.t for each in truth.since(since) if each.event == "driver-ready"]
    cured = [
        end
        for daemonset in daemonsets
        for spells in truth.stale_intervals(daemonset).values()
        for _start, end in spells
        if end is not None and end >= since
    ]
    return max([since, *ready, *cured])
