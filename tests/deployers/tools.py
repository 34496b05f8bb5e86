"""How each deployment tool deploys releases of charts: Helm, helmfile, Flux and Argo CD."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

import yaml

from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from devcluster.deployers.argocd import ArgoCd, application
from devcluster.deployers.flux import Flux, helm_release, helm_repository, oci_repository
from devcluster.deployers.helm import Helm
from devcluster.deployers.helmfile import Helmfile
from devcluster.deployers.release import Object, Outcome, Release, apply
from tests.e2e.lab import CHART, NAMESPACE, OPERATOR, PLUGIN, RELEASE

FLUX_NAME: Final = f"{NAMESPACE}-{RELEASE}"
"""What Flux calls a release that has a target namespace and no name of its own."""


class ByHelm:
    """A pipeline with `helm upgrade --install` for each release, in order."""

    def __init__(self, cluster: Cluster, version: int) -> None:
        self.apply = self.again = Helm(cluster, version).apply


class ByHelmfile:
    """`helmfile apply`, and `helmfile sync` after a failed hook; with Helm 4."""

    def __init__(self, cluster: Cluster) -> None:
        helmfile = Helmfile(cluster)
        self.apply, self.again = helmfile.apply, helmfile.sync


class ByFlux:
    """HelmReleases in a management namespace: the operator's chart over HTTP, ours from an OCI registry."""

    def __init__(self, cluster: Cluster) -> None:
        self.flux = Flux(cluster)
        self.flux.start()
        self._versions = {
            CHECKOUT / chart: self.flux.sources.publish(CHECKOUT / chart) for chart in (OPERATOR, CHART, PLUGIN)
        }
        self._repository = helm_repository("charts", self.flux.sources.repository)

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Commit all at once and wait for ours, or for what never gets its turn after it."""
        ours = self._ours(releases)
        objects = [self._repository, ours]
        for release in releases:
            source = ours if release.name == RELEASE else self._repository
            objects.append(helm_release(release, source, self._versions[release.chart]))
        apply(self.flux.cluster, objects)
        outcomes = {}
        for release in releases:
            outcomes[release.name] = self.flux.settled(release.name)
            if not outcomes[release.name].succeeded:
                break
        return outcomes[RELEASE]

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Do what `flux reconcile helmrelease --force` does."""
        assert releases
        self.flux.request(RELEASE, "forceAt")
        return self.flux.settled(RELEASE)

    def _ours(self, releases: Sequence[Release]) -> Object:
        """Publish our chart, or what replaces it, and describe where it is."""
        (release,) = [each for each in releases if each.name == RELEASE]
        if release.chart not in self._versions:
            self._versions[release.chart] = self.flux.sources.publish(release.chart)
        return oci_repository(RELEASE, f"{self.flux.sources.registry}/{RELEASE}", self._versions[release.chart])


class ByArgoCd:
    """Three Applications of one git repository, synced automatically and in no order."""

    def __init__(self, cluster: Cluster) -> None:
        self.argocd = ArgoCd(cluster)
        self.argocd.start()
        # Of two Applications that create one namespace at the same moment, one fails, which uses up its only retry.
        apply(self.argocd.cluster, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Commit charts and values, and wait for the operations on that commit, or until there are none to do."""
        git = self.argocd.repository
        for release in releases:
            copy = git.folder / "charts" / release.chart.name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(release.chart, copy)
            (git.folder / "values").mkdir(exist_ok=True)
            (git.folder / "values" / f"{release.name}.yaml").write_text(yaml.safe_dump(release.values))
        revision = git.commit("deploy")
        apply(self.argocd.cluster, [application(each, git.url, f"charts/{each.chart.name}") for each in releases])
        self.argocd.refresh(*(release.name for release in releases))
        return {release.name: self.argocd.settled(release.name, revision) for release in releases}[RELEASE]

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Do what the Sync button does."""
        assert releases
        before = self.argocd.began(RELEASE)
        self.argocd.sync(RELEASE)
        return self.argocd.synced_again(RELEASE, since=before)


Tool = ByHelm | ByHelmfile | ByFlux | ByArgoCd
