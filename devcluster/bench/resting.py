"""A fleet at rest in storage, and API servers that answer one client each: the scene of every measure of costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from devcluster.bench import atrest, pod
from devcluster.bench.servers import OwnServer
from devcluster.boot import etcd
from devcluster.boot.layout import CHECKOUT
from devcluster.settings import separated

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.boot.cluster import Cluster

OTHERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok", "pods")
SHARED: Final = "kube-apiserver"
DEFINITION: Final = CHECKOUT / "devcluster/charts/gpu-operator/crds/clusterpolicies.yaml"
POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"


@dataclass(frozen=True, slots=True)
class Rest:
    """A cluster whose objects change only where a measure changes them."""

    cluster: Cluster
    nodes: int
    folder: Path

    def prepare(self) -> None:
        """Boot, and put the fleet into storage."""
        self.cluster.up(nodes=0, fleet=False, at_rest=True)
        for namespace in (atrest.OPERATOR, atrest.DRA):
            self.cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.cluster.kubectl("apply", "-f", str(DEFINITION))
        self.cluster.kubectl(
            "wait", "--for=condition=Established", f"crd/{DEFINITION.stem}.nvidia.com", "--timeout=60s"
        )
        served = ["get", DEFINITION.stem]
        self.cluster.wait_until("the kind exists", lambda: not self.cluster.kubectl(*served, check=False).returncode)
        policy = self.cluster.create(POLICIES, atrest.POLICY)
        self.cluster.patch(f"{POLICIES}/cluster-policy/status", {"status": atrest.POLICY_STATUS})
        pod.mount(self.cluster, self.folder / "mount")
        # The others would annotate, lease and taint thousands of nodes for minutes. The API server that all share
        # would hold a second copy of the fleet in memory: 15,000 nodes take 10 GB.
        self.cluster.end(*OTHERS, SHARED)
        etcd.put(self.cluster.files, atrest.fleet(self.nodes, policy["metadata"]["uid"]))

    def server(self, name: str) -> OwnServer:
        """Start an API server of its own for one client."""
        server = OwnServer(self.cluster, name)
        server.start()
        return server

    def start(self, server: OwnServer, name: str, command: str, *arguments: str) -> pod.Running:
        """Start the program as in a pod, with this API server."""
        flags, settings = separated(arguments)
        started = pod.program(command, f"--service-account-dir={self.folder / 'mount'}", *flags)
        return pod.launch(started, self.folder / f"{name}.json", {**pod.environment(server.url), **settings})
