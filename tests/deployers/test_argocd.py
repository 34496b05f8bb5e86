"""Argo CD: three Applications of one git repository, synced automatically and in no order."""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import yaml

from devcluster.deployers.argocd import APPLICATIONS, ArgoCd
from devcluster.deployers.argocd import NAMESPACE as ARGOCD_NAMESPACE
from devcluster.deployers.manifests import RETRIES, application
from devcluster.layout import CHECKOUT
from tests.deployers.bench import Bench, Chapter, booted
from tests.deployers.stage import chapter
from tests.deployers.story import BROKEN, FAILED, UPGRADED, Story, assert_told_beside
from tests.e2e.lab import CHART, NAMESPACE, RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from devcluster.deployers.release import Outcome, Release

ALL_WELL: Final = "sync=Synced health=Healthy"
"""Also beside a failed hook."""
OURS: Final = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "namespace": ARGOCD_NAMESPACE,
    "name": RELEASE,
}
"""Our Application, as `eventTargets` names it."""
CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}"


class Repository:
    """Commits charts and values to the repository that the Applications follow."""

    def __init__(self, argocd: ArgoCd) -> None:
        self.argocd = argocd

    def write(self, releases: Sequence[Release], message: str) -> str:
        """Commit the releases and their Applications; return the revision."""
        git = self.argocd.repository
        for release in releases:
            copy = git.folder / "charts" / release.chart.name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(release.chart, copy)
            (git.folder / "values").mkdir(exist_ok=True)
            (git.folder / "values" / f"{release.name}.yaml").write_text(yaml.safe_dump(told_on(release).values))
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


def told_on(release: Release) -> Release:
    """Have failures of ours told on its Application, as bundles do."""
    ours = release.chart == CHECKOUT / CHART
    return replace(release, values={**release.values, "eventTargets": [OURS]}) if ours else release


class ArgoStory(Story):
    """What Argo CD does besides."""

    def __init__(self, bench: Bench, repository: Repository) -> None:
        super().__init__(bench, repository)
        self.argocd = repository.argocd

    @chapter
    def synced(self) -> Chapter:
        """Press the Sync button though nothing differs."""
        assert self.repetition
        return self.bench.chapter(lambda: self.deployer.again(UPGRADED.releases()))

    @chapter
    def hook_alone(self) -> Chapter:
        """Change the hook and nothing else; a Job may delete itself at once."""
        assert self.recovery
        changed = replace(FAILED, post={**FAILED.post, "ttlSecondsAfterFinished": 0})
        return self.bench.chapter(lambda: self.deployer.apply(changed.releases()))

    @chapter
    def healed(self) -> Chapter:
        """Change what the hook's release has in the cluster, and have Argo CD change it back."""
        assert self.hook_alone
        before = self.argocd.began(RELEASE)

        def drift() -> Outcome:
            self.bench.cluster.patch(CONFIG, {"data": {"trigger": "drift"}})
            return self.argocd.synced_again(RELEASE, since=before)

        return self.bench.chapter(drift)

    def until_health(self, wanted: str) -> None:
        """Wait until the Application of ours shows a health: after its operation, which ends before a plain Job."""
        self.bench.until(
            lambda: self.argocd.application(RELEASE)["status"].get("health", {}).get("status") == wanted, wanted, 120
        )


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str) -> Iterator[ArgoStory]:
    """Begin the story of Argo CD."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        argocd = ArgoCd(cluster)
        argocd.start()
        yield ArgoStory(Bench(cluster, own=f"{APPLICATIONS}/{RELEASE}"), Repository(argocd))


def _assert_shown(outcome: Outcome) -> None:
    """Assert that the operation's result names the Job and the exit code, beside badges that say all is well."""
    assert not outcome.succeeded
    assert ALL_WELL in outcome.said
    assert "\noperation=Failed: one or more synchronization tasks completed unsuccessfully" in outcome.said
    assert re.search(r"^Job gpu-operator-post PostSync Failed: .*exit code 124", outcome.said, re.MULTILINE)


def test_failing_installation_is_visible(story: ArgoStory) -> None:
    """The first operation is Failed, and was tried again; what describes the Application names node and cause."""
    story.assert_failed_installation_told()
    assert_told_beside(story.failed_installation)
    described = story.bench.cluster.kubectl("describe", "application", RELEASE, "-n", ARGOCD_NAMESPACE).stdout
    assert {BROKEN, "DriverFailing"} <= set(re.findall(r"[\w-]+", described))
    _assert_shown(story.failed_installation.outcome)
    assert story.failed_installation.runs == 1 + RETRIES


def test_install(story: ArgoStory) -> None:
    """The hook becomes PostSync; it waits for the operator, which comes up beside it."""
    story.assert_installed()


def test_upgrade(story: ArgoStory) -> None:
    """One commit upgrades operator and hook at the same time; the sync ends when the last node is served."""
    story.assert_upgraded()


def test_nothing_to_do(story: ArgoStory) -> None:
    """A commit that changes nothing runs no hook; the Sync button runs it, for nothing."""
    story.assert_nothing_done(runs=0)
    story.synced.assert_served([])
    assert (1, "NothingStale") == (story.synced.runs, story.synced.story["reason"])
    assert story.synced.beside == []


def test_failure_is_visible(story: ArgoStory) -> None:
    """The operation is Failed, and was tried again; node and cause are in the Application's Events."""
    story.assert_failure_told()
    assert_told_beside(story.failure)
    _assert_shown(story.failure.outcome)
    assert story.failure.runs == 1 + RETRIES


def test_recovery(story: ArgoStory) -> None:
    """The Sync button."""
    story.assert_recovered()


def test_a_change_of_the_hook_alone_is_synced(story: ArgoStory) -> None:
    """Argo CD compares no hooks; the ConfigMap beside it shows the change."""
    story.hook_alone.assert_served([])
    assert (1, "NothingStale") == (story.hook_alone.runs, story.hook_alone.story["reason"])


def test_self_heal_runs_no_hook(story: ArgoStory) -> None:
    """Healing the ConfigMap is a partial sync, which skips hooks: drift costs nothing."""
    story.healed.assert_served([])
    assert story.healed.runs == 0
    assert story.bench.cluster.get(CONFIG)["data"]["trigger"] != "drift"


def test_from_hook_to_plain_job(story: ArgoStory) -> None:
    """A bundler's chart of plain manifests replaces ours in one Application."""
    story.assert_converted()


def test_plain_upgrade(story: ArgoStory) -> None:
    """The operation ends before the Job does; the Application is Healthy again when the last node is served."""
    story.assert_upgraded_plainly()
    story.until_health("Healthy")


def test_plain_nothing_to_do(story: ArgoStory) -> None:
    """The same again does not run the Job, which has its name and its verdict already."""
    story.assert_nothing_done_plainly()


def test_plain_failure_is_visible(story: ArgoStory) -> None:
    """The operation has succeeded all the same; the Application is Degraded, which a hook would not make it."""
    story.assert_failed_plainly()
    assert story.plain_failure.outcome.succeeded
    story.until_health("Degraded")


def test_plain_recovery(story: ArgoStory) -> None:
    """Deleted, the failed Job is brought back by self-heal or by the Sync button, and runs again."""
    story.assert_recovered_plainly()
    story.until_health("Healthy")


def test_handed_over(story: ArgoStory) -> None:
    """The sync ends once the follower has taken over; the Application is Synced and Healthy with it."""
    story.assert_handed_over(runs=0)
    assert ALL_WELL in story.aftermath.outcome.said
