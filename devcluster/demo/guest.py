"""The demo on a cluster that is there, such as kind or minikube, which is afterwards as it was before.

Simulated GPU nodes join the cluster. Without an image that its nodes have, the pods of our chart run as processes of
this machine, on a node that nothing else tolerates.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from devcluster import commands
from devcluster.boot import machines
from devcluster.boot.layout import SYSTEM_NODE, State
from devcluster.demo.simulated import THEIR_PLUGIN, Demo, DemoError
from devcluster.demo.visit import ON_OURS, PLACEMENT, Visit
from devcluster.fleet.settings import NAMESPACE
from devcluster.releases import OPERATOR, PLUGIN, POST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from devcluster.demo.view import Show

RELEASES: Final = (POST, PLUGIN, THEIR_PLUGIN, OPERATOR)
NAMESPACES: Final = {release.namespace for release in RELEASES}
DEFINITIONS: Final = f"{OPERATOR.chart}/crds"
OPERATORS: Final = (".nvidia.com", ".mellanox.com")
"""Groups of the kinds that NVIDIA's operators bring."""
GPU_LABELS: Final = {"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present"}
NEEDED: Final = "resource.k8s.io/v1"
"""Dynamic resource allocation: Kubernetes 1.34 and later."""


def run(kubeconfig: Path, folder: Path, show: Show, nodes: int, mode: str, image: str = "") -> str:  # noqa: PLR0913, PLR0917 - whose cluster, and what is shown on it
    """Run the demo with an image that the cluster's nodes have or with processes of this machine."""
    with Visit(folder / "fleet") as fleet:
        show.say(f"bringing {nodes} simulated GPU nodes to the cluster")
        fleet.attach(kubeconfig, nodes)
        try:
            return Demo(fleet, show, nodes, mode, operator=PLACEMENT, post=_pulled(image) if image else ON_OURS).run()
        finally:
            _uninstall(fleet)


def _pulled(image: str) -> dict[str, Any]:
    """Return the values of our chart that name an image."""
    folder, slash, name = image.rpartition("/")
    name, _, tag = name.partition(":")
    return {"image.repository": f"{folder}{slash}{name}", **({"image.tag": tag} if tag else {})}


def _uninstall(fleet: Visit) -> None:
    """Take out of the cluster what the demo has installed."""
    for release in RELEASES:
        where = f"--namespace={release.namespace}"
        fleet.helm("uninstall", release.name, where, "--ignore-not-found", "--no-hooks", check=False)
    for words in (("namespace", *NAMESPACES), ("--filename", DEFINITIONS)):
        fleet.kubectl("delete", *words, "--ignore-not-found", "--wait=false", check=False)


def check(kubeconfig: Path, folder: Path, nodes: int) -> None:
    """Refuse a cluster that the demo must not touch; the folder keeps what kubectl remembers."""
    cluster = Theirs(kubeconfig, State(folder / "look"))
    if reason := next(cluster.obstacles(nodes), ""):
        raise DemoError(f"the cluster of {kubeconfig} is not touched, because {reason}")


class Theirs:
    """The cluster before anything is done to it."""

    def __init__(self, kubeconfig: Path, state: State) -> None:
        self._kubeconfig, self._state = kubeconfig, state

    def obstacles(self, nodes: int) -> Iterator[str]:
        """Yield why the demo must not touch it."""
        if NEEDED not in self._kubectl("api-versions").split():
            yield f"it does not serve {NEEDED}: the demo needs Kubernetes 1.34 or later"
        for kind in self._names("customresourcedefinitions"):
            if kind.endswith(OPERATORS):
                yield f"it has the kind {kind}: an operator of NVIDIA is installed, or was"
        for node in self._found("nodes"):
            labels, capacity = node["metadata"].get("labels", {}), node["status"].get("capacity", {})
            if "nvidia.com/gpu" in capacity or GPU_LABELS & labels.keys():
                yield f"its node {node['metadata']['name']} has a GPU"
        for kind, ours in (
            ("node", {SYSTEM_NODE, *machines.gpu_node_names(nodes)}),
            ("namespace", {*NAMESPACES, NAMESPACE}),
        ):
            for name in ours.intersection(self._names(f"{kind}s")):
                yield f"it has the {kind} {name}, which the demo creates and deletes"

    def _names(self, kind: str) -> list[str]:
        return [each["metadata"]["name"] for each in self._found(kind)]

    def _found(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._kubectl("get", kind, "--output=json"))["items"]
        return found

    def _kubectl(self, *words: str) -> str:
        return commands.run(self._state, ["kubectl", f"--kubeconfig={self._kubeconfig}", *words]).stdout
