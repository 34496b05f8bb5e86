"""Flux's source-controller and helm-controller, and HelmReleases as a platform team commits them."""

from __future__ import annotations

import os
import time
import urllib.request
from typing import TYPE_CHECKING

from devcluster.boot.controlplane import ONE_PROCESSOR, SPARE_GARBAGE
from devcluster.boot.ports import free_ports
from devcluster.build import binaries
from devcluster.client import path
from devcluster.deployers.release import Object, Outcome, Release, install_crds, settled
from devcluster.deployers.sources import ChartSources

if TYPE_CHECKING:
    from devcluster.boot.cluster import Cluster

NAMESPACE = "flux-system"
CONTROLLERS = ("source-controller", "helm-controller")
KUSTOMIZE = "kustomize-controller"
COLLECTIONS = (
    path("helm.toolkit.fluxcd.io/v2", "helmreleases"),
    *(path("source.toolkit.fluxcd.io/v1", kind) for kind in ("helmrepositories", "helmcharts", "ocirepositories")),
)
HELM_RELEASES = path("helm.toolkit.fluxcd.io/v2", "helmreleases", namespace=NAMESPACE)
KUSTOMIZATIONS = path("kustomize.toolkit.fluxcd.io/v1", "kustomizations", namespace=NAMESPACE)

INTERVAL = "10m"
"""Nothing in a test waits for a periodic reconciliation."""


class Flux:
    """Flux on one cluster. Charts come from loopback sources: the operator's over HTTP, ours from a registry."""

    def __init__(self, cluster: Cluster, sources: ChartSources | None = None, *, kustomize: bool = False) -> None:
        self.cluster = cluster
        self.sources = sources or ChartSources(cluster)
        self._serve = sources is None
        self._programs = binaries.ensure([*CONTROLLERS, KUSTOMIZE] if kustomize else CONTROLLERS)
        self._storage, *ports = free_ports(1 + 2 * len(self._programs))
        self._metrics, self._health = ports[::2], ports[1::2]

    def start(self) -> None:
        """Install the CRDs, start everything, and return when the controllers are ready."""
        collections = (*COLLECTIONS, KUSTOMIZATIONS) if KUSTOMIZE in self._programs else COLLECTIONS
        install_crds(self.cluster, [program.parent for program in self._programs.values()], collections)
        self.cluster.kubectl("create", "namespace", NAMESPACE)
        if self._serve:
            self.sources.start()
        storage = f"127.0.0.1:{self._storage}"
        data = self.cluster.state / "flux"
        (data / "tmp").mkdir(parents=True)
        more = {
            "source-controller": [
                f"--storage-path={data}",
                f"--storage-addr={storage}",
                f"--storage-adv-addr={storage}",
            ],
            # Between two looks at what a release depends on; usual: 30 s.
            **{name: ["--requeue-dependency=2s"] for name in ("helm-controller", KUSTOMIZE)},
        }
        for (name, program), metrics, health in zip(self._programs.items(), self._metrics, self._health, strict=True):
            command = [
                str(program),
                "--enable-leader-election=false",
                "--watch-all-namespaces=true",
                "--events-addr=",  # no notification-controller
                *more.get(name, []),
                f"--metrics-addr=127.0.0.1:{metrics}",
                f"--health-addr=127.0.0.1:{health}",
            ]
            self.cluster.launch(name, command, self._environment())
        self.cluster.wait_until("Flux is ready", lambda: all(_answers(port) for port in self._health))

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

    # What a platform team does.

    def request(self, name: str, *keys: str) -> None:
        """Do what `flux reconcile helmrelease` does; `forceAt` is its --force, `resetAt` its --reset."""
        now = str(time.time_ns())
        annotations = {f"reconcile.fluxcd.io/{key}": now for key in ("requestedAt", *keys)}
        self.cluster.patch(f"{HELM_RELEASES}/{name}", {"metadata": {"annotations": annotations}})

    # What its user sees.

    def settled(self, name: str) -> Outcome:
        """Wait until Flux has come to a verdict on what was asked last, and give it."""
        return settled(self.cluster, f"{HELM_RELEASES}/{name}", _verdict, _shown)

    def release(self, name: str) -> Object:
        """Read a HelmRelease."""
        return self.cluster.get(f"{HELM_RELEASES}/{name}")


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


def helm_repository(name: str, url: str) -> Object:
    """Describe a folder of packages behind HTTP."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"interval": INTERVAL, "url": url},
    }


def oci_repository(name: str, url: str, tag: str) -> Object:
    """Describe one chart in a registry without TLS."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "OCIRepository",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "interval": INTERVAL,
            "insecure": True,
            "url": url,
            "ref": {"tag": tag},
            "layerSelector": {"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "copy"},
        },
    }


def helm_release(release: Release, source: Object, version: str) -> Object:
    """Describe a release; without a releaseName, so that Flux calls it NAMESPACE-NAME.

    What does not ask to be waited for is not: one node that is down would hold up everything else. Hooks are anyway.
    """
    waits: Object = {"disableWait": not release.wait}
    kind, name = source["kind"], source["metadata"]["name"]
    reference: Object = {"chartRef": {"kind": kind, "name": name}}
    if kind == "HelmRepository":
        spec = {"chart": release.chart.name, "version": version, "interval": INTERVAL}
        reference = {"chart": {"spec": {**spec, "sourceRef": {"kind": kind, "name": name}}}}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": release.name, "namespace": NAMESPACE},
        "spec": {
            "interval": INTERVAL,
            "targetNamespace": release.namespace,
            "install": {"createNamespace": True, **waits},
            "upgrade": waits,
            "dependsOn": [{"name": need} for need in release.needs],
            "timeout": f"{release.timeout}s",
            "values": release.values,
            **reference,
        },
    }
