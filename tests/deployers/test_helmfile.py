"""helmfile with helm-diff: `sync` for what is new, `apply` for changes, and what the difference means for a hook."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from devcluster.deployers.helm import Helm
from devcluster.deployers.helmfile import Helmfile
from tests.deployers.bench import Bench, Chapter, booted
from tests.deployers.stage import chapter
from tests.deployers.story import BROKEN, FAILED, UPGRADED, Story
from tests.e2e.lab import NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

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


class HelmfileStory(Story):
    """What helmfile does besides."""

    @chapter
    def synced(self) -> Chapter:
        """Upgrade what has not changed all the same."""
        assert self.repetition
        return self.bench.chapter(lambda: self.deployer.again(UPGRADED.releases()))

    @chapter
    def unchanged_after_failure(self) -> Chapter:
        """Apply the same once more after the hook failed."""
        assert self.failure
        return self.bench.chapter(lambda: self.deployer.apply(FAILED.releases()))


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str) -> Iterator[HelmfileStory]:
    """Begin the story of helmfile with Helm 4."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        yield HelmfileStory(Bench(cluster), Applies(Helmfile(cluster)))


def _status(story: HelmfileStory) -> str:
    """Give the status of our release, as `helm status` shows it."""
    (ours,) = [release for release in FAILED.releases() if release.name == RELEASE]
    return Helm(story.bench.cluster, 4).status(ours)


def test_failing_installation_is_visible(story: HelmfileStory) -> None:
    """The first `apply` diffs against an empty cluster, which knows no ClusterPolicies yet, and fails with the log."""
    story.assert_failed_installation_told()
    assert f"{BROKEN} " in story.failed_installation.outcome.said


def test_install(story: HelmfileStory) -> None:
    """The next `apply` goes on from the failed installation."""
    story.assert_installed()


def test_upgrade(story: HelmfileStory) -> None:
    """`apply` returns when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: HelmfileStory) -> None:
    """`apply` runs no hook where the diff is empty: nothing random is rendered. `sync` runs it, for nothing."""
    story.assert_nothing_done(runs=0)
    story.synced.assert_served([])
    assert (1, "NothingStale") == (story.synced.runs, story.synced.story["reason"])


def test_failure_is_visible(story: HelmfileStory) -> None:
    """The command fails, and its output has the hook's log, with the node and the cause."""
    story.assert_failure_told()
    assert f"{BROKEN} " in story.failure.outcome.said
    assert "pulling image" in story.failure.outcome.said


def test_a_second_apply_hides_the_failure(story: HelmfileStory) -> None:
    """An unchanged `apply` after a failed hook returns 0 and runs nothing: hence `sync`, as our documents say."""
    assert not story.failure.outcome.succeeded
    assert story.unchanged_after_failure.outcome.succeeded
    assert story.unchanged_after_failure.runs == 0
    assert _status(story) == "failed"


def test_recovery(story: HelmfileStory) -> None:
    """`helmfile sync` runs the hook again."""
    story.assert_recovered()
    assert _status(story) == "deployed"


def test_from_hook_to_plain_job(story: HelmfileStory) -> None:
    """A bundler's chart of plain manifests replaces ours on one release."""
    story.assert_converted()


def test_plain_upgrade(story: HelmfileStory) -> None:
    """With `wait` and `waitForJobs` the command returns when the last node is served."""
    story.assert_upgraded_plainly()


def test_plain_nothing_to_do(story: HelmfileStory) -> None:
    """The same again does not run the Job, which has its name and its verdict already."""
    story.assert_nothing_done_plainly()


def test_plain_failure_is_visible(story: HelmfileStory) -> None:
    """The command fails and names the Job, without its log."""
    story.assert_failed_plainly()
    assert not story.plain_failure.outcome.succeeded
    assert f"Job/{NAMESPACE}/{RELEASE}-" in story.plain_failure.outcome.said


def test_plain_recovery(story: HelmfileStory) -> None:
    """`helmfile sync`, once the failed Job is deleted."""
    story.assert_recovered_plainly()
    assert _status(story) == "deployed"


def test_handed_over(story: HelmfileStory) -> None:
    """With `wait` the command returns once the follower is Ready and has taken over; the same again runs nothing."""
    story.assert_handed_over(runs=0)
