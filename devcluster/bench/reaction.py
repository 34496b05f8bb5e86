"""How long a stale plugin waits once its node's driver is ready, to the millisecond. Pure.

The beginning is the simulator's: the moment it turned a driver ready, before it told the API server so. The end is the
API server's: the moment it had a plugin's deletion, by its audit log. So the simulator's own haste or delay in seeing
that deletion is no part of it, its delay in telling that a driver is ready is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.ledger import percentile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devcluster.truth import Truth

OK: Final = 200


@dataclass(frozen=True, slots=True)
class Reactions:
    """One wave of reactions, in seconds."""

    seconds: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """Give the figures."""
        shares = {"median": 0.5, "p90": 0.9, "p99": 0.99, "most": 1.0}
        found = {f"{name}_seconds": percentile(self.seconds, share) for name, share in shares.items()}
        rounded = {name: None if value is None else round(value, 3) for name, value in found.items()}
        return {"deletions": len(self.seconds), **rounded}


def reactions(truth: Truth, audit: Iterable[Mapping[str, Any]], daemonset: str, since: float) -> Reactions:
    """Pair each deletion of a stale plugin with the moment since which its node's driver was ready."""
    deleted = deletions(audit)
    ready: dict[str, float] = {}
    found = []
    for each in truth.since(since):
        if each.event == "driver-ready":
            ready[each.node] = each.t
        elif each.event == "plugin-deleted" and each.concerns(daemonset) and each.stale and each.node in ready:
            found.append(deleted.get((each.namespace, each.pod), each.t) - ready[each.node])
    return Reactions(tuple(found))


def deletions(audit: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Say when the API server received each deletion of a pod that it granted."""
    found = {}
    for event in audit:
        what = event.get("objectRef", {})
        granted = event.get("verb") == "delete" and event.get("responseStatus", {}).get("code") == OK
        if granted and what.get("resource") == "pods":
            received = datetime.fromisoformat(event["requestReceivedTimestamp"])
            found[what["namespace"], what["name"]] = received.timestamp()
    return found
