"""Helm 3 and 4 by themselves, as a pipeline calls them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from devcluster.deployers.helm import Helm
from tests.deployers.bench import Bench, booted
from tests.deployers.story import BROKEN, FAILED, HELM_3, Story
from tests.e2e.lab import NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.deployers.release import Outcome, Release


class Pipeline:
    """Runs `helm upgrade --install` for each release, in order."""

    def __init__(self, helm: Helm) -> None:
        self.helm = helm

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Upgrade all."""
        return self.helm.apply(releases)

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Run the same pipeline again."""
        return self.helm.apply(releases)


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str, version: int) -> Iterator[Story]:
    """Begin the story of one of the Helms, each on a cluster of its own."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield Story(Bench(cluster, helm=version), Pipeline(Helm(cluster, version)))


pytestmark = pytest.mark.parametrize("stage", [3, 4], ids=["helm-3", "helm-4"], indirect=True, scope="module")


def _status(story: Story) -> str:
    """Give the status of our release, as `helm status` shows it."""
    (ours,) = [release for release in FAILED.releases() if release.name == RELEASE]
    return Helm(story.bench.cluster, story.bench.helm).status(ours)


def test_failing_installation_is_visible(story: Story) -> None:
    """`helm upgrade --install` fails on a first installation too, with the log; the release is there, as `failed`."""
    story.assert_failed_installation_told()
    assert f"{BROKEN} " in story.failed_installation.outcome.said
    assert _status(story) == "failed"


def test_install(story: Story) -> None:
    """The same command goes on from the failed installation; it finds no DRA driver, and succeeds."""
    story.assert_installed()


def test_upgrade(story: Story) -> None:
    """`helm upgrade` returns when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: Story) -> None:
    """The hook runs on every upgrade."""
    story.assert_nothing_done(runs=1)


def test_failure_is_visible(story: Story) -> None:
    """Helm's own output has the node and the cause."""
    story.assert_failure_told()
    assert f"{BROKEN} " in story.failure.outcome.said
    assert "pulling image" in story.failure.outcome.said


def test_recovery(story: Story) -> None:
    """The same command again."""
    story.assert_recovered()
    assert _status(story) == "deployed"


def test_from_hook_to_plain_job(story: Story) -> None:
    """A bundler's chart of plain manifests replaces ours on one release."""
    story.assert_converted()


def test_plain_upgrade(story: Story) -> None:
    """With `--wait --wait-for-jobs` Helm returns when the last node is served."""
    story.assert_upgraded_plainly()


def test_plain_nothing_to_do(story: Story) -> None:
    """The same again does not run the Job, which has its name and its verdict already."""
    story.assert_nothing_done_plainly()


def test_plain_failure_is_visible(story: Story) -> None:
    """Helm 4 names the Job at once; Helm 3 waits until its time is over. Neither has the log, which Events have."""
    story.assert_failed_plainly()
    outcome = story.plain_failure.outcome
    assert not outcome.succeeded
    named = f"Job/{NAMESPACE}/{RELEASE}-" in outcome.said
    assert named == (story.bench.helm != HELM_3)


def test_plain_recovery(story: Story) -> None:
    """The same command, once the failed Job is deleted."""
    story.assert_recovered_plainly()
    assert _status(story) == "deployed"


def test_too_little_time(story: Story) -> None:
    """A timeout shorter than the migration fails the release, but not the work; with enough time it is Ready again."""
    story.assert_cut_short_and_continued()


def test_handed_over(story: Story) -> None:
    """With `--wait` Helm returns once the follower is Ready and has taken over, hours before a fleet is through."""
    story.assert_handed_over(runs=1)
