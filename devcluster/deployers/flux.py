"""Flux's source-controller, helm-controller and kustomize-controller."""

from __future__ import annotations

import os
import time
import urllib.request
from typing import TYPE_CHECKING

from devcluster.boot.controlplane import ONE_PROCESSOR, SPARE_GARBAGE
from devcluster.boot.ports import free_ports
from devcluster.build import binaries
from devcluster.client import path
from devcluster.deployers.outcome import Object, Outcome, install_crds, settled

if TYPE_CHECKING:
    from devcluster.boot.cluster import Cluster

NAMESPACE = "flux-system"
CONTROLLERS = ("source-controller", "helm-controller", "kustomize-controller")
COLLECTIONS = (
    path("helm.toolkit.fluxcd.io/v2", "helmreleases"),
    path("kustomize.toolkit.fluxcd.io/v1", "kustomizations"),
    *(path("source.toolkit.fluxcd.io/v1", kind) for kind in ("helmrepositories", "helmcharts", "ocirepositories")),
)
HELM_RELEASES = path("helm.toolkit.fluxcd.io/v2", "helmreleases", namespace=NAMESPACE)
KUSTOMIZATIONS = path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", namespace=NAMESPACE)


class Flux:
    """Flux on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Install the CRDs, start everything, and return when the controllers are ready."""
        self.cluster = cluster
        programs = binaries.ensure(CONTROLLERS)
        port, *ports = free_ports(1 + 2 * len(programs))
        install_crds(cluster, [program.parent for program in programs.values()], COLLECTIONS)
        cluster.kubectl("create", "namespace", NAMESPACE)
        storage = f"127.0.0.1:{port}"
        data = cluster.state / "flux"
        (data / "tmp").mkdir(parents=True)
        more = {
            "source-controller": [
                f"--storage-path={data}",
                f"--storage-addr={storage}",
                f"--storage-adv-addr={storage}",
            ],
            # Between two looks at what a release depends on; usual: 30 s.
            **{name: ["--requeue-dependency=2s"] for name in CONTROLLERS[1:]},
        }
        for (name, program), metrics, health in zip(programs.items(), ports[::2], ports[1::2], strict=True):
            command = [
                str(program),
                "--enable-leader-election=false",
                "--watch-all-namespaces=true",
                "--events-addr=",  # no notification-controller
                *more.get(name, []),
                f"--metrics-addr=127.0.0.1:{metrics}",
                f"--health-addr=127.0.0.1:{health}",
            ]
            cluster.launch(name, command, self._environment())
        cluster.wait_until("Flux is ready", lambda: all(_answers(each) for each in ports[1::2]))

    def _environment(self) -> dict[str, str]:
        """Act as the administrator, with files below the state directory."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "RUNTIME_NAMESPACE": NAMESPACE,
            "HOME": str(self.cluster.state / "flux"),
            "TMPDIR": str(self.cluster.state / "flux" / "tmp"),
            "NO_PROXY": "127.0.0.1,localhost",
            **SPARE_GARBAGE,
            **ONE_PROCESSOR,
        }

    def request(self, name: str, *keys: str) -> None:
        """Do what `flux reconcile helmrelease` does; `forceAt` is its --force, `resetAt` its --reset."""
        now = str(time.time_ns())
        annotations = {f"reconcile.fluxcd.io/{key}": now for key in ("requestedAt", *keys)}
        self.cluster.patch(f"{HELM_RELEASES}/{name}", {"metadata": {"annotations": annotations}})

    def settled(self, name: str) -> Outcome:
        """Wait until Flux has come to a verdict on what was asked last, and give it."""
        return settled(self.cluster, f"{HELM_RELEASES}/{name}", _verdict, _shown)


def _answers(port: int) -> bool:
    """Whether a controller reports that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return True
    except OSError:
        return False


def _verdict(release: Object) -> bool | None:
    """Return whether Flux is through with a HelmRelease's present generation and request, and how it ended."""
    status, generation = release.get("status", {}), release["metadata"]["generation"]
    conditions = {each["type"]: each for each in status.get("conditions", [])}
    ready = conditions.get("Ready", {})
    asked = release["metadata"].get("annotations", {}).get("reconcile.fluxcd.io/requestedAt")
    handled = (
        status.get("observedGeneration") == generation
        and ready.get("observedGeneration") == generation
        and ready.get("status") in {"True", "False"}
        and ready.get("reason") != "DependencyNotReady"
        and conditions.get("Reconciling", {}).get("status") != "True"
        and asked in (None, status.get("lastHandledReconcileAt"))
    )
    return ready["status"] == "True" if handled else None


def _shown(release: Object) -> str:
    """Return the conditions as `kubectl describe` shows them."""
    return "\n".join(
        f"{each['type']}={each['status']} {each['reason']}: {each['message']}"
        for each in release.get("status", {}).get("conditions", [])
    )
