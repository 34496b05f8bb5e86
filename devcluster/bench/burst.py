"""Many drivers that become ready at the same moment: how soon a run deletes the stale plugins, by the audit log."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from devcluster import etcd, patience
from devcluster.bench import atrest
from devcluster.bench.ledger import percentile
from devcluster.bench.reaction import moments
from devcluster.bench.running import warm_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from devcluster.bench.resting import Rest
    from devcluster.bench.servers import OwnServer
    from devcluster.client import Object
    from devcluster.layout import State

AT_ONCE: Final = 500
FIRST: Final = 50
LONGEST_SECONDS: Final = 120.0
WRITERS: Final = 8


def burst(rest: Rest, at_once: int, arguments: Sequence[str]) -> dict[str, Any]:
    """Measure the deletions from the moment at which the first of the drivers is written as ready.

    Nothing replaces the deleted plugins, so nothing but their deletion is measured.
    """
    numbers = range(at_once)
    etcd.put(rest.cluster.files, (atrest.driver_pod(number, ready=False) for number in numbers))
    etcd.put(rest.cluster.files, (atrest.plugin_pod(number, stale=True) for number in numbers))
    # Each server has an audit log of its own name.
    name = f"burst-{arguments[0]}"
    server = rest.server(name)
    running = rest.start(server, name, *arguments)
    time.sleep(warm_seconds(rest.nodes))
    ready = [atrest.driver_pod(number) for number in numbers]
    began = time.time()
    _write(rest.cluster.files, ready)
    written = time.time() - began
    try:
        deleted = _deletions(server, at_once)
    finally:
        running.process.terminate()
        running.spent()
    server.stop()
    etcd.put(rest.cluster.files, (atrest.plugin_pod(number) for number in numbers))
    return {"written_seconds": round(written, 3), **times([moment - began for moment in deleted.values()])}


def times(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the figures of one burst."""
    known = sorted(seconds)
    found = {
        "first_50_seconds": known[min(FIRST, len(known)) - 1],
        "median_seconds": percentile(known, 0.5),
        "p99_seconds": percentile(known, 0.99),
        "last_seconds": known[-1],
    }
    return {"deletions": len(known), **{name: round(value or 0.0, 3) for name, value in found.items()}}


def _write(state: State, objects: Sequence[Object]) -> None:
    """Write each object by itself, as an API server does.

    Objects of one transaction share a resourceVersion. A watch that is interrupted between two of them, and continues
    after that version, never gets the second one.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        deque(pool.map(lambda each: etcd.put(state, [each]), objects), maxlen=0)


def _deletions(server: OwnServer, wanted: int) -> Mapping[tuple[str, str], float]:
    """Wait until the API server has received that many deletions, and return when it received each."""

    def all_deleted() -> Mapping[tuple[str, str], float] | None:
        found = moments(server.audit())[0]
        return found if len(found) >= wanted else None

    return patience.until(all_deleted, f"{wanted} stale plugins are deleted", LONGEST_SECONDS, soonest=1.0)
