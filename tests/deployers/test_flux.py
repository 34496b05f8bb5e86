"""Flux: HelmReleases in a management namespace, the operator's chart over HTTP, ours from an OCI registry."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from devcluster.deployers.flux import HELM_RELEASES, Flux
from devcluster.deployers.flux import NAMESPACE as FLUX_NAMESPACE
from devcluster.deployers.manifests import helm_release, helm_repository, oci_repository
from devcluster.layout import CHECKOUT
from tests.deployers.bench import Bench, Chapter, booted
from tests.deployers.stage import chapter
from tests.deployers.story import BROKEN, Story, assert_told_beside
from tests.e2e.lab import CHART, NAMESPACE, OPERATOR, PLUGIN, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from devcluster.deployers.manifests import Object
    from devcluster.deployers.release import Outcome, Release

OURS: Final = {
    "apiVersion": "helm.toolkit.fluxcd.io/v2",
    "kind": "HelmRelease",
    "namespace": FLUX_NAMESPACE,
    "name": RELEASE,
}
"""Our HelmRelease, as `eventTargets` names it."""
HELM_NAME: Final = f"{NAMESPACE}-{RELEASE}"
"""What Flux calls a release that has a target namespace and no name of its own."""


class Commits:
    """Commits HelmReleases; the controllers do the rest."""

    def __init__(self, flux: Flux) -> None:
        self.flux = flux
        self._versions = {
            CHECKOUT / chart: flux.sources.publish(CHECKOUT / chart) for chart in (OPERATOR, CHART, PLUGIN)
        }
        self._repository = helm_repository("charts", flux.sources.repository)

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Commit all at once and wait for ours, or for what never gets its turn after it."""
        ours = self._ours(releases)
        objects = [self._repository, ours]
        for release in map(told_on, releases):
            source = ours if release.name == RELEASE else self._repository
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

    def _ours(self, releases: Sequence[Release]) -> Object:
        """Publish our chart, or what stands in its place, and say where it is."""
        (release,) = [each for each in releases if each.name == RELEASE]
        if release.chart not in self._versions:
            self._versions[release.chart] = self.flux.sources.publish(release.chart)
        return oci_repository(RELEASE, f"{self.flux.sources.registry}/{RELEASE}", self._versions[release.chart])


def told_on(release: Release) -> Release:
    """Have failures of ours told on its HelmRelease, as bundles do."""
    ours = release.chart == CHECKOUT / CHART
    return replace(release, values={**release.values, "eventTargets": [OURS]}) if ours else release


class FluxStory(Story):
    """What Flux does besides."""

    def __init__(self, bench: Bench, commits: Commits) -> None:
        super().__init__(bench, commits)
        self.flux = commits.flux

    @chapter
    def asked_again(self) -> Chapter:
        """Ask for a reconciliation without a change."""
        assert self.repetition

        def ask() -> Outcome:
            self.flux.request(RELEASE)
            return self.flux.settled(RELEASE)

        return self.bench.chapter(ask)


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str) -> Iterator[FluxStory]:
    """Begin the story of Flux."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        flux = Flux(cluster)
        flux.start()
        yield FluxStory(Bench(cluster, job=HELM_NAME, own=f"{HELM_RELEASES}/{RELEASE}"), Commits(flux))


def test_failing_installation_is_visible(story: FluxStory) -> None:
    """Ready is False from the first; the message names the Job, and what describes it the node and the cause."""
    story.assert_failed_installation_told()
    assert_told_beside(story.failed_installation)
    described = story.bench.cluster.kubectl("describe", "helmrelease", RELEASE, "-n", FLUX_NAMESPACE).stdout
    assert {BROKEN, "DriverFailing"} <= set(re.findall(r"[\w-]+", described))
    said = story.failed_installation.outcome.said
    assert "Ready=False InstallFailed" in said
    assert f"Job/{NAMESPACE}/{HELM_NAME}" in said


def test_install(story: FluxStory) -> None:
    """Another commit goes on from the failed installation; ours finds no DRA driver at first."""
    story.assert_installed()
    assert story.first_installation.beside == []


def test_upgrade(story: FluxStory) -> None:
    """One commit changes operator and hook; ours is Ready when the last node is served, and says so."""
    story.assert_upgraded()
    assert any("(Refreshed)" in told for told in story.upgrade.beside)


def test_nothing_to_do(story: FluxStory) -> None:
    """An unchanged HelmRelease runs no hook, nor does a reconciliation that is asked for."""
    story.assert_nothing_done(runs=0)
    story.asked_again.assert_served([])
    assert story.asked_again.runs == 0


def test_failure_is_visible(story: FluxStory) -> None:
    """Ready is False, and its message names the Job; Flux shows no log of a hook, the HelmRelease's Events say more."""
    story.assert_failure_told()
    assert_told_beside(story.failure)
    said = story.failure.outcome.said
    assert "Ready=False UpgradeFailed" in said
    assert f"Job/{NAMESPACE}/{HELM_NAME}" in said


def test_recovery(story: FluxStory) -> None:
    """A forced reconciliation upgrades once more, with the same chart and values."""
    story.assert_recovered()


def test_digest_in_the_version(story: FluxStory) -> None:
    """From an OCIRepository the chart's version has a `+` and a digest, which no label may have."""
    assert story.recovery.outcome.succeeded
    config = story.bench.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{HELM_NAME}")
    assert re.fullmatch(rf"{RELEASE}-[0-9.]+_[0-9a-f]+", config["metadata"]["labels"]["helm.sh/chart"])


def test_from_hook_to_plain_job(story: FluxStory) -> None:
    """A bundler's chart of plain manifests replaces ours on one release."""
    story.assert_converted()


def test_plain_upgrade(story: FluxStory) -> None:
    """Flux waits for Jobs by itself: ours is Ready when the last node is served."""
    story.assert_upgraded_plainly()


def test_plain_nothing_to_do(story: FluxStory) -> None:
    """The same again does not run the Job, which has its name and its verdict already."""
    story.assert_nothing_done_plainly()


def test_plain_failure_is_visible(story: FluxStory) -> None:
    """Ready is False, and its message names the Job that failed."""
    story.assert_failed_plainly()
    said = story.plain_failure.outcome.said
    assert "Ready=False UpgradeFailed" in said
    assert f"Job/{NAMESPACE}/{RELEASE}-" in said


def test_plain_recovery(story: FluxStory) -> None:
    """A forced reconciliation, once the failed Job is deleted."""
    story.assert_recovered_plainly()


def test_too_little_time(story: FluxStory) -> None:
    """A timeout shorter than the migration fails the release, but not the work; with enough time it is Ready again."""
    story.assert_cut_short_and_continued()


def test_handed_over(story: FluxStory) -> None:
    """Ours is Ready once the follower is, and has taken over; the same again runs nothing."""
    story.assert_handed_over(runs=0)
