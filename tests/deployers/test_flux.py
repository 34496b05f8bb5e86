"""Flux: HelmReleases in a management namespace, the operator's chart over HTTP, ours from an OCI registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from devcluster.deployers.flux import Flux
from devcluster.deployers.manifests import helm_release, helm_repository, oci_repository
from devcluster.layout import CHECKOUT
from tests.deployers.bench import Bench
from tests.deployers.story import Story
from tests.e2e.lab import CHART, NAMESPACE, OPERATOR, PLUGIN, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome, Release

HELM_NAME: Final = f"{NAMESPACE}-{RELEASE}"
"""What Flux calls a release that has a target namespace and no name of its own."""


class Commits:
    """Commits HelmReleases; the controllers do the rest."""

    def __init__(self, flux: Flux) -> None:
        self.flux = flux
        versions = {chart: flux.sources.publish(CHECKOUT / chart) for chart in (OPERATOR, CHART, PLUGIN)}
        self._versions = {CHECKOUT / chart: version for chart, version in versions.items()}
        self._repository = helm_repository("charts", flux.sources.repository)
        self._ours = oci_repository(RELEASE, f"{flux.sources.registry}/{RELEASE}", versions[CHART])

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Commit all at once and wait for ours, or for what never gets its turn after it."""
        objects = [self._repository, self._ours]
        for release in releases:
            source = self._ours if release.name == RELEASE else self._repository
            objects.append(helm_release(release, source, self._versions[release.chart]))
        self.flux.commit(objects)
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


@pytest.fixture(scope="module")
def flux(cluster: Cluster) -> Iterator[Flux]:
    """Start Flux on the cluster."""
    flux = Flux(cluster)
    flux.start()
    yield flux
    flux.stop()


@pytest.fixture(scope="module")
def story(cluster: Cluster, flux: Flux) -> Story:
    """Tell the story with Flux."""
    return Story(Bench(cluster, job=HELM_NAME), Commits(flux))


def test_install(story: Story) -> None:
    """Three HelmReleases come up in their order; ours finds no DRA driver at first."""
    story.assert_installed()


def test_upgrade(story: Story) -> None:
    """One commit changes operator and hook; ours is Ready when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: Story, flux: Flux) -> None:
    """An unchanged HelmRelease runs no hook, nor does a reconciliation that is asked for."""
    story.assert_nothing_done(runs=0)
    runs = len(story.bench.runs())
    flux.request(RELEASE)
    assert flux.settled(RELEASE).succeeded
    assert runs == len(story.bench.runs())


def test_failure_is_visible(story: Story) -> None:
    """Ready is False, and its message names the Job that failed; Flux shows no log of a hook."""
    story.assert_failure_told()
    said = story.failure.outcome.said
    assert "Ready=False UpgradeFailed" in said
    assert f"Job/{NAMESPACE}/{HELM_NAME}" in said


def test_recovery(story: Story) -> None:
    """A forced reconciliation upgrades once more, with the same chart and values."""
    story.assert_recovered()


def test_from_hook_to_plain_job(story: Story) -> None:
    """Hook, plain Job, and a changed plain Job follow each other on one release."""
    story.assert_converted()


def test_too_little_time(story: Story) -> None:
    """A timeout shorter than the migration fails the release, but not the work; with enough time it is Ready again."""
    story.assert_cut_short_and_continued()
