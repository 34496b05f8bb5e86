"""How each deployer carries a bundle: writes it, deploys it, and deploys it again once what made it fail is gone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol

from devcluster.deployers.argocd import ArgoCd
from devcluster.deployers.charts import ChartSources
from devcluster.deployers.flux import Flux
from devcluster.deployers.helmfile import Helmfile
from devcluster.layout import CHECKOUT
from tests.deployers import bundles
from tests.deployers.bench import PLUGIN_RELEASE
from tests.e2e.lab import CHART, OPERATOR, PLUGIN, RELEASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome, Values
    from tests.deployers.bundles import Stack

HELM_3, HELM_4 = 3, 4
RETRY_LIMIT: Final = re.compile(r"(\bretry:\s+limit:) \d+")


class Carrier(Protocol):
    """What a story needs of a deployer."""

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Write the bundle; with values of ours it is to fail, and gets no second tries."""

    def deploy(self) -> Outcome:
        """Do what the bundle's page says; give what the deployer says of ours, or of all."""

    def again(self) -> Outcome:
        """Do what the documentation says after a failed run whose cause is gone."""


class Charts:
    """A repository and a registry with the charts that a bundle names."""

    def __init__(self, cluster: Cluster) -> None:
        self.sources = ChartSources(cluster)
        self.sources.start()
        self._published: set[str] = set()
        for chart in (CHART, PLUGIN):
            self.sources.publish(CHECKOUT / chart)
        self.over_http: dict[str, str] = dict.fromkeys(bundles.RELEASES, self.sources.repository)
        # As in reality: the operator's chart from a repository, the two others from a registry.
        self.usual = {**self.over_http, **dict.fromkeys((RELEASE, PLUGIN_RELEASE), self.sources.registry)}

    def publish(self, stack: Stack) -> None:
        """Have the operator's chart of that version."""
        if stack.chart not in self._published:
            self._published.add(stack.chart)
            self.sources.publish(CHECKOUT / OPERATOR, stack.chart)


class ByScript:
    """The bundle's own script, with one of the Helms."""

    def __init__(self, cluster: Cluster, charts: Charts, helm: int) -> None:
        self.cluster, self.charts, self.helm = cluster, charts, helm
        self.folder = cluster.state / "bundles" / f"helm-{helm}"

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a registry, which has no TLS here."""
        self.charts.publish(stack)
        bundles.write(stack, "helm", self.folder, *flags, charts=self.charts.usual, post=post)

    def deploy(self) -> Outcome:
        """Run the script."""
        return bundles.deploy_helm(self.cluster, self.folder, self.helm, "--plain-http")

    again = deploy


class ByHelmfile:
    """helmfile with Helm 3."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self.cluster, self.charts = cluster, charts
        self.folder = cluster.state / "bundles" / "helmfile"

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a repository."""
        self.charts.publish(stack)
        bundles.write(stack, "helmfile", self.folder, *flags, charts=self.charts.over_http, post=post)

    def deploy(self) -> Outcome:
        """Apply what differs."""
        return self.run("apply")

    def again(self) -> Outcome:
        """Upgrade everything: after a failed hook nothing differs."""
        return self.run("sync")

    def run(self, verb: str, helm: int = HELM_3, *, upgrade_dry_run: bool = False) -> Outcome:
        """Run helmfile on the bundle, with nothing that its page does not ask for."""
        return Helmfile(self.cluster, helm).run(
            verb, file=self.folder / "helmfile.yaml", upgrade_dry_run=upgrade_dry_run
        )


class ByFlux:
    """Flux, with charts from a repository and from a registry."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self.charts = charts
        self.flux = Flux(cluster, charts.sources)
        self.flux.start()
        self.folder = cluster.state / "bundles" / "flux"

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name repository and registry."""
        self.charts.publish(stack)
        bundles.write(stack, "flux", self.folder, *flags, charts=self.charts.usual, post=post)

    def deploy(self) -> Outcome:
        """Apply the kustomization."""
        return bundles.deploy_flux(self.flux, self.folder)

    def again(self) -> Outcome:
        """Force ours; what depends on it follows by itself."""
        self.flux.request(RELEASE, "forceAt")
        return bundles.flux_settled(self.flux, (RELEASE, PLUGIN_RELEASE))


class ByArgoCd:
    """Argo CD: an Application that holds the others, or a chart of them."""

    def __init__(self, argocd: ArgoCd, charts: Charts | None) -> None:
        self.argocd, self.charts = argocd, charts
        self._name = "argocd" if charts else "argocd-helm"
        self.folder = argocd.repository.folder / self._name
        self._deploy: Callable[..., Outcome] = bundles.deploy_argocd if charts else bundles.deploy_argocd_helm

    def write(self, stack: Stack, *flags: str, post: Values | None = None) -> None:
        """Name a repository; the parent chart's bundle has the charts copied beside it."""
        if self.charts:
            self.charts.publish(stack)
        git = (f"--git-url={self.argocd.repository.url}", f"--git-path={self._name}")
        charts = self.charts.over_http if self.charts else None
        bundles.write(stack, self._name, self.folder, *git, *flags, charts=charts, post=post)
        self._retries = 0 if post else None
        if post:
            for file in (*self.folder.rglob("app*.yaml"), *self.folder.glob(f"templates/{RELEASE}.yaml")):
                file.write_text(RETRY_LIMIT.sub(r"\1 0", file.read_text()))

    def deploy(self) -> Outcome:
        """Commit, and wait for the parent and its children, or for the parent's failure."""
        return self._deploy(self.argocd, self.folder, "deploy", retries=self._retries)

    def again(self) -> Outcome:
        """Sync ours, and then the parent."""
        before = self.argocd.began(RELEASE)
        self.argocd.sync(RELEASE)
        outcome = self.argocd.synced_again(RELEASE, since=before)
        self.argocd.sync(bundles.PARENT)
        return outcome


def carrier_of(name: str, cluster: Cluster, stacks: Iterable[Stack]) -> Carrier:
    """Start what a deployer needs on an empty cluster; its name is that of `bundle --deployer`."""
    if name == "argocd-helm":
        return ByArgoCd(started(cluster), None)
    charts = Charts(cluster)
    for stack in stacks:  # all of them now: Flux looks at a repository every ten minutes
        charts.publish(stack)
    if name == "argocd":
        return ByArgoCd(started(cluster), charts)
    kinds: dict[str, Callable[[Cluster, Charts], Carrier]] = {
        "helm": lambda cluster, charts: ByScript(cluster, charts, HELM_3),
        "helmfile": ByHelmfile,
        "flux": ByFlux,
    }
    return kinds[name](cluster, charts)


def started(cluster: Cluster) -> ArgoCd:
    """Start Argo CD."""
    argocd = ArgoCd(cluster)
    argocd.start()
    return argocd
