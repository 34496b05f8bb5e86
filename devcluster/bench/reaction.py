"""How soon a run deletes stale plugins where a tenth of a fleet's drivers becomes ready at once, by the audit log."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from devcluster import patience
from devcluster.bench import atrest
from devcluster.bench.costs import warm_seconds
from devcluster.bench.figures import OURS
from devcluster.bench.ledger import percentile
from devcluster.bench.resting import Rest
from devcluster.boot import etcd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from devcluster.bench.figures import Found
    from devcluster.bench.servers import OwnServer
    from devcluster.boot.cluster import Cluster
    from devcluster.boot.layout import State
    from devcluster.client import Object

FIRST: Final = 50
LONGEST_SECONDS: Final = 120.0
WRITERS: Final = 8
OK: Final = 200


def measure(cluster: Cluster, nodes: int, folder: Path) -> Found:
    """Measure the deletions from the moment at which the first of the drivers is written as ready.

    Nothing replaces the deleted plugins, so nothing but their deletion is measured.
    """
    rest = Rest(cluster, nodes, folder)
    rest.prepare()
    at_once = range(max(1, nodes // 10))
    etcd.put(cluster.files, (atrest.driver_pod(number, ready=False) for number in at_once))
    etcd.put(cluster.files, (atrest.plugin_pod(number, stale=True) for number in at_once))
    server = rest.server("reaction")
    running = rest.start(server, "reaction", "run", "--timeout=4h")
    time.sleep(warm_seconds(nodes))
    ready = [atrest.driver_pod(number) for number in at_once]
    began = time.time()
    _write(cluster.files, ready)
    try:
        deleted = _deletions(server, len(at_once))
    finally:
        running.process.terminate()
        running.spent()
    return {OURS: times([moment - began for moment in deleted])}


def times(seconds: Sequence[float]) -> dict[str, float]:
    """Return the figures of one burst."""
    known = sorted(seconds)
    found = {
        f"first {FIRST} (s)": known[min(FIRST, len(known)) - 1],
        "median (s)": percentile(known, 0.5),
        "p99 (s)": percentile(known, 0.99),
        "last (s)": known[-1],
    }
    return {"ready at once": len(known), **{figure: round(value, 2) for figure, value in found.items()}}


def _write(state: State, objects: Sequence[Object]) -> None:
    """Write each object by itself, as an API server does.

    Objects of one transaction share a resourceVersion. A watch that is interrupted between two of them, and continues
    after that version, never gets the second one.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        deque(pool.map(lambda each: etcd.put(state, [each]), objects), maxlen=0)


def _deletions(server: OwnServer, wanted: int) -> list[float]:
    """Wait until the API server has received that many deletions, and return when it received each."""

    def all_deleted() -> list[float] | None:
        found = deletions(server.audit())
        return found if len(found) >= wanted else None

    return patience.until(all_deleted, f"{wanted} stale plugins are deleted", LONGEST_SECONDS, soonest=1.0)


def deletions(audit: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return when the API server received each deletion of a pod that it granted."""
    return [
        datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        for event in audit
        if event.get("verb") == "delete"
        and event.get("objectRef", {}).get("resource") == "pods"
        and event.get("responseStatus", {}).get("code") == OK
    ]
