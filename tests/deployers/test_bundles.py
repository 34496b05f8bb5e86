"""Bundles: install, upgrade and failure with each deployment tool, from an empty cluster on.

Charts come from repositories, as in a user's bundles, over HTTP and from a registry; for one of them they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from devcluster.deployers.release import Outcome
from tests.bundler.kit import NAME
from tests.deployers.bench import NODES, Bench, Chapter, booted
from tests.deployers.bundles import ANNOTATION, Stack, carrier_of, healthy
from tests.deployers.stage import Chapters, chapter
from tests.deployers.story import BROKEN, SOON, assert_cause_reported, assert_stale_reported
from tests.e2e.lab import NAMESPACE, PLUGIN_NAME, PLUGIN_NAMESPACE, RELEASE
from tests.promises import promised

FIRST: Final = Stack("v26.3.3", "580.105.08")
NEXT: Final = Stack("v26.3.4", "580.126.20")
FAILING: Final = Stack("v26.3.5", "580.142.10")
COMPONENT: Final = Stack("v26.7.0", "590.44.01", NAME)


class BundleStory(Chapters):
    """One tool on one cluster."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__()
        self.bench, self.name = bench, name
        self.carrier = carrier_of(name, bench.cluster, (FIRST, NEXT, FAILING, COMPONENT))
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
    def component(self) -> Chapter:
        """Repair the node, and deploy the bundle of a recipe with AICR's component in place of our usual release."""
        assert self.failure
        assert not healthy(self.bench.cluster, 1)
        self.bench.annotate(BROKEN, "driver-fault", None)
        self.bench.job = NAME
        self.carrier.write(COMPONENT)
        return self.through(self.carrier.deploy, COMPONENT)

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

        The second is what the trigger costs, as docs/bundler.md says.
        """
        assert upgraded.outcome.succeeded, upgraded.outcome.said
        assert (upgraded.report["exitCode"], upgraded.report["reason"]) == (0, "Refreshed")
        with promised():
            assert (upgraded.stale, upgraded.early) == ((), [])
            assert sorted(upgraded.needless) == NODES
        assert upgraded.restarted == sorted([*NODES, *NODES])
        assert upgraded.drivers == {stack.driver}


SHOWN: Final = {
    "helm": "gpu-1 ",
    "helmfile": "gpu-1 ",
    "flux": f"Job/{NAMESPACE}/{RELEASE}",
    "argocd": "exit code 124",
    "argocd-helm": "exit code 124",
}
"""What each shows of a failure by itself: the two that print the hook's log name the node, the others the Job."""


TOOLS: Final = ("helm", "helmfile", "flux", "argocd", pytest.param("argocd-helm", marks=pytest.mark.nightly))
each = pytest.mark.parametrize("stage", TOOLS, indirect=True, scope="module")
"""Run with each tool, on a cluster of its own."""


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str, tool: str) -> Iterator[BundleStory]:
    """Begin with an empty cluster."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield BundleStory(Bench(cluster), tool)


@each
def test_install(story: BundleStory) -> None:
    """Everything comes up where no ClusterPolicies are defined yet; the DRA driver comes last."""
    story.installation.assert_refreshed([])
    assert (story.installation.report["reason"], story.installation.drivers) == ("NoPlugin", {FIRST.driver})


@each
def test_upgrade(story: BundleStory) -> None:
    """Operator, run and DRA driver in this order, also under Flux and Argo CD."""
    story.assert_upgraded(story.upgrade, NEXT)


@each
def test_failure_is_visible(story: BundleStory) -> None:
    """The tool shows it, and stops before the DRA driver."""
    failed = story.failure
    assert not failed.outcome.succeeded, failed.outcome.said
    assert SHOWN[story.name] in failed.outcome.said
    assert_stale_reported(failed)
    assert_cause_reported(failed)
    assert story.left_at == NEXT.chart


@pytest.mark.nightly
@each
def test_component_of_aicr(story: BundleStory) -> None:
    """With the values of examples/aicr the tool waits for a plain Job, which stays, and the health check passes."""
    deployed = story.component
    assert deployed.outcome.succeeded, deployed.outcome.said
    assert (deployed.report["exitCode"], deployed.report["reason"]) == (0, "Refreshed")
    with promised():
        assert deployed.stale == ()
        assert deployed.early == []
    assert deployed.drivers == {COMPONENT.driver}
    jobs = story.bench.cluster.list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert [each for each in jobs if each["metadata"]["name"].startswith(f"{NAME}-")]
    assert healthy(story.bench.cluster)
