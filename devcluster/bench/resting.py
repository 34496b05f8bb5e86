"""A fleet at rest in storage, and an API server whose only client is measured: the scene of every measure of costs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from devcluster import patience
from devcluster.access import Access
from devcluster.bench import atrest
from devcluster.bench.program import Program, mount
from devcluster.bench.usage import Usage
from devcluster.boot import etcd
from devcluster.boot.apiserver import is_ready
from devcluster.boot.components import Ports, api_server
from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from devcluster.boot.cluster import Cluster

SERVER: Final = "kube-apiserver"
OTHERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok", "pods")
DEFINITION: Final = CHECKOUT / "devcluster/charts/gpu-operator/crds/clusterpolicies.yaml"
POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
LOOK_SECONDS: Final = 2.0
IDLE_SHARE: Final = 0.15
"""Of one core. What a server without work spends, the look at it included, is less."""
BUSY_SECONDS: Final = 120.0
"""The longest that reading the fleet takes."""


def create_policy(cluster: Cluster) -> str:
    """Create the namespaces of a fleet, and the policy with its kind through the API; return the policy's UID."""
    for namespace in (atrest.OPERATOR, atrest.DRA):
        cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    cluster.kubectl("apply", "-f", str(DEFINITION))
    cluster.kubectl("wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", "--timeout=60s")
    served = ("get", "clusterpolicies")
    cluster.wait_until("the kind is available", lambda: cluster.kubectl(*served, check=False).returncode == 0)
    policy = atrest.policy()
    created = cluster.create(POLICIES, policy)
    cluster.patch(f"{POLICIES}/{policy['metadata']['name']}/status", {"status": policy["status"]})
    return str(created["metadata"]["uid"])


class RestingFleet:
    """A cluster whose objects change only where a measure changes them."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        """Boot it, put the fleet into storage, and leave only an API server that knows it."""
        self.cluster = cluster
        cluster.up(nodes=0, at_rest=True)
        uid = create_policy(cluster)
        self._mounted = mount(cluster)
        self._server = Access.from_kubeconfig(cluster.kubeconfig).server
        # Others would annotate, lease and taint thousands of nodes for minutes. A new API server has counted nothing.
        cluster.end(*OTHERS, SERVER)
        etcd.put(cluster.files, atrest.fleet(nodes, uid))
        ports = Ports(_port(cluster.files.etcd.read_text()), 0, _port(self._server), 0)
        cluster.launch(SERVER, [str(cluster.binary(SERVER)), *api_server(cluster.files, ports)])
        cluster.wait_until("the API server is ready", lambda: is_ready(cluster.files, self._server))
        self.await_idle()

    def start(self, *arguments: str) -> Program:
        """Start the program as in a pod; it ends with the cluster at the latest."""
        program = Program(self._mounted, self._server, arguments)
        self.cluster.adopt(program.process)
        return program

    def usage(self) -> Usage:
        """Return what the API server has spent since its start; looking costs the same each time."""
        return Usage.of(self.cluster.kubectl("get", "--raw", "/metrics").stdout)

    def await_idle(self) -> None:
        """Wait until the API server has no work: its caches are full, and its client has read everything."""

        def idle() -> bool:
            before = self.usage().cpu_seconds
            time.sleep(LOOK_SECONDS)
            return self.usage().cpu_seconds - before < IDLE_SHARE * LOOK_SECONDS

        patience.until(idle, "the API server idles", BUSY_SECONDS)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
