"""The life of a platform that comes as bundles: install, upgrade, failure; and what follows for two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.deployers.bench import NODES, Bench, Chapter
from tests.deployers.bundles import ANNOTATION, HELM_4, ByArgoCd, ByFlux, ByScript, Stack, carrier_of
from tests.deployers.stage import Chapters, chapter
from tests.deployers.story import BROKEN, SOON
from tests.e2e.lab import PLUGIN_NAME, PLUGIN_NAMESPACE
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.deployers.release import Outcome

FIRST: Final = Stack("v26.3.3", "580.105.08")
NEXT: Final = Stack("v26.3.4", "580.126.20")
FAILING: Final = Stack("v26.3.5", "580.142.10")
WITH_A_PLAIN_JOB: Final = Stack("v26.7.0", "590.44.01")
BY_FLUX: Final = Stack("v26.7.1", "590.48.01")
BY_ARGO_CD: Final = Stack("v26.7.2", "595.45.04")


class BundleStory(Chapters):
    """One tool on one cluster."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__()
        self.bench, self.name = bench, name
        self.carrier = carrier_of(name, bench.cluster, (FIRST, NEXT, FAILING))
        self.left_at = ""
        """The DRA release's trigger after the failure."""

    @chapter
    def installation(self) -> Chapter:
        """Install everything where there is nothing, not even the definition of a ClusterPolicy."""
        self.carrier.write(FIRST)
        return self.through(self.carrier.deploy, FIRST)

    @chapter
    def upgrade(self) -> Chapter:
        """Deploy the bundle of another recipe."""
        assert self.installation
        self.carrier.write(NEXT)
        return self.through(self.carrier.deploy, NEXT)

    @chapter
    def failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.upgrade
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        self.carrier.write(FAILING, post=SOON)
        failed = self.bench.chapter(self.carrier.deploy)
        self.left_at = self.annotation()
        return failed

    @chapter
    def recovery(self) -> Chapter:
        """Repair the node, and do what the documentation says."""
        assert self.failure
        assert isinstance(self.carrier, (ByScript, ByArgoCd))
        self.bench.annotate(BROKEN, "driver-fault", None)
        return self.through(self.carrier.again, FAILING)

    @chapter
    def plain_upgrade(self) -> Chapter:
        """Upgrade with a plain Job in the hook's place; the script with Helm 4."""
        assert self.recovery
        carrier = self.carrier
        if isinstance(carrier, ByScript):
            carrier = ByScript(carrier.cluster, carrier.charts, HELM_4)
        carrier.write(WITH_A_PLAIN_JOB, "--no-hook")
        return self.through(carrier.deploy, WITH_A_PLAIN_JOB)

    @chapter
    def flux_takes_over(self) -> Chapter:
        """Have Flux upgrade what Helm installed."""
        assert self.plain_upgrade
        assert isinstance(self.carrier, ByScript)
        flux = ByFlux(self.bench.cluster, self.carrier.charts)
        flux.write(BY_FLUX)
        upgraded = self.through(flux.deploy, BY_FLUX)
        flux.flux.stop()
        return upgraded

    @chapter
    def argocd_takes_over(self) -> Chapter:
        """Have Argo CD upgrade what Flux did."""
        assert self.flux_takes_over
        assert isinstance(self.carrier, ByScript)
        argocd = ByArgoCd(self.bench.cluster, self.carrier.charts)
        argocd.write(BY_ARGO_CD)
        return self.through(argocd.deploy, BY_ARGO_CD)

    def through(self, deploy: Callable[[], Outcome], stack: Stack) -> Chapter:
        """Deploy, and wait until the DRA driver's own rollout is through, which no bundle waits for."""

        def deployed() -> Outcome:
            outcome = deploy()
            if outcome.succeeded:
                self.bench.until(lambda: stack.chart == self.annotation(), "the DRA driver's turn has come", 240)
                self.bench.until(self.bench.rolled_out, "all pods of the plugin are of the newest template", 120)
                self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
            return outcome

        return self.bench.chapter(deployed)

    def annotation(self) -> str:
        """Read what restarts the plugins when the operator's chart version changes."""
        daemonset = self.bench.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        return str(daemonset["spec"]["template"]["metadata"]["annotations"][ANNOTATION])

    def assert_upgraded(self, upgraded: Chapter, stack: Stack) -> None:
        """Assert that each plugin was restarted twice: by the run, in time, and after it by the DRA release's trigger.

        The second is what the trigger costs, as docs/bundles.md says.
        """
        assert upgraded.outcome.succeeded, upgraded.outcome.said
        assert (upgraded.report["exitCode"], upgraded.report["reason"]) == (0, "Refreshed")
        with promised():
            assert upgraded.stale == ()
            assert upgraded.early == []
            assert sorted(upgraded.needless) == NODES
        assert upgraded.restarted == sorted([*NODES, *NODES])
        assert upgraded.drivers == {stack.driver}
