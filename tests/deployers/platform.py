"""A platform that is upgraded by one bundle after the other, each through another deployer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import yaml

from devcluster.deployers.argocd import APPLICATIONS, ArgoCd
from devcluster.deployers.charts import ChartSources
from devcluster.deployers.flux import Flux
from devcluster.deployers.helmfile import Helmfile
from devcluster.deployers.release import Outcome
from devcluster.layout import CHECKOUT
from tests.deployers import bundles
from tests.deployers.bench import NODES, PLUGIN_RELEASE, Bench, Chapter
from tests.deployers.bundles import ANNOTATION, Stack
from tests.deployers.stage import Chapters, chapter
from tests.deployers.story import BROKEN, SOON
from tests.e2e.lab import CHART, OPERATOR, PLUGIN, PLUGIN_NAME, PLUGIN_NAMESPACE, RELEASE
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Values

HELM_3, HELM_4 = 3, 4
BY_HELMFILE: Final = Stack("v26.3.3", "580.105.08")
BY_HELM_3: Final = Stack("v26.3.4", "580.126.20")
BY_HELM_4: Final = Stack("v26.3.5", "580.142.10")
BY_FLUX: Final = Stack("v26.7.0", "590.44.01")
BY_ARGO_CD: Final = Stack("v26.7.1", "590.48.01")
FAILING: Final = Stack("v26.7.2", "595.45.04")
BY_PARENT_CHART: Final = Stack("v26.7.3", "595.58.03")
STACKS: Final = (BY_HELMFILE, BY_HELM_3, BY_HELM_4, BY_FLUX, BY_ARGO_CD, FAILING, BY_PARENT_CHART)
PARENT: Final = "gpu-stack"


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
    def helm_3_again(self) -> Chapter:
        """Run the same script once more."""
        assert self.helm_3
        return self._through(partial(bundles.deploy_helm, self.cluster, self.folder / "helm-3", HELM_3, "--plain-http"))

    @chapter
    def helm_4(self) -> Chapter:
        """Upgrade with the same script, Helm 4, and a plain Job."""
        assert self.helm_3_again
        return self._by_script(BY_HELM_4, HELM_4, "--no-hook")

    @chapter
    def flux(self) -> Chapter:
        """Let Flux take the releases over."""
        assert self.helm_4
        bundles.write(BY_FLUX, "flux", self.folder / "flux", charts=self._usual)
        return self._through(partial(bundles.deploy_flux, self._flux, self.folder / "flux"))

    @chapter
    def flux_again(self) -> Chapter:
        """Apply the same once more, and let Flux go."""
        assert self.flux
        again = self._through(partial(bundles.deploy_flux, self._flux, self.folder / "flux"))
        self._flux.stop()
        return again

    @chapter
    def argocd(self) -> Chapter:
        """Let Argo CD take the objects over."""
        assert self.flux_again
        return self._through(partial(self._by_argocd, BY_ARGO_CD))

    @chapter
    def argocd_again(self) -> Chapter:
        """Commit the same once more."""
        assert self.argocd
        return self._through(partial(self._by_argocd, BY_ARGO_CD))

    @chapter
    def argocd_failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull, with no second tries."""
        assert self.argocd_again
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")

        def failed() -> Outcome:
            self._write_argocd(FAILING, post=SOON)
            (file,) = self._argocd_folder.glob(f"*-{RELEASE}/application.yaml")
            application = yaml.safe_load(file.read_text())
            application["spec"]["syncPolicy"]["retry"]["limit"] = 0
            file.write_text(yaml.safe_dump(application))
            self.cluster.patch(f"{APPLICATIONS}/{PARENT}", {"spec": {"syncPolicy": {"retry": {"limit": 0}}}})
            self._argo.repository.commit("failing")
            self._argo.refresh(PARENT)
            self.bench.until(lambda: self._argo.operation(PARENT).startswith("Failed"), "the parent failed", 240)
            return Outcome(succeeded=False, said=self._argo.operation(RELEASE))

        return self.bench.chapter(failed)

    @chapter
    def argocd_recovery(self) -> Chapter:
        """Mend the node, sync ours, and then the parent."""
        assert self.argocd_failure
        self.bench.annotate(BROKEN, "driver-fault", None)

        def mended() -> Outcome:
            before = self._argo.began(RELEASE)
            self._argo.sync(RELEASE)
            outcome = self._argo.synced_again(RELEASE, since=before)
            self._argo.sync(PARENT)
            self.bench.until(lambda: FAILING.chart == self.annotation(), "the DRA driver's turn has come", 240)
            return outcome

        return self._through(mended)

    @chapter
    def argocd_helm(self) -> Chapter:
        """Give Argo CD a parent chart, charts that are copied beside it, and a plain Job."""
        assert self.argocd_recovery
        folder = self._argo.repository.folder / "argocd-helm"
        git = (f"--git-url={self._argo.repository.url}", "--git-path=argocd-helm")
        bundles.write(BY_PARENT_CHART, "argocd-helm", folder, *git, "--no-hook")
        return self._through(partial(bundles.deploy_argocd_helm, self._argo, folder, "argocd-helm"))

    @chapter
    def _flux(self) -> Flux:
        """Start Flux."""
        flux = Flux(self.cluster, self.sources)
        flux.start()
        return flux

    @chapter
    def _argo(self) -> ArgoCd:
        """Start Argo CD."""
        argocd = ArgoCd(self.cluster)
        argocd.start()
        return argocd

    @property
    def _argocd_folder(self) -> Path:
        return self._argo.repository.folder / "argocd"

    def _write_argocd(self, stack: Stack, post: Values | None = None) -> None:
        git = (f"--git-url={self._argo.repository.url}", "--git-path=argocd")
        bundles.write(stack, "argocd", self._argocd_folder, *git, charts=self._over_http, post=post)

    def _by_argocd(self, stack: Stack) -> Outcome:
        self._write_argocd(stack)
        return bundles.deploy_argocd(self._argo, self._argocd_folder, "deploy")

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
