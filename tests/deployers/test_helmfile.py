"""helmfile with helm-diff: `sync` for what is new, `apply` for changes, and what the difference means for a hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.deployers.helm import Helm
from devcluster.deployers.helmfile import Helmfile
from tests.deployers.bench import Bench
from tests.deployers.story import BROKEN, FAILED, UPGRADED, Story
from tests.e2e.lab import RELEASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome, Release


class Applies:
    """Runs `helmfile apply`, and `helmfile sync` after a failed hook."""

    def __init__(self, helmfile: Helmfile) -> None:
        self.helmfile = helmfile

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Bring about what the diff shows."""
        return self.helmfile.apply(releases)

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Upgrade everything, changed or not."""
        return self.helmfile.sync(releases)


@pytest.fixture(scope="module")
def helmfile(cluster: Cluster) -> Helmfile:
    """Set helmfile up."""
    return Helmfile(cluster)


@pytest.fixture(scope="module")
def story(cluster: Cluster, helmfile: Helmfile) -> Story:
    """Tell the story with helmfile."""
    return Story(Bench(cluster), Applies(helmfile))


def _status(story: Story) -> str:
    """Give the status of our release, as `helm status` shows it."""
    (ours,) = [release for release in FAILED.releases() if release.name == RELEASE]
    return Helm(story.bench.cluster, 4).status(ours)


def test_install(story: Story) -> None:
    """The first `apply` diffs against an empty cluster, which does not know ClusterPolicies yet."""
    story.assert_installed()


def test_upgrade(story: Story) -> None:
    """`apply` returns when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: Story, helmfile: Helmfile) -> None:
    """`apply` runs no hook where the diff is empty: nothing random is rendered. `sync` runs it, for nothing."""
    story.assert_nothing_done(runs=0)
    synced = story.bench.chapter(lambda: helmfile.sync(UPGRADED.releases()))
    synced.assert_served([])
    assert (1, "NothingStale") == (synced.runs, synced.story["reason"])


def test_failure_is_visible(story: Story) -> None:
    """The command fails, and its output has the hook's log, with the node and the cause."""
    story.assert_failure_told()
    assert f"{BROKEN} " in story.failure.outcome.said
    assert "pulling image" in story.failure.outcome.said


def test_a_second_apply_hides_the_failure(story: Story, helmfile: Helmfile) -> None:
    """An unchanged `apply` after a failed hook returns 0 and runs nothing: hence `sync`, as our documents say."""
    assert not story.failure.outcome.succeeded
    second = story.bench.chapter(lambda: helmfile.apply(FAILED.releases()))
    assert second.outcome.succeeded
    assert second.runs == 0
    assert _status(story) == "failed"


def test_recovery(story: Story) -> None:
    """`helmfile sync` runs the hook again."""
    story.assert_recovered()
    assert _status(story) == "deployed"


def test_from_hook_to_plain_job(story: Story) -> None:
    """Hook, plain Job, and a changed plain Job follow each other on one release."""
    story.assert_converted()
