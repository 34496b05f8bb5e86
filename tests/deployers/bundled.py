"""The life of a platform that comes as bundles, told through one deployer, from an empty cluster on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.deployers.bench import NODES, Bench, Chapter
from tests.deployers.bundles import ANNOTATION, Stack
from tests.deployers.carriers import HELM_4, ByArgoCd, ByFlux, ByScript, Carrier, carrier_of, started
from tests.deployers.stage import Chapters, chapter
from tests.deployers.story import (
    BROKEN,
    SOON,
    assert_cause_told,
    assert_failed_honestly,
    assert_nothing_stale,
    assert_told_beside,
)
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
    """One deployer on one cluster."""

    def __init__(self, bench: Bench, deployer: str) -> None:
        super().__init__()
        self.bench, self.deployer = bench, deployer
        self.carrier: Carrier = carrier_of(deployer, bench.cluster, (FIRST, NEXT, FAILING))
        self.left_at = ""
        """What the DRA release's trigger said after the failure."""

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
    def repetition(self) -> Chapter:
        """Write and deploy the same once more."""
        assert self.upgrade
        self.carrier.write(NEXT)
        return self.through(self.carrier.deploy, NEXT)

    @chapter
    def failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.repetition
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        self.carrier.write(FAILING, post=SOON)
        told = self.bench.chapter(self.carrier.deploy)
        self.left_at = self.annotation()
        return told

    @chapter
    def recovery(self) -> Chapter:
        """Mend the node, and do what the documentation says."""
        assert self.failure
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
        told = self.through(flux.deploy, BY_FLUX)
        flux.flux.stop()
        return told

    @chapter
    def argocd_takes_over(self) -> Chapter:
        """Have Argo CD upgrade what Flux did."""
        assert self.flux_takes_over
        assert isinstance(self.carrier, ByScript)
        argocd = ByArgoCd(started(self.bench.cluster), self.carrier.charts)
        argocd.write(BY_ARGO_CD)
        return self.through(argocd.deploy, BY_ARGO_CD)

    def through(self, deploy: Callable[[], Outcome], stack: Stack) -> Chapter:
        """Deploy, and wait until the DRA driver's own roll-out is through, which no bundle waits for."""

        def deployed() -> Outcome:
            outcome = deploy()
            if outcome.succeeded:
                self.bench.until(lambda: stack.chart == self.annotation(), "the DRA driver's turn has come", 240)
                self.bench.until(self.bench.rolled_out, "all pods of the plugin are of the newest template", 120)
                self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
            return outcome

        return self.bench.chapter(deployed)

    def annotation(self) -> str:
        """Read what re-rolls the plugins when the operator's chart version changes."""
        daemonset = self.bench.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        return str(daemonset["spec"]["template"]["metadata"]["annotations"][ANNOTATION])

    # What every deployer must bring about.

    def assert_installed(self) -> None:
        """Assert that all of it comes up, the DRA driver last, and that there was nothing to protect before."""
        self.installation.assert_served([])
        assert self.installation.story["reason"] == "NoPlugin"
        assert {FIRST.driver} == self.installation.drivers

    def assert_upgraded(self, told: Chapter, stack: Stack) -> None:
        """Assert that each plugin was restarted twice: by the run, in time, and after it by the DRA release's trigger.

        The second is what the trigger costs, as docs/bundles.md says.
        """
        assert told.outcome.succeeded, told.outcome.said
        assert (0, "Refreshed") == (told.story["exitCode"], told.story["reason"])
        with promised():
            assert told.stale == ()
            assert told.early == []
            assert sorted(told.needless) == NODES
        assert sorted([*NODES, *NODES]) == told.restarted
        assert {stack.driver} == told.drivers

    def assert_nothing_done(self, runs: int) -> None:
        """Assert that the same again costs no plugin anything, however often the deployer runs us."""
        assert_nothing_stale(self.repetition, runs)

    def assert_failure_told(self) -> None:
        """Assert that the deployer says so, that the cause is told, and that the DRA driver has not had its turn."""
        assert not self.failure.outcome.succeeded, self.failure.outcome.said
        assert_failed_honestly(self.failure)
        assert_cause_told(self.failure)
        if self.bench.own:
            assert_told_beside(self.failure)
        assert NEXT.chart == self.left_at

    def assert_recovered(self) -> None:
        """Assert that the failed run and the next served each plugin once, and that the trigger cost the second."""
        told = self.recovery
        assert told.outcome.succeeded, told.outcome.said
        with promised():
            assert told.stale == ()
            assert told.early == []
        assert {FAILING.driver} == told.drivers
        assert sorted([*NODES, *NODES]) == sorted([*self.failure.restarted, *told.restarted])
