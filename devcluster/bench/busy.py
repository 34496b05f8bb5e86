"""Keep a fleet at rest busy, as kubelets and one upgrade at a time do.

A kubelet reports its node's status every five minutes where nothing changes (``nodeStatusReportFrequency``): for 5,000
nodes that is 17 a second. In addition, labels of nodes and statuses of driver pods change, as during an upgrade of
ten nodes at once: each has two dozen reports of its driver pod. Changes go straight into the storage: the
API server sends each to all clients that watch, and spends nothing on writing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from devcluster.bench.atrest import driver_pod, node
from devcluster.boot import etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.boot.layout import State
    from devcluster.client import Object

REPORT_SECONDS: Final = 300
UPGRADING: Final = 10
"""Nodes whose driver is not ready: a run waits for them. Each takes two minutes."""
LABELS_A_SECOND, DRIVERS_A_SECOND = 1, 2
"""Changes of labels of nodes, and of statuses of driver pods."""


def unready() -> Iterator[Object]:
    """Return the driver pods of the nodes that are being upgraded."""
    return (driver_pod(number, ready=False) for number in range(UPGRADING))


def keep_busy(state: State, nodes: int, seconds: range) -> tuple[int, float]:
    """Change objects for so long; return how many changes that were, and by how much they came late at most.

    `seconds` are those since the fleet began to be busy.
    """
    began, changes, late = time.monotonic(), 0, 0.0
    for planned, second in enumerate(seconds, start=1):
        # One by one, as an API server writes them: objects of one transaction share a resourceVersion.
        for changed in changed_in(nodes, second):
            etcd.put(state, [changed])
            changes += 1
        left = began + planned - time.monotonic()
        late = max(late, -left)
        time.sleep(max(0.0, left))
    return changes, late


def changed_in(nodes: int, second: int) -> Iterator[Object]:
    """Return what changes in one second."""
    for count in _due(nodes / REPORT_SECONDS, second):
        found = node(count % nodes)
        found["status"]["conditions"][0]["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        yield found
    for count in _due(LABELS_A_SECOND, second):
        found = node(nodes - 1 - count % nodes)
        found["metadata"]["labels"]["nvidia.com/gfd.timestamp"] = str(second)
        yield found
    for count in _due(DRIVERS_A_SECOND, second):
        found = driver_pod(count % UPGRADING, ready=False)
        found["status"]["conditions"][0]["message"] = f"report {second}"
        yield found


def _due(rate: float, second: int) -> range:
    """Return the numbers of the changes in one second, of all changes since the start."""
    return range(int((second - 1) * rate), int(second * rate))
