"""Bundles through the whole life of a platform, each deployer from an empty cluster on.

All bundles make releases and objects of the same names, so that another deployer can take over from the one before.
Charts come from repositories, as in a user's bundles, over HTTP and from a registry; for one of them they are copied.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.deployers.argocd import APPLICATIONS
from devcluster.deployers.flux import HELM_RELEASES
from tests.deployers.bench import Bench, booted
from tests.deployers.bundled import BY_ARGO_CD, BY_FLUX, NEXT, WITH_A_PLAIN_JOB, BundleStory
from tests.deployers.carriers import HELM_4, ByHelmfile
from tests.e2e.lab import NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS_AGAIN: Final = {"helm": 1, "helmfile": 0, "flux": 0, "argocd": 0, "argocd-helm": 0}
"""How often each runs our Job when the same is deployed again."""
SHOWN: Final = {
    "helm": "gpu-1 ",
    "helmfile": "gpu-1 ",
    "flux": f"Job/{NAMESPACE}/{RELEASE}",
    "argocd": "exit code 124",
    "argocd-helm": "exit code 124",
}
"""What each shows of a failure by itself: the two that print the hook's log name the node, the others the Job."""
OWN: Final = {
    "flux": f"{HELM_RELEASES}/{RELEASE}",
    "argocd": f"{APPLICATIONS}/{RELEASE}",
    "argocd-helm": f"{APPLICATIONS}/{RELEASE}",
}
"""The object that shows it, whose Events then name the node."""


def on(*names: str) -> pytest.MarkDecorator:
    """Tell the story of these deployers, each on a cluster of its own."""
    return pytest.mark.parametrize("stage", names, indirect=True, scope="module")


each = on(*RUNS_AGAIN)


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str, deployer: str) -> Iterator[BundleStory]:
    """Begin with an empty cluster."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield BundleStory(Bench(cluster, own=OWN.get(deployer, "")), deployer)


@each
def test_install(story: BundleStory) -> None:
    """Everything comes up where nobody knows ClusterPolicies yet; the DRA driver comes last."""
    story.assert_installed()


@each
def test_upgrade(story: BundleStory) -> None:
    """Operator, run and DRA driver in this order, also under Flux and Argo CD."""
    story.assert_upgraded(story.upgrade, NEXT)


@each
def test_nothing_to_do(story: BundleStory) -> None:
    """Helm runs the hook, for nothing; the others run nothing."""
    story.assert_nothing_done(RUNS_AGAIN[story.deployer])


@each
def test_failure_is_visible(story: BundleStory) -> None:
    """The deployer shows it, and stops before the DRA driver."""
    story.assert_failure_told()
    assert SHOWN[story.deployer] in story.failure.outcome.said


@each
def test_recovery(story: BundleStory) -> None:
    """What the documentation says brings the rest, and then the DRA driver has its turn."""
    story.assert_recovered()


@on("helmfile")
def test_helm_4_needs_a_variable_for_diffs(story: BundleStory) -> None:
    """With Helm 4 helm-diff fails, unless it is told to ask Helm for a dry run, as the bundle's page says."""
    assert story.recovery
    helmfile = story.carrier
    assert isinstance(helmfile, ByHelmfile)
    without = helmfile.run("diff", HELM_4)
    assert not without.succeeded
    assert "[dry-run validate] were all set" in without.said
    told = helmfile.run("diff", HELM_4, upgrade_dry_run=True)
    assert told.succeeded, told.said


@on("helm", "argocd-helm")
def test_with_a_plain_job(story: BundleStory) -> None:
    """The script, with Helm 4, waits for it; under Argo CD the order holds though the operation ends before it."""
    story.assert_upgraded(story.plain_upgrade, WITH_A_PLAIN_JOB)


@on("helm")
def test_flux_takes_over(story: BundleStory) -> None:
    """Releases that Helm installed go on under Flux."""
    story.assert_upgraded(story.flux_takes_over, BY_FLUX)


@on("helm")
def test_argocd_takes_over(story: BundleStory) -> None:
    """So do objects under Argo CD."""
    story.assert_upgraded(story.argocd_takes_over, BY_ARGO_CD)
