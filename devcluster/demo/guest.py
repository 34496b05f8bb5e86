"""``python -m devcluster.demo.guest --kubeconfig FILE``: the demo on a cluster that is there, such as kind or minikube.

Simulated GPU nodes join the cluster, and the pods of the demo run as processes of this machine, on a node that nothing
else tolerates. So the cluster pulls no image. At the end, everything that the demo installed is deleted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster import commands
from devcluster.boot import machines
from devcluster.boot.layout import SYSTEM_NODE, State
from devcluster.demo.simulated import (
    FAILURES,
    MODES,
    OPERATOR,
    OUR_NAMESPACE,
    PLUGIN_RELEASE,
    POST_RELEASE,
    THEIR_NAMESPACE,
    finish,
    run,
)
from devcluster.demo.view import Show
from devcluster.demo.visit import NAMESPACE, ON_OURS, Visit, Visiting

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATOR_NAMESPACE: Final = "gpu-operator"
RELEASES: Final = (
    (POST_RELEASE, OPERATOR_NAMESPACE),
    (PLUGIN_RELEASE, OUR_NAMESPACE),
    (PLUGIN_RELEASE, THEIR_NAMESPACE),
    ("gpu-operator", OPERATOR_NAMESPACE),
)
NAMESPACES: Final = (OPERATOR_NAMESPACE, OUR_NAMESPACE, THEIR_NAMESPACE)
DEFINITIONS: Final = f"{OPERATOR}/crds"
OPERATORS: Final = (".nvidia.com", ".mellanox.com")
"""Groups of the kinds that NVIDIA's operators bring."""
GPU_LABELS: Final = {"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present"}
NEEDED: Final = "resource.k8s.io/v1"
"""Dynamic resource allocation: Kubernetes 1.34 and later."""


class Guest(Visit):
    """The fleet in a cluster that stays."""

    def down(self) -> None:
        """Take everything out of the cluster that the demo has installed, then the fleet."""
        if self.kubeconfig.exists():
            for release, namespace in RELEASES:
                gone = ("--ignore-not-found", "--no-hooks", f"--namespace={namespace}")
                self.helm("uninstall", release, *gone, check=False)
            for words in (("namespace", *NAMESPACES), ("--filename", DEFINITIONS)):
                self.kubectl("delete", *words, "--ignore-not-found", "--wait=false", check=False)
        super().down()


class Theirs:
    """The cluster before anything is done to it; a folder keeps what kubectl remembers."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig, self._state = kubeconfig, State(folder)

    def why_not(self, nodes: int) -> str:
        """Return why the demo must not touch it; empty if it may."""
        return next(self._obstacles(nodes), "")

    def _obstacles(self, nodes: int) -> Iterator[str]:
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


class GuestDemo(Visiting):
    """The demo, whose hook runs as a process, too."""

    post_flags = ON_OURS


def main() -> None:
    """Look at the cluster, then show; the last line is for machines."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo.guest", description="The demo on your cluster.")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="names the cluster by its current context")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--mode", choices=MODES, default="")
    options = parser.parse_args()
    kubeconfig = options.kubeconfig.resolve()
    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-demo-") as folder:
        try:
            reason = Theirs(kubeconfig, Path(folder) / "look").why_not(options.nodes)
        except FAILURES as error:
            sys.exit(f"make demo: {error}")
        if reason:
            sys.exit(f"make demo: the cluster of {options.kubeconfig} is not touched, because {reason}")
        with Show(time.time()) as show:
            fleet = Guest(Path(folder) / "fleet")
            verdict = run(GuestDemo(fleet, options.nodes, show, kubeconfig, mode=options.mode))
    finish(verdict)


if __name__ == "__main__":
    main()
