"""Helm 3 and 4 by themselves, as a pipeline calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.deployers.helm import Helm
from tests.deployers.bench import Bench, booted
from tests.deployers.story import BROKEN, FAILED, Story
from tests.e2e.lab import RELEASE

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


@pytest.fixture(scope="module", params=[3, 4], ids=["helm-3", "helm-4"])
def story(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Story]:
    """Tell the story with one of the Helms, each on a cluster of its own."""
    version: int = request.param
    with booted(tmp_path_factory.mktemp("cluster"), f"test_helm-{version}") as cluster:
        yield Story(Bench(cluster, helm=version), Pipeline(Helm(cluster, version)))


def test_install(story: Story) -> None:
    """The first installation finds no DRA driver, and succeeds."""
    story.assert_installed()


def test_upgrade(story: Story) -> None:
    """`helm upgrade` returns when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: Story) -> None:
    """The hook runs on every upgrade."""
    story.assert_nothing_done(runs=1)


def test_failure_is_visible(story: Story) -> None:
    """The release is `failed`, and helm's own output has the node and the cause."""
    story.assert_failure_told()
    assert f"{BROKEN} " in story.failure.outcome.said
    assert "pulling image" in story.failure.outcome.said


def test_recovery(story: Story) -> None:
    """The same command again."""
    story.assert_recovered()
    pipeline = story.deployer
    assert isinstance(pipeline, Pipeline)
    (ours,) = [release for release in FAILED.releases() if release.name == RELEASE]
    assert pipeline.helm.status(ours) == "deployed"


def test_from_hook_to_plain_job(story: Story) -> None:
    """Hook, plain Job, and a changed plain Job follow each other on one release."""
    story.assert_converted()


def test_too_little_time(story: Story) -> None:
    """A timeout shorter than the migration fails the release, but not the work; with enough time it is Ready again."""
    story.assert_cut_short_and_continued()
