"""Bundles are accepted by the real deployers: a platform that changes its deployer with every upgrade.

All bundles make releases and objects of the same names, so that each deployer takes over from the one before. Charts
come from repositories, as in a user's bundles, over HTTP and from a registry; for one of them they are copied.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from devcluster.deployers.argocd import ArgoCd
from devcluster.deployers.charts import ChartSources
from devcluster.deployers.flux import Flux
from devcluster.deployers.helmfile import Helmfile
from devcluster.layout import CHECKOUT
from tests.deployers import bundles
from tests.deployers.bench import NODES, PLUGIN_RELEASE, Bench, Chapter, booted
from tests.deployers.bundles import ANNOTATION, Stack
from tests.deployers.stage import Chapters, chapter
from tests.e2e.lab import CHART, OPERATOR, PLUGIN, PLUGIN_NAME, PLUGIN_NAMESPACE, RELEASE
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome

HELM_3, HELM_4 = 3, 4
BY_HELMFILE: Final = Stack("v26.3.3", "580.105.08")
BY_HELM_3: Final = Stack("v26.3.4", "580.126.20")
BY_HELM_4: Final = Stack("v26.3.5", "580.142.10")
BY_FLUX: Final = Stack("v26.7.0", "590.44.01")
BY_ARGO_CD: Final = Stack("v26.7.1", "590.48.01")
BY_PARENT_CHART: Final = Stack("v26.7.2", "595.45.04")
STACKS: Final = (BY_HELMFILE, BY_HELM_3, BY_HELM_4, BY_FLUX, BY_ARGO_CD, BY_PARENT_CHART)


class Platform(Chapters):
    """One cluster that is upgraded by one bundle after the other."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster, self.bench = cluster, Bench(cluster)
        self.folder = cluster.state / "bundles"
        self.sources = ChartSources(cluster)
        self.sources.start()
        for stack in STACKS:
            self.sources.publish(CHECKOUT / OPERATOR, stack.chart)
        for chart in (CHART, PLUGIN):
            self.sources.publish(CHECKOUT / chart)
        over_http = dict.fromkeys(bundles.RELEASES, self.sources.repository)
        self._over_http = over_http
        # As in reality: the operator's chart from a repository, the two others from a registry.
        self._usual = {**over_http, **dict.fromkeys((RELEASE, PLUGIN_RELEASE), self.sources.registry)}

    @chapter
    def helmfile(self) -> Chapter:
        """Install everything on an empty cluster, with Helm 3."""
        bundles.write(BY_HELMFILE, "helmfile", self.folder / "helmfile", charts=self._over_http)
        return self._through(partial(self.run_helmfile, "apply", HELM_3))

    @chapter
    def helmfile_again(self) -> Chapter:
        """Apply the same once more."""
        assert self.helmfile
        return self._through(partial(self.run_helmfile, "apply", HELM_3))

    @chapter
    def helm_3(self) -> Chapter:
        """Upgrade with the script, from a registry without TLS."""
        assert self.helmfile_again
        return self._by_script(BY_HELM_3, HELM_3)

    @chapter
    def helm_4(self) -> Chapter:
        """Upgrade with the same script, Helm 4, and a plain Job."""
        assert self.helm_3
        return self._by_script(BY_HELM_4, HELM_4, "--no-hook")

    @chapter
    def flux(self) -> Chapter:
        """Let Flux take the releases over."""
        assert self.helm_4
        flux = Flux(self.cluster, self.sources)
        flux.start()
        bundles.write(BY_FLUX, "flux", self.folder / "flux", charts=self._usual)
        through = self._through(partial(bundles.deploy_flux, flux, self.folder / "flux"))
        flux.stop()
        return through

    @chapter
    def argocd(self) -> Chapter:
        """Let Argo CD take the objects over."""
        assert self.flux
        folder = self._argocd.repository.folder / "argocd"
        git = (f"--git-url={self._argocd.repository.url}", "--git-path=argocd")
        bundles.write(BY_ARGO_CD, "argocd", folder, *git, charts=self._over_http)
        return self._through(partial(bundles.deploy_argocd, self._argocd, folder, "argocd"))

    @chapter
    def argocd_helm(self) -> Chapter:
        """Give Argo CD a parent chart, charts that are copied beside it, and a plain Job."""
        assert self.argocd
        folder = self._argocd.repository.folder / "argocd-helm"
        git = (f"--git-url={self._argocd.repository.url}", "--git-path=argocd-helm")
        bundles.write(BY_PARENT_CHART, "argocd-helm", folder, *git, "--no-hook")
        return self._through(partial(bundles.deploy_argocd_helm, self._argocd, folder, "argocd-helm"))

    @chapter
    def _argocd(self) -> ArgoCd:
        """Start Argo CD."""
        argocd = ArgoCd(self.cluster)
        argocd.start()
        return argocd

    def run_helmfile(self, verb: str, helm: int, *, upgrade_dry_run: bool = False) -> Outcome:
        """Run helmfile on the bundle, with nothing that its page does not ask for."""
        file = self.folder / "helmfile" / "helmfile.yaml"
        return Helmfile(self.cluster, helm).run(verb, file=file, upgrade_dry_run=upgrade_dry_run)

    def _by_script(self, stack: Stack, helm: int, *flags: str) -> Chapter:
        folder = self.folder / f"helm-{helm}"
        bundles.write(stack, "helm", folder, *flags, charts=self._usual)
        return self._through(partial(bundles.deploy_helm, self.cluster, folder, helm, "--plain-http"))

    def _through(self, deploy: Callable[[], Outcome]) -> Chapter:
        """Deploy a bundle, and wait until the DRA driver's own roll-out is through, which no bundle waits for."""

        def deployed() -> Outcome:
            outcome = deploy()
            if outcome.succeeded:
                self.bench.until(self.bench.rolled_out, "all pods of the plugin are of the newest template", 120)
                self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
            return outcome

        return self.bench.chapter(deployed)

    def annotation(self) -> str:
        """Read what re-rolls the plugins when the operator's chart version changes."""
        daemonset = self.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        return str(daemonset["spec"]["template"]["metadata"]["annotations"][ANNOTATION])

    def assert_upgraded(self, told: Chapter, stack: Stack) -> None:
        """Assert that each plugin was restarted twice: by the run, in time, and after it by the DRA release's trigger.

        The second is what the trigger costs, as docs/bundles.md says.
        """
        assert told.outcome.succeeded, told.outcome.said
        assert (0, "Refreshed") == (told.story["exitCode"], told.story["reason"])
        with promised():
            assert told.stale == ()
            assert told.early == []
        assert sorted([*NODES, *NODES]) == told.restarted
        assert sorted(told.needless) == NODES
        assert {stack.driver} == told.drivers
        assert stack.chart == self.annotation()


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str) -> Iterator[Platform]:
    """Begin with an empty cluster."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield Platform(cluster)


def test_helmfile(story: Platform) -> None:
    """`helmfile apply` installs everything where nobody knows ClusterPolicies yet; the DRA driver comes last."""
    told = story.helmfile
    told.assert_served([])
    assert told.story["reason"] == "NoConsumer"
    assert BY_HELMFILE.chart == story.annotation()


def test_nothing_to_do(story: Platform) -> None:
    """The same bundle again: nothing differs, and nothing runs."""
    story.helmfile_again.assert_served([])
    assert story.helmfile_again.runs == 0


def test_helm_4_needs_a_variable_for_diffs(story: Platform) -> None:
    """With Helm 4 helm-diff fails, unless it is told to ask Helm for a dry run, as the bundle's page says."""
    assert story.helmfile_again
    without = story.run_helmfile("diff", HELM_4)
    assert not without.succeeded
    assert "[dry-run validate] were all set" in without.said
    told = story.run_helmfile("diff", HELM_4, upgrade_dry_run=True)
    assert told.succeeded, told.said


def test_helm_3(story: Platform) -> None:
    """The script upgrades with charts from a repository and from a registry."""
    story.assert_upgraded(story.helm_3, BY_HELM_3)


def test_helm_4_with_a_plain_job(story: Platform) -> None:
    """The script waits for a plain Job as for a hook."""
    story.assert_upgraded(story.helm_4, BY_HELM_4)


def test_flux(story: Platform) -> None:
    """Flux upgrades in order, with charts from a repository and from a registry."""
    story.assert_upgraded(story.flux, BY_FLUX)


def test_argocd(story: Platform) -> None:
    """With the bundle's patch Argo CD keeps the order: the DRA driver is synced when the run is through."""
    story.assert_upgraded(story.argocd, BY_ARGO_CD)


def test_argocd_helm_with_a_plain_job(story: Platform) -> None:
    """A parent chart gives the same order, also where the operation ends before the Job does."""
    story.assert_upgraded(story.argocd_helm, BY_PARENT_CHART)
