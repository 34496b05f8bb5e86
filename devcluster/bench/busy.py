"""Keep a fleet at rest busy, as kubelets and one upgrade at a time do.

A kubelet reports its node's status every five minutes where nothing changes (``nodeStatusReportFrequency``): for 5,000
nodes that is 17 a second. In addition, labels of nodes and statuses of driver pods change, as during an upgrade of
ten nodes at once: each has two dozen reports of its driver pod. Changes go straight into the storage: the
API server sends each to all clients that watch, and spends nothing on writing.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Final, Self

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


class Busy:
    """Changes objects until it is stopped."""

    def __init__(self, state: State, nodes: int) -> None:
        self._state, self._nodes = state, nodes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._until_it_fails, name="busy")
        self._error: Exception | None = None
        self.changes = 0
        self.late_seconds = 0.0
        """By how much the changes came later than planned."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and fail where a fleet was not busy any more: then something else was measured."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _until_it_fails(self) -> None:
        try:
            self._change()
        except Exception as error:  # noqa: BLE001 - the waiting thread raises it
            self._error = error

    def _change(self) -> None:
        began = time.monotonic()
        for second in itertools.count(1):
            # One by one, as an API server writes them: objects of one transaction share a resourceVersion.
            for changed in self._changed(second):
                etcd.put(self._state, [changed])
                self.changes += 1
            left = began + second - time.monotonic()
            self.late_seconds = max(self.late_seconds, -left)
            if self._over.wait(max(0.0, left)):
                return

    def _changed(self, second: int) -> Iterator[Object]:
        """Return what changes in one second."""
        for count in _due(self._nodes / REPORT_SECONDS, second):
            found = node(count % self._nodes)
            found["status"]["conditions"][0]["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            yield found
        for count in _due(LABELS_A_SECOND, second):
            found = node(-1 - count % self._nodes + self._nodes)
            found["metadata"]["labels"]["nvidia.com/gfd.timestamp"] = str(second)
            yield found
        for count in _due(DRIVERS_A_SECOND, second):
            found = driver_pod(count % UPGRADING, ready=False)
            found["status"]["conditions"][0]["message"] = f"report {second}"
            yield found


def _due(rate: float, second: int) -> range:
    """Return the numbers of the changes in one second, of all changes since the start."""
    return range(int((second - 1) * rate), int(second * rate))
