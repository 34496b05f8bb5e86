"""Argo CD: three Applications of one git repository, synced automatically and in no order."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from devcluster.deployers.argocd import ArgoCd
from devcluster.deployers.manifests import RETRIES, application
from tests.deployers.bench import Bench
from tests.deployers.story import FAILED, UPGRADED, Story
from tests.e2e.lab import NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome, Release

BADGES_THAT_HIDE_IT: Final = "sync=Synced health=Healthy"


class Repository:
    """Commits charts and values to the repository that the Applications follow."""

    def __init__(self, argocd: ArgoCd) -> None:
        self.argocd = argocd

    def write(self, releases: Sequence[Release], message: str) -> str:
        """Commit the releases and their Applications; return the revision."""
        git = self.argocd.repository
        for release in releases:
            shutil.copytree(release.chart, git.folder / "charts" / release.chart.name, dirs_exist_ok=True)
            (git.folder / "values").mkdir(exist_ok=True)
            (git.folder / "values" / f"{release.name}.yaml").write_text(yaml.safe_dump(release.values))
        revision = git.commit(message)
        self.argocd.commit([application(each, git.url, f"charts/{each.chart.name}") for each in releases])
        self.argocd.refresh(*(release.name for release in releases))
        return revision

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Commit, and wait for the operation on that commit, or for the word that there is none to do."""
        revision = self.write(releases, "deploy")
        outcomes = {release.name: self.argocd.settled(release.name, revision) for release in releases}
        return outcomes[RELEASE]

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Do what the Sync button does."""
        assert releases
        before = self.argocd.began(RELEASE)
        self.argocd.sync(RELEASE)
        return self.argocd.synced_again(RELEASE, since=before)


@pytest.fixture(scope="module")
def argocd(cluster: Cluster) -> Iterator[ArgoCd]:
    """Start Argo CD on the cluster."""
    argocd = ArgoCd(cluster)
    argocd.start()
    yield argocd
    argocd.stop()


@pytest.fixture(scope="module")
def story(cluster: Cluster, argocd: ArgoCd) -> Story:
    """Tell the story with Argo CD."""
    return Story(Bench(cluster), Repository(argocd))


def test_install(story: Story) -> None:
    """The hook becomes PostSync; it waits for the operator, which comes up beside it."""
    story.assert_installed()


def test_upgrade(story: Story) -> None:
    """One commit upgrades operator and hook at the same time; the sync ends when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: Story) -> None:
    """A commit that changes nothing runs no hook; the Sync button runs it, for nothing."""
    story.assert_nothing_done(runs=0)
    synced = story.bench.chapter(lambda: story.deployer.again(UPGRADED.releases()))
    synced.assert_served([])
    assert (1, "NothingStale") == (synced.runs, synced.story["reason"])


def test_failure_is_visible(story: Story) -> None:
    """The operation is Failed and its result names the Job and the exit code, beside badges that say all is well."""
    story.assert_failure_told()
    said = story.failure.outcome.said
    assert BADGES_THAT_HIDE_IT in said
    assert "Job gpu-operator-post PostSync Failed" in said
    assert "exit code 124" in said
    assert story.failure.runs == 1 + RETRIES


def test_recovery(story: Story) -> None:
    """The Sync button."""
    story.assert_recovered()


def test_a_change_of_the_hook_alone_is_synced(story: Story) -> None:
    """Argo CD compares no hooks; the ConfigMap beside it shows the change. A Job may delete itself at once."""
    assert story.recovery.outcome.succeeded
    changed = replace(FAILED, post={**FAILED.post, "ttlSecondsAfterFinished": 0})
    chapter = story.bench.chapter(lambda: story.deployer.apply(changed.releases()))
    chapter.assert_served([])
    assert (1, "NothingStale") == (chapter.runs, chapter.story["reason"])


def test_self_heal_runs_no_hook(story: Story, argocd: ArgoCd) -> None:
    """Healing the ConfigMap is a partial sync, which skips hooks: drift costs nothing."""
    assert story.recovery.outcome.succeeded
    runs, before = len(story.bench.runs()), argocd.began(RELEASE)
    config = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}"
    story.bench.cluster.patch(config, {"data": {"trigger": "drift"}})
    assert argocd.synced_again(RELEASE, since=before).succeeded
    assert story.bench.cluster.get(config)["data"]["trigger"] != "drift"
    assert runs == len(story.bench.runs())


def test_from_hook_to_plain_job(story: Story) -> None:
    """Hook, plain Job, and a changed plain Job follow each other on one release."""
    story.assert_converted()
