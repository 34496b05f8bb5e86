"""The chart with each deployment tool through the whole life of a platform; plain manifests until they fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import pytest

from devcluster.boot.cluster import Cluster
from devcluster.deployers.argocd import RETRIES
from devcluster.deployers.helm import Helm
from tests.deployers.bench import NODES, Bench, Chapter, booted
from tests.deployers.story import (
    BROKEN,
    CONTROLLED,
    FAILED,
    NEXT,
    PLAIN_UPGRADED,
    Story,
    assert_cause_reported,
    assert_no_wrong_restart,
    assert_refreshed_together,
    assert_stale_reported,
)
from tests.deployers.tools import FLUX_NAME, ByArgoCd, ByFlux, ByHelm, ByHelmfile, Tool
from tests.e2e.lab import NAMESPACE, NEW, RELEASE

TOOLS: Final = ("argocd", "flux", "helmfile", "helm-4")
QUIET: Final = ("flux", "argocd")
"""Tools that show the Job alone; the others print its log and know the status of a release."""
ALL_WELL: Final = "sync=Synced health=Healthy"
"""What Argo CD also shows of a failed hook."""


def on(*names: str) -> pytest.MarkDecorator:
    """Run with these tools, each on a cluster of its own."""
    return pytest.mark.parametrize("stage", names, indirect=True, scope="module")


each = on(*TOOLS)
each_hook = on(*TOOLS, "helm-3")
"""Helm 3 runs the chart's hook; tests/e2e/test_deployment_tools.py has it wait for plain Jobs."""


@contextmanager
def begin(folders: pytest.TempPathFactory, name: str, tool: str) -> Iterator[Story]:
    """Begin the story of one tool."""
    with booted(folders.mktemp("cluster"), name) as cluster:
        kinds: dict[str, Callable[[Cluster], Tool]] = {
            "argocd": ByArgoCd, "flux": ByFlux, "helmfile": ByHelmfile,
            "helm-3": partial(ByHelm, version=3), "helm-4": partial(ByHelm, version=4),
        }  # fmt: skip
        job = FLUX_NAME if tool == "flux" else RELEASE
        yield Story(Bench(cluster, job=job), tool, kinds[tool](cluster))


def runs_again(story: Story) -> int:
    """Return how often a tool runs our Job when the same is deployed again."""
    return int(story.name.startswith("helm-"))


def status(story: Story) -> str:
    """Return the status of our release, as `helm status` shows it."""
    (ours,) = [release for release in FAILED.releases() if release.name == RELEASE]
    return Helm(story.bench.cluster, 3 if story.name == "helm-3" else 4).status(ours)


def assert_shown(story: Story, failed: Chapter, reason: str) -> None:
    """Assert what a tool shows of a failed hook: Helm and helmfile the node, the others the Job."""
    said = failed.outcome.said
    assert not failed.outcome.succeeded, said
    if story.name == "flux":
        assert f"Ready=False {reason}" in said
        assert f"failed early due to stalled resources: [Job/{NAMESPACE}/{FLUX_NAME} status: 'Failed'" in said
    elif story.name == "argocd":
        assert ALL_WELL in said
        assert "\noperation=Failed: one or more synchronization tasks completed unsuccessfully" in said
        assert re.search(r"^Job gpu-operator-post PostSync Failed: .*exit code 124", said, re.MULTILINE)
        assert failed.runs == 1 + RETRIES
    else:
        assert f"{BROKEN} " in said
        hooks = "failed post-install" if reason == "InstallFailed" else "post-upgrade hooks failed"
        named = "job gpu-operator-post failed: PodFailurePolicy" if story.name == "helm-3" else "message: Job Failed"
        assert re.search(rf"{hooks}: [^\n]*\n?[^\n]*{named}", said), said


@each_hook
def test_failing_installation_is_visible(story: Story) -> None:
    """A first release that fails is there as failed; the description of its Job names node and cause."""
    failed = story.failed_installation
    assert_no_wrong_restart(failed)
    assert failed.restarted == []
    assert_cause_reported(failed)
    assert_shown(story, failed, "InstallFailed")
    if story.name.startswith("helm-"):
        assert status(story) == "failed"


@each_hook
def test_install(story: Story) -> None:
    """The next deployment continues from the failed installation; ours finds no DRA driver at first, and succeeds."""
    story.first_installation.assert_refreshed([])
    assert story.first_installation.report["reason"] == "NoPlugin"
    story.installation.assert_refreshed([])


@each_hook
def test_upgrade(story: Story) -> None:
    """Operator and hook are upgraded together; the tool is done when the last plugin was restarted."""
    story.upgrade.assert_refreshed(NODES)
    assert (story.upgrade.report["reason"], story.upgrade.drivers) == ("Refreshed", {NEW})


@each_hook
def test_nothing_to_do(story: Story) -> None:
    """Only Helm runs the hook for an unchanged release, for nothing."""
    again, runs = story.repetition, runs_again(story)
    again.assert_refreshed([])
    assert again.runs == runs
    assert runs == 0 or again.report["reason"] == "NothingStale"


@on("helmfile", "argocd")
def test_a_sync_runs_the_hook(story: Story) -> None:
    """`helmfile sync` and the Sync button of Argo CD, though nothing differs; nothing is restarted."""
    story.synced.assert_refreshed([])
    assert (story.synced.runs, story.synced.report["reason"]) == (1, "NothingStale")


@each_hook
def test_failure_is_visible(story: Story) -> None:
    """The tool shows the failure; the Job's Events name node and cause, and so does the output of Helm."""
    assert_stale_reported(story.failure)
    assert_cause_reported(story.failure)
    assert_shown(story, story.failure, "UpgradeFailed")
    if story.name not in QUIET:
        assert "pulling image" in story.failure.outcome.said


@on("helmfile")
def test_a_second_apply_hides_the_failure(story: Story) -> None:
    """An unchanged `apply` after a failed hook returns 0 and runs nothing: hence `sync`, as our documents say."""
    assert not story.failure.outcome.succeeded
    assert story.unchanged_after_failure.outcome.succeeded
    assert story.unchanged_after_failure.runs == 0
    assert status(story) == "failed"


@each_hook
def test_recovery(story: Story) -> None:
    """The same command with Helm, `helmfile sync`, a forced reconciliation with Flux, the Sync button of Argo CD."""
    assert_refreshed_together(story.failure, story.recovery, NEXT)
    assert story.name in QUIET or status(story) == "deployed"


@on("argocd")
def test_a_change_of_the_hook_alone_is_synced(story: Story) -> None:
    """Argo CD compares no hooks; the ConfigMap of the release shows the change."""
    story.hook_alone.assert_refreshed([])
    assert (story.hook_alone.runs, story.hook_alone.report["reason"]) == (1, "NothingStale")


@each
def test_from_hook_to_plain_job(story: Story) -> None:
    """A bundler's chart of plain manifests replaces ours on one release."""
    story.conversion.assert_refreshed([])
    assert (story.conversion.runs, story.conversion.report["reason"]) == (1, "NothingStale")


@each
def test_plain_upgrade(story: Story) -> None:
    """All but Argo CD wait for the Job; there the Application is Healthy again when the last plugin was restarted."""
    upgraded = story.plain_upgrade
    upgraded.assert_refreshed(NODES)
    assert (upgraded.runs, upgraded.report["reason"], upgraded.drivers) == (1, "Refreshed", {PLAIN_UPGRADED.driver})
    if story.name == "argocd":
        story.until_health("Healthy")


@each
def test_plain_failure_is_visible(story: Story) -> None:
    """Each tool names the Job; in Argo CD the Application is Degraded."""
    assert_stale_reported(story.plain_failure)
    assert_cause_reported(story.plain_failure)
    outcome = story.plain_failure.outcome
    if story.name == "argocd":
        assert outcome.succeeded
        story.until_health("Degraded")
    else:
        assert not outcome.succeeded
        assert f"Job/{NAMESPACE}/{RELEASE}-" in outcome.said
        assert story.name != "flux" or "Ready=False UpgradeFailed" in outcome.said


@pytest.mark.nightly
@each
def test_controller_alone(story: Story) -> None:
    """The tool returns before the last plugin can be restarted, and the controller restarts it."""
    # Each is restarted once, and the same again neither restarts any nor changes the controller.
    assert story.controlled.outcome.succeeded, story.controlled.outcome.said
    assert_no_wrong_restart(story.controlled)
    assert BROKEN not in story.controlled.restarted
    assert_refreshed_together(story.controlled, story.aftermath, CONTROLLED.driver)
    assert (story.controlled.runs, story.aftermath.runs) == (0, 0)
    assert story.name != "argocd" or ALL_WELL in story.aftermath.outcome.said
