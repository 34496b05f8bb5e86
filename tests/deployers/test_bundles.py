"""Bundles: install, upgrade and failure with each deployment tool, from an empty cluster on.

All bundles make releases and objects of the same names, so that another tool can take over from the one before. Charts
come from repositories, as in a user's bundles, over HTTP and from a registry; for one of them they are copied.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from devcluster.deployers.argocd import APPLICATIONS
from devcluster.deployers.flux import HELM_RELEASES
from tests.deployers.bench import NODES, Bench, booted
from tests.deployers.bundled import BY_ARGO_CD, BY_FLUX, FAILING, FIRST, NEXT, WITH_A_PLAIN_JOB, BundleStory
from tests.deployers.bundles import HELM_4, ByHelmfile
from tests.deployers.story import assert_cause_reported, assert_reported_on_target, assert_stale_only_as_reported
from tests.e2e.lab import NAMESPACE, RELEASE
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Tell the story of these tools, each on a cluster of its own."""
    return pytest.mark.parametrize("stage", names, indirect=True, scope="module")


each = on(*SHOWN)


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str, tool: str) -> Iterator[BundleStory]:
    """Begin with an empty cluster."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield BundleStory(Bench(cluster, own=OWN.get(tool, "")), tool)


@each
def test_install(story: BundleStory) -> None:
    """Everything comes up where no ClusterPolicies are defined yet; the DRA driver comes last."""
    story.installation.assert_refreshed([])
    assert (story.installation.report["reason"], story.installation.drivers) == ("NoPlugin", {FIRST.driver})


@each
def test_upgrade(story: BundleStory) -> None:
    """Operator, run and DRA driver in this order, also under Flux and Argo CD."""
    story.assert_upgraded(story.upgrade, NEXT)


@on("helmfile")
def test_helm_4_needs_a_variable_for_diffs(story: BundleStory) -> None:
    """With Helm 4 helm-diff fails, unless a variable lets it ask Helm for a dry run, as the bundle's page says."""
    assert story.upgrade
    helmfile = story.carrier
    assert isinstance(helmfile, ByHelmfile)
    without = helmfile.run("diff", HELM_4)
    assert not without.succeeded
    assert "[dry-run validate] were all set" in without.said
    allowed = helmfile.run("diff", HELM_4, upgrade_dry_run=True)
    assert allowed.succeeded, allowed.said


@each
def test_failure_is_visible(story: BundleStory) -> None:
    """The tool shows it, and stops before the DRA driver."""
    failed = story.failure
    assert not failed.outcome.succeeded, failed.outcome.said
    assert SHOWN[story.name] in failed.outcome.said
    assert_stale_only_as_reported(failed)
    assert_cause_reported(failed)
    if story.bench.own:
        assert_reported_on_target(failed)
    assert story.left_at == NEXT.chart


@on("helm", "argocd-helm")
def test_recovery(story: BundleStory) -> None:
    """What the documentation says restarts the rest, and then the DRA driver's trigger restarts each once more."""
    recovered = story.recovery
    assert recovered.outcome.succeeded, recovered.outcome.said
    with promised():
        assert recovered.stale == ()
        assert recovered.early == []
    assert recovered.drivers == {FAILING.driver}
    assert sorted([*story.failure.restarted, *recovered.restarted]) == sorted([*NODES, *NODES])


@on("helm", "argocd-helm")
def test_with_a_plain_job(story: BundleStory) -> None:
    """The script, with Helm 4, waits for it; under Argo CD the order holds though the operation ends before it."""
    story.assert_upgraded(story.plain_upgrade, WITH_A_PLAIN_JOB)


@on("helm")
def test_flux_takes_over(story: BundleStory) -> None:
    """Releases that Helm installed continue under Flux."""
    story.assert_upgraded(story.flux_takes_over, BY_FLUX)


@on("helm")
def test_argocd_takes_over(story: BundleStory) -> None:
    """So do objects under Argo CD."""
    story.assert_upgraded(story.argocd_takes_over, BY_ARGO_CD)
