"""Keep a fleet at rest busy, as kubelets and one upgrade at a time do.

A kubelet reports its node's status every five minutes where nothing changes (``nodeStatusReportFrequency``): for 5,000
nodes that is 17 a second. In addition, labels of nodes and statuses of driver pods change, as during an upgrade with
ten nodes at once or with one: each has two dozen reports of its driver pod. Changes go straight into the storage: the
API server sends each to all clients that watch, and spends nothing on writing.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from devcluster import etcd
from devcluster.bench.atrest import device_slice, driver_pod, node, plugin_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.client import Object
    from devcluster.layout import State

REPORT_SECONDS: Final = 300
UPGRADING: Final = 10
"""Nodes whose driver is not ready: a run waits for them."""


def unready() -> Iterator[Object]:
    """Return the driver pods of the nodes that are being upgraded."""
    return (driver_pod(number, ready=False) for number in range(UPGRADING))


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How often its nodes change."""

    labels_a_second: float
    pods_a_second: float
    plugins_a_second: float = 0.0
    """Statuses of plugin pods."""
    others_a_second: float = 0.0
    """ResourceSlices and the objects that count pods: DaemonSets."""


TEN_AT_ONCE: Final = Upgrade(labels_a_second=1, pods_a_second=2)
"""Each node takes two minutes."""
ONE_BY_ONE: Final = Upgrade(8 / 72, 24 / 72, plugins_a_second=6 / 72, others_a_second=8 / 72)
"""100 nodes in two hours, so 72 seconds each; the upgrade state and the paused operands change eight times. The plugin
is deleted, scheduled, started and ready, its slices go and come, and both DaemonSets count that."""


class Busy:
    """Changes objects until it is stopped."""

    def __init__(self, state: State, nodes: int, upgrade: Upgrade = TEN_AT_ONCE, shared: Sequence[Object] = ()) -> None:
        self._state, self._nodes, self._upgrade, self._shared = state, nodes, upgrade, shared
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
        for count in _due(self._upgrade.labels_a_second, second):
            found = node(-1 - count % self._nodes + self._nodes)
            found["metadata"]["labels"]["nvidia.com/gfd.timestamp"] = str(second)
            yield found
        for count in _due(self._upgrade.pods_a_second, second):
            found = driver_pod(count % UPGRADING, ready=False)
            found["status"]["conditions"][0]["message"] = f"report {second}"
            yield found
        for count in _due(self._upgrade.plugins_a_second, second):
            found = plugin_pod(count % self._nodes)
            found["status"]["conditions"][0]["message"] = f"report {second}"
            yield found
        for count in _due(self._upgrade.others_a_second, second):
            each = (device_slice(count % self._nodes), *self._shared)[count % (1 + len(self._shared))]
            yield {**each, "metadata": {**each["metadata"], "annotations": {"changed": str(second)}}}


def _due(rate: float, second: int) -> range:
    """Return the numbers of the changes in one second, of all changes since the start."""
    return range(int((second - 1) * rate), int(second * rate))
