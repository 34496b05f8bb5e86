"""The life of a platform with each deployment tool: install, upgrade, nothing to do, failure, recovery.

The tool deploys its bundle, with charts from repositories, as in a user's bundles. First our chart's hook runs; then a
plain Job takes its place on the live release, and fails; at last comes the component of examples/aicr. An upgrade
restarts each plugin twice: the run does so in time, and after it the trigger of the DRA driver's release, as
docs/bundler.md says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

import pytest

from devcluster.boot.cluster import Cluster
from devcluster.deployers import helmfile
from devcluster.deployers.outcome import Outcome
from tests.bundler.kit import NAME
from tests.deployers.bench import BROKEN, NODES, SOON, Bench, Result, booted
from tests.deployers.bundles import Stack, deployer, healthy
from tests.e2e.lab import NAMESPACE, PLUGIN_NAME, PLUGIN_NAMESPACE, RELEASE
from tests.promises import promised

TWICE: Final = sorted([*NODES, *NODES])
TRIGGER: Final = "aicr.run/gpu-operator-chart-version"
"""The annotation that restarts the plugins when the operator's chart version changes."""
FIRST: Final = Stack("v26.3.3", "580.105.08")
NEXT: Final = Stack("v26.3.4", "580.126.20")
FAILING: Final = Stack("v26.3.5", "580.142.10")
PLAIN: Final = Stack("v26.7.0", "590.44.01")
PLAIN_FAILING: Final = Stack("v26.7.1", "590.48.01")
COMPONENT: Final = Stack("v26.7.2", "595.20.02", NAME)
OPERATORS: Final = [each.chart for each in (FIRST, NEXT, FAILING, PLAIN, PLAIN_FAILING, COMPONENT)]
TOOLS: Final = (
    "argocd",
    "flux",
    "helmfile",
    "helm-4",
    "helm-3",
    pytest.param("argocd-helm", marks=pytest.mark.nightly),
)


class Platform(Bench):
    """One tool on one cluster."""

    def __init__(self, cluster: Cluster, tool: str) -> None:
        super().__init__(cluster)
        self.tool = tool.removesuffix("-helm")
        self.prints = self.tool.startswith("helm")
        """Whether the tool prints the log of a hook, and knows the status of a release. The others show the Job."""
        self.deployer = deployer(tool, cluster, OPERATORS)

    def deploy_bundle(self, stack: Stack, *flags: str, **post: object) -> Result:
        """Deploy the bundle of a stack in the tool's usual way."""
        self.deployer.write(stack, *flags, **post)
        return self.through(self.deployer.deploy, stack)

    def through(self, act: Callable[[], Outcome], stack: Stack) -> Result:
        """Deploy, and wait until the DRA driver's own rollout is through, which no bundle waits for."""

        def deployed() -> Outcome:
            outcome = act()
            if outcome.succeeded:
                self.until(lambda: self.trigger() == stack.chart, "the DRA driver's turn has come", 240)
                self.until(self.rolled_out, "all pods of the plugin are of the newest template", 120)
                self.until(lambda: self.serving() == len(NODES), "every plugin runs on a ready driver", 120)
            return outcome

        return self.deployment(deployed)

    def fault(self, fault: str | None) -> None:
        """Let one node fail to pull its driver from now on, or not any more."""
        self.annotate(BROKEN, "driver-fault", fault)

    def trigger(self) -> str:
        """Return the trigger of the plugins."""
        daemonset = self.cluster.get(f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets/{PLUGIN_NAME}")
        return str(daemonset["spec"]["template"]["metadata"]["annotations"].get(TRIGGER, ""))

    def status(self) -> str:
        """Return the status of our release, as Helm shows it."""
        shown = self.cluster.helm("status", RELEASE, "--namespace", NAMESPACE, "--output=json").stdout
        return str(json.loads(shown)["info"]["status"])


@pytest.mark.parametrize("tool", TOOLS)
def test_the_life_of_a_platform(tool: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tool is done when the run is, and shows its failure; no plugin is restarted early or stays stale."""
    with booted(tmp_path_factory, f"test_tools-{tool}") as cluster:
        platform = Platform(cluster, tool)
        _fail_to_install(platform)
        _install(platform)
        _upgrade(platform)
        _repeat(platform)
        _fail_and_recover(platform)
        if platform.tool == "argocd":
            _change_the_hook_alone(platform)
        if tool != "helm-3":  # It compares a Job's failures with the backoffLimit only: all of its timeout would pass.
            _replace_the_hook_by_a_plain_job(platform)
            _fail_as_a_plain_job(platform)
        _deploy_the_component_of_aicr(platform)


def _fail_to_install(platform: Platform) -> None:
    """Install next to a DRA driver, where one node cannot pull its driver. The release is there as failed."""
    platform.plugin()
    platform.fault("image-pull")
    failed = platform.deploy_bundle(FIRST, **SOON)
    _assert_cause_reported(failed)
    _assert_shown(platform, failed, "InstallFailed")
    assert failed.restarted == []
    assert not platform.prints or platform.status() == "failed"


def _install(platform: Platform) -> None:
    """Continue from the failure without the DRA driver, which now comes last."""
    platform.remove_plugin()
    platform.fault(None)
    installed = platform.deploy_bundle(FIRST)
    assert installed.outcome.succeeded, installed.outcome.said
    assert (installed.report["reason"], installed.restarted, installed.drivers) == ("NoPlugin", [], {FIRST.driver})


def _upgrade(platform: Platform) -> None:
    """Upgrade operator and hook together; then comes the DRA driver's turn."""
    _assert_refreshed(platform.deploy_bundle(NEXT), NEXT)


def _repeat(platform: Platform) -> None:
    """Deploy the same again: only Helm runs the hook for it. `sync`, a forced reconciliation and Sync do so, too."""
    again = platform.deploy_bundle(NEXT)
    assert again.outcome.succeeded, again.outcome.said
    assert (again.restarted, again.runs) == ([], int(platform.tool in {"helm-3", "helm-4"}))
    _assert_nothing_stale(platform.through(platform.deployer.again, NEXT))


def _fail_and_recover(platform: Platform) -> None:
    """Fail, which the tool shows, and stop before the DRA driver; repair the node, and do what the documents say."""
    platform.fault("image-pull")
    failed = platform.deploy_bundle(FAILING, **SOON)
    _assert_cause_reported(failed)
    _assert_shown(platform, failed, "UpgradeFailed")
    assert platform.trigger() == NEXT.chart
    if platform.prints:
        assert "pulling image" in failed.outcome.said
    if platform.tool == "helmfile":
        _apply_again(platform)

    platform.fault(None)
    repaired = platform.through(platform.deployer.again, FAILING)
    assert repaired.outcome.succeeded, repaired.outcome.said
    with promised():
        assert (repaired.stale, repaired.early, sorted(repaired.needless)) == ((), [], NODES)
    assert sorted([*failed.restarted, *repaired.restarted]) == TWICE
    assert repaired.drivers == {FAILING.driver}
    assert not platform.prints or platform.status() == "deployed"


def _apply_again(platform: Platform) -> None:
    """Show that an unchanged `apply` after a failed hook ends with 0 and runs nothing: hence `sync`."""
    file, ours = platform.deployer.folder / "helmfile.yaml", f"--selector=name={RELEASE}"
    again = platform.deployment(lambda: helmfile.run(platform.cluster, file, "apply", ours))
    assert again.outcome.succeeded, again.outcome.said
    assert (again.runs, platform.status()) == (0, "failed")


def _change_the_hook_alone(platform: Platform) -> None:
    """Sync a change of the hook, which Argo CD does not compare; the ConfigMap of the release shows it."""
    _assert_nothing_stale(platform.deploy_bundle(FAILING, **SOON, ttlSecondsAfterFinished=0))


def _replace_the_hook_by_a_plain_job(platform: Platform) -> None:
    """Upgrade the live release to a plain Job, for which the tool waits."""
    upgraded = platform.deploy_bundle(PLAIN, "--no-hook")
    _assert_refreshed(upgraded, PLAIN)
    assert upgraded.runs == 1


def _fail_as_a_plain_job(platform: Platform) -> None:
    """Fail: each tool names the Job; in Argo CD the Application is Degraded, although its operation succeeded."""
    platform.fault("image-pull")
    failed = platform.deploy_bundle(PLAIN_FAILING, "--no-hook", **SOON)
    _assert_cause_reported(failed)
    said = failed.outcome.said
    assert not failed.outcome.succeeded
    if platform.tool == "argocd":
        assert "health=Degraded\noperation=Succeeded" in said
    else:
        assert f"Job/{NAMESPACE}/{RELEASE}-" in said
        assert platform.tool != "flux" or "Ready=False UpgradeFailed" in said


def _deploy_the_component_of_aicr(platform: Platform) -> None:
    """Replace our release by a plain Job under another name, and run its health check."""
    assert not healthy(platform.cluster, 1)
    platform.fault(None)
    deployed = platform.deploy_bundle(COMPONENT)
    assert deployed.outcome.succeeded, deployed.outcome.said
    with promised():
        assert (deployed.stale, deployed.early) == ((), [])
    assert deployed.drivers == {COMPONENT.driver}
    jobs = platform.cluster.list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
    assert [each for each in jobs if each["metadata"]["name"].startswith(f"{NAME}-")]
    assert healthy(platform.cluster)


def _assert_refreshed(upgraded: Result, stack: Stack) -> None:
    """Assert that each plugin was restarted by the run, in time, and after it by the trigger."""
    assert upgraded.outcome.succeeded, upgraded.outcome.said
    assert (upgraded.report["exitCode"], upgraded.report["reason"]) == (0, "Refreshed")
    with promised():
        assert (upgraded.stale, upgraded.early, sorted(upgraded.needless)) == ((), [], NODES)
    assert upgraded.restarted == TWICE
    assert upgraded.drivers == {stack.driver}


def _assert_nothing_stale(again: Result) -> None:
    """Assert that a run found nothing to restart."""
    assert again.outcome.succeeded, again.outcome.said
    assert (again.runs, again.report["reason"], again.restarted) == (1, "NothingStale", [])


def _assert_cause_reported(failed: Result) -> None:
    """Assert that the run's report and the description of the Job name the node and why it was waited for."""
    with promised():
        assert failed.early == failed.needless == []
        assert set(failed.stale) <= {each["node"] for each in failed.report["nodes"]}
    assert (failed.report["exitCode"], failed.report["reason"]) == (124, "TimeUp"), failed
    (node,) = [each for each in failed.report["nodes"] if each["node"] == BROKEN]
    assert node["reason"] == "DriverFailing"
    assert any(BROKEN in line and "DriverFailing" in line for line in failed.described.splitlines()), failed.described


def _assert_shown(platform: Platform, failed: Result, reason: str) -> None:
    """Assert what a tool shows of a failed hook: Helm and helmfile the node, the others the Job."""
    said = failed.outcome.said
    assert not failed.outcome.succeeded, said
    if platform.tool == "flux":
        assert f"Ready=False {reason}" in said
        assert f"failed early due to stalled resources: [Job/{NAMESPACE}/{RELEASE} status: 'Failed'" in said
    elif platform.tool == "argocd":
        # Nothing but the operation shows the failure.
        assert "sync=Synced health=Healthy\noperation=Failed: one or more synchronization tasks" in said
        assert re.search(r"^Job gpu-operator-post PostSync Failed: .*exit code 124", said, re.MULTILINE)
    else:
        assert f"{BROKEN} " in said
        hooks = "failed post-install" if reason == "InstallFailed" else "post-upgrade hooks failed"
        named = "job gpu-operator-post failed: PodFailurePolicy" if platform.tool == "helm-3" else "message: Job Failed"
        assert re.search(rf"{hooks}: [^\n]*\n?[^\n]*{named}", said), said
