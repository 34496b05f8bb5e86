"""How soon a run deletes stale plugins where a tenth of a fleet's drivers becomes ready at once, by the audit log."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

from devcluster import patience
from devcluster.bench import atrest
from devcluster.bench.figures import OURS
from devcluster.bench.resting import RestingFleet
from devcluster.boot import etcd
from devcluster.boot.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from devcluster.bench.figures import Found

FIRST: Final = 50
LONGEST_SECONDS: Final = 120.0
WRITERS: Final = 8
OK: Final = 200


def measure(folder: Path, nodes: int) -> Found:
    """Measure the deletions from the moment at which the first of the drivers is written as ready.

    Nothing replaces the deleted plugins, so nothing but their deletion is measured.
    """
    at_once = range(max(1, nodes // 10))
    with Cluster(folder) as cluster:
        fleet = RestingFleet(cluster, nodes)
        etcd.put(cluster.files, (atrest.driver_pod(number, ready=False) for number in at_once))
        etcd.put(cluster.files, (atrest.plugin_pod(number, stale=True) for number in at_once))
        program = fleet.start("run", "--timeout=4h")
        fleet.await_idle()
        ready = [atrest.driver_pod(number) for number in at_once]
        began = time.time()
        # One by one, as an API server writes them: a watch that is interrupted between two objects of one transaction
        # never gets the second one.
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda each: etcd.put(cluster.files, [each]), ready))

        def all_deleted() -> list[float] | None:
            found = deletions(cluster.audit())
            return found if len(found) == len(at_once) else None

        deleted = patience.until(all_deleted, "every stale plugin is deleted", LONGEST_SECONDS, soonest=1.0)
        program.stop()
    return {OURS: times([moment - began for moment in deleted])}


def times(seconds: Sequence[float]) -> dict[str, float]:
    """Return the figures of one burst. Each is a time that was measured (nearest rank)."""
    known = sorted(seconds)
    found = {
        f"first {FIRST} (s)": known[min(FIRST, len(known)) - 1],
        "median (s)": median_low(known),
        "p99 (s)": known[math.ceil(0.99 * len(known)) - 1],
        "last (s)": known[-1],
    }
    return {"ready at once": len(known), **{figure: round(value, 2) for figure, value in found.items()}}


def deletions(audit: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return when the API server received each deletion of a pod that it granted."""
    return [
        datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        for event in audit
        if event["verb"] == "delete"
        and event["objectRef"]["resource"] == "pods"
        and event["responseStatus"]["code"] == OK
    ]
