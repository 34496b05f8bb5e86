"""Releases in the words of the GitOps tools: HelmReleases for Flux, Applications for Argo CD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.deployers import argocd, flux

if TYPE_CHECKING:
    from devcluster.deployers.release import Release

Object = dict[str, Any]

RETRIES = 1
"""Argo CD retries a failed automated sync five times by default, each with a whole run of the hook."""


def helm_repository(name: str, url: str) -> Object:
    """Describe a folder of packages behind HTTP."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": {"name": name, "namespace": flux.NAMESPACE},
        "spec": {"interval": flux.INTERVAL, "url": url},
    }


def oci_repository(name: str, url: str, tag: str) -> Object:
    """Describe one chart in a registry without TLS."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "OCIRepository",
        "metadata": {"name": name, "namespace": flux.NAMESPACE},
        "spec": {
            "interval": flux.INTERVAL,
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
        spec = {"chart": release.chart.name, "version": version, "interval": flux.INTERVAL}
        reference = {"chart": {"spec": {**spec, "sourceRef": {"kind": kind, "name": name}}}}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": release.name, "namespace": flux.NAMESPACE},
        "spec": {
            "interval": flux.INTERVAL,
            "targetNamespace": release.namespace,
            "install": {"createNamespace": True, **waits},
            "upgrade": waits,
            "dependsOn": [{"name": need} for need in release.needs],
            "timeout": f"{release.timeout}s",
            "values": release.values,
            **reference,
        },
    }


def application(release: Release, repository: str, folder: str, **policy: object) -> Object:
    """Describe a release whose chart and values stand in a git repository, synced automatically."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": release.name, "namespace": argocd.NAMESPACE},
        "spec": {
            "project": "default",
            "source": {
                "repoURL": repository,
                "targetRevision": "main",
                "path": folder,
                "helm": {"valueFiles": ["values.yaml", f"../../values/{release.name}.yaml"]},
            },
            "destination": {"server": "https://kubernetes.default.svc", "namespace": release.namespace},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["CreateNamespace=true"],
                "retry": {"limit": RETRIES, "backoff": {"duration": "2s"}},
                **policy,
            },
        },
    }
