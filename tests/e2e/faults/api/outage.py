"""What happens to a control plane: its API server is killed and comes back, its storage stops for a while."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from typing import TYPE_CHECKING

from devcluster.access import Access
from devcluster.controlplane import Probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster
    from devcluster.processes import Record

API_SERVER, ETCD = "kube-apiserver", "etcd"
STOPPED_SECONDS, RUNNING_SECONDS = 1.0, 0.3
"""A disk that is far too slow: a request in four is answered within a second."""


def _process(cluster: Cluster, name: str) -> Record:
    (found,) = (each for each in cluster.status() if each.name == name)
    return found


def kill(cluster: Cluster) -> None:
    """Kill the API server; nobody starts it again."""
    _process(cluster, API_SERVER).signal_group(signal.SIGKILL)


def revive(cluster: Cluster) -> None:
    """Start it again, and wait until it is ready."""
    cluster.revive(API_SERVER)
    server = Access.from_kubeconfig(cluster.kubeconfig).server
    cluster.wait_until("the API server is ready again", Probe(cluster.files, server).ready)


def restart(cluster: Cluster) -> None:
    """Kill the API server and start it at once; it needs a few seconds."""
    kill(cluster)
    cluster.revive(API_SERVER)


@contextlib.contextmanager
def stopped(cluster: Cluster, name: str = ETCD) -> Iterator[None]:
    """Let a process stand still."""
    record = _process(cluster, name)
    record.signal_group(signal.SIGSTOP)
    try:
        yield
    finally:
        record.signal_group(signal.SIGCONT)


@contextlib.contextmanager
def slow_storage(cluster: Cluster) -> Iterator[None]:
    """Let etcd stand still most of the time."""
    enough = threading.Event()

    def pulse() -> None:
        while not enough.is_set():
            with stopped(cluster):
                time.sleep(STOPPED_SECONDS)
            time.sleep(RUNNING_SECONDS)

    thread = threading.Thread(target=pulse, name="slow-etcd")
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def fill_pages(cluster: Cluster, kind_count: int) -> None:
    """Create DaemonSets that want no pod anywhere, so that their list has more than one page."""
    template = {
        "metadata": {"labels": {"app": "idle"}},
        "spec": {"nodeSelector": {"nobody": "here"}, "containers": [{"name": "idle", "image": "idle"}]},
    }
    items = [
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": f"idle-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "idle"}}, "template": template},
        }
        for number in range(kind_count)
    ]
    cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
