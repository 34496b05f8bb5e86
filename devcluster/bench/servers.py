"""An API server of its own for one client, on the cluster's storage: what it spends is what this client costs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.usage import Usage
from devcluster.boot.components import Ports, api_server
from devcluster.boot.controlplane import is_ready
from devcluster.boot.ports import free_ports
from devcluster.build import binaries

if TYPE_CHECKING:
    from devcluster.boot.cluster import Cluster

LOOK_SECONDS: Final = 2.0
IDLE_SHARE: Final = 0.15
"""Of one core. What a server without clients spends, the look at it included, is less."""
MOST_START_SECONDS: Final = 60.0


class OwnServer:
    """One more API server; it ends with the cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = f"kube-apiserver-{name}"
        self.port = free_ports(1)[0]
        self._audit = cluster.files.root / f"audit-{self._name}.jsonl"
        self._began = Usage()

    def start(self) -> None:
        """Start it."""
        files = self._cluster.files
        etcd = int(files.etcd.read_text().rpartition(":")[2])
        arguments = api_server(files, Ports(etcd, 0, self.port, 0))
        # The last one of each flag holds: two servers never write into one log.
        own = [f"--audit-log-path={self._audit}"]
        binary = str(binaries.ensure(["kube-apiserver"])["kube-apiserver"])
        self._cluster.launch(self._name, [binary, *arguments, *own])
        self._cluster.wait_until(f"{self._name} is ready", lambda: is_ready(files, self.url))

    @property
    def url(self) -> str:
        """Its address."""
        return f"https://127.0.0.1:{self.port}"

    def audit(self) -> list[dict[str, Any]]:
        """Return its own audit log, oldest first."""
        return [json.loads(line) for line in self._audit.read_text().splitlines()] if self._audit.exists() else []

    def rest(self) -> None:
        """Wait until it has filled its caches, so that its own start is not counted."""
        until, before = time.monotonic() + MOST_START_SECONDS, self._look().cpu_seconds
        while time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
            before, earlier = self._look().cpu_seconds, before
            if before - earlier < IDLE_SHARE * LOOK_SECONDS:
                return

    def begin(self) -> None:
        """Count from here."""
        self._began = self._look()

    def spent(self) -> Usage:
        """Return what came since then; the two looks themselves are the same for all."""
        return self._look().minus(self._began)

    def _look(self) -> Usage:
        return Usage.of(self._cluster.kubectl("--server", self.url, "get", "--raw", "/metrics").stdout)
