"""`make demo KUBECONFIG=file`, on a control plane without nodes: which clusters are refused, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster import patience
from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import SYSTEM_NODE
from devcluster.boot.machines import gpu_node
from devcluster.demo.guest import DEFINITIONS, check
from devcluster.demo.simulated import DemoError
from tests.simulator.test_bench import module

pytestmark = pytest.mark.e2e

KINDS: Final = (
    "clusterrolebindings,clusterroles,customresourcedefinitions,deviceclasses,namespaces,nodes,pods,resourceclaims,"
    "resourceslices,validatingadmissionpolicies,validatingadmissionpolicybindings"
)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a control plane, and take from it what makes it a test bed."""
    with Cluster(tmp_path_factory.mktemp("theirs") / "c") as cluster:
        cluster.up(nodes=0)
        cluster.end("kwok", "pods")
        cluster.kubectl("delete", f"node/{SYSTEM_NODE}", "namespace/devcluster")
        yield cluster


def _objects(cluster: Cluster) -> list[str]:
    """Name every object of the kinds that the demo touches."""
    shown = ("--no-headers", "--output=custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name")
    return sorted(cluster.kubectl("get", KINDS, "--all-namespaces", *shown).stdout.splitlines())


def test_a_cluster_with_gpus_or_an_operator_is_refused(theirs: Cluster, tmp_path: Path) -> None:
    """Each obstacle is one sentence; without one, nothing keeps the demo off."""

    def look() -> None:
        check(theirs.kubeconfig, tmp_path, 2)

    look()
    for node, reason in (
        (gpu_node("worker"), "its node worker has a GPU"),
        ({"metadata": {"name": SYSTEM_NODE}}, f"it has the node {SYSTEM_NODE}"),
    ):
        theirs.create("/api/v1/nodes", node)
        with pytest.raises(DemoError, match=reason):
            look()
        theirs.kubectl("delete", "node", node["metadata"]["name"])
    theirs.kubectl("create", "namespace", "gpu-operator")
    with pytest.raises(DemoError, match="it has the namespace gpu-operator"):
        look()
    theirs.kubectl("delete", "namespace", "gpu-operator")

    theirs.kubectl("create", "--filename", DEFINITIONS)
    before = _objects(theirs)
    refused = module("devcluster.demo", f"--kubeconfig={theirs.kubeconfig}", cwd=tmp_path)
    assert refused.returncode == 1
    assert "is not touched, because it has the kind clusterpolicies.nvidia.com" in refused.stderr
    assert refused.stdout == ""
    assert _objects(theirs) == before
    theirs.kubectl("delete", "--filename", DEFINITIONS)


def test_the_demo_leaves_nothing(theirs: Cluster, tmp_path: Path) -> None:
    """It proves its point there, too, and the cluster is as it was before."""
    before = _objects(theirs)
    done = module("devcluster.demo", f"--kubeconfig={theirs.kubeconfig}", "--nodes=2", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("demo: ok nodes=2 stale_after=0 early_restarts=0 needless_restarts=0 restarts=2 "), last
    patience.until(
        lambda: _objects(theirs) == before, lambda: f"these are gone: {set(_objects(theirs)) - set(before)}", 60
    )
