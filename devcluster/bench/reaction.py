"""How long a stale plugin waits once its node's driver is ready, to the millisecond. Pure.

Both ends are the API server's, by its audit log: the moment it received that a driver's pod is Ready, and the moment it
received the plugin's deletion. So the simulator's haste or delay is no part of it. Where the log has no statuses, it
begins when the simulator turned the driver ready, before it reported that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.ledger import cures, percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from devcluster.truth import Truth

OK: Final = 200


@dataclass(frozen=True, slots=True)
class Reactions:
    """One wave of reactions, in seconds."""

    seconds: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        shares = {"median": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
        found = {f"{name}_seconds": percentile(self.seconds, share) for name, share in shares.items()}
        rounded = {name: None if value is None else round(value, 3) for name, value in found.items()}
        return {"deletions": len(self.seconds), **rounded}


def reactions(truth: Truth, audit: Iterable[Mapping[str, Any]], daemonset: str, since: float) -> Reactions:
    """Pair each deletion of a stale plugin with the moment since which its node's driver was ready."""
    deleted, told = moments(audit)
    return Reactions(
        tuple(
            deleted.get((cure.namespace, cure.pod), cure.t) - _told(told.get(ready.pod, ()), ready.t)
            for ready, cure in cures(truth, daemonset, since)
        )
    )


def moments(audit: Iterable[Mapping[str, Any]]) -> tuple[dict[tuple[str, str], float], dict[str, list[float]]]:
    """Return when the API server received each deletion of a pod that it granted, and the reports about each pod."""
    deleted: dict[tuple[str, str], float] = {}
    told: dict[str, list[float]] = defaultdict(list)
    for event in audit:
        what = event.get("objectRef", {})
        if what.get("resource") != "pods" or event.get("responseStatus", {}).get("code") != OK:
            continue
        received = datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        if what.get("subresource") == "status":
            told[what["name"]].append(received)
        elif event.get("verb") == "delete":
            deleted[what["namespace"], what["name"]] = received
    return deleted, {name: sorted(times) for name, times in told.items()}


def _told(told: Sequence[float], since: float) -> float:
    """Return the first moment that a client reported something, from the time when there was something to report."""
    place = bisect_left(told, since)
    return told[place] if place < len(told) else since
