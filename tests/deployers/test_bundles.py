"""Bundles are accepted by the real deployers: a platform that changes its deployer with every upgrade.

All bundles make releases and objects of the same names, so that each deployer takes over from the one before. Charts
come from repositories, as in a user's bundles, over HTTP and from a registry; for one of them they are copied.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.deployers.bench import NODES, booted
from tests.deployers.platform import (
    BY_ARGO_CD,
    BY_FLUX,
    BY_HELM_3,
    BY_HELM_4,
    BY_HELMFILE,
    BY_PARENT_CHART,
    FAILING,
    HELM_4,
    Platform,
)
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


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


def test_the_same_bundle_again(story: Platform) -> None:
    """Helm runs the hook, for nothing; Flux and Argo CD run nothing."""
    story.helm_3_again.assert_served([])
    assert story.helm_3_again.story["reason"] == "NothingStale"
    for told in (story.flux_again, story.argocd_again):
        told.assert_served([])
        assert told.runs == 0


def test_argocd_stops_at_a_failed_run(story: Platform) -> None:
    """With the bundle's patch the parent fails too, and the DRA driver is not touched."""
    told = story.argocd_failure
    assert (124, "Stalled") == (told.story["exitCode"], told.story["reason"])
    assert "Failed" in told.outcome.said
    with promised():
        assert told.early == []
        assert told.needless == []


def test_argocd_goes_on_after_recovery(story: Platform) -> None:
    """Ours is synced by hand, and then the parent; the DRA driver has its turn, and each plugin its second restart."""
    told = story.argocd_recovery
    assert told.outcome.succeeded, told.outcome.said
    with promised():
        assert told.stale == ()
        assert told.early == []
    assert {FAILING.driver} == told.drivers
    assert sorted([*NODES, *NODES]) == sorted([*story.argocd_failure.restarted, *told.restarted])


def test_argocd_helm_with_a_plain_job(story: Platform) -> None:
    """A parent chart gives the same order, also where the operation ends before the Job does."""
    story.assert_upgraded(story.argocd_helm, BY_PARENT_CHART)
