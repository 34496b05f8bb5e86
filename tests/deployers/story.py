"""The life of a platform with one deployment tool: install, upgrade, nothing to do, failure, recovery.

First with the chart's hook; then plain manifests as bundlers deploy them take its place, are upgraded, and fail. Each
chapter happens once, after those before it, on one cluster; what was true at its end is noted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from devcluster.deployers.release import Outcome, Values
from tests.deployers.bench import NODES, Bench, Chapter, Wanted
from tests.deployers.bundles import wrap
from tests.deployers.stage import Chapters, chapter
from tests.deployers.tools import ByArgoCd, Tool
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, RELEASE
from tests.promises import promised

T = TypeVar("T")

BROKEN: Final = "gpu-1"
"""The node whose driver image cannot be pulled in the chapters that fail."""
SOON: Final = {"timeout": "60s"}
"""Time for a run that fails at its end."""
PARALLEL: Final = {"upgradePolicy": ALL_AT_ONCE["driver__upgradePolicy"]}
"""Where a chapter is about something else than the order of nodes."""
NEXT: Final = "580.142.10"
NEXT_CHART: Final = "v26.3.5"

NEVER_READY: Final = Wanted(plugin=False, post=SOON)
"""The plugin is there before. The first release waits for the driver, which does not settle."""
FRESH: Final = Wanted(plugin=False)
INSTALLED: Final = Wanted()
UPGRADED: Final = Wanted(chart=NEW_CHART, driver=NEW)
FAILED: Final = Wanted(chart=NEXT_CHART, driver=NEXT, operator=PARALLEL, post=SOON)
PLAIN_UPGRADED: Final = Wanted(chart="v26.7.0", driver="590.44.01", operator=PARALLEL)
PLAIN_FAILED: Final = Wanted(chart="v26.7.1", driver="590.48.01", operator=PARALLEL, post=SOON)
ONLY_CONTROLLER: Final[Values] = {"controller": {"enabled": True}, "job": {"enabled": False}}
CONTROLLED: Final = Wanted(chart="v26.7.2", driver="595.20.02", operator=PARALLEL, post=ONLY_CONTROLLER)


class Story(Chapters):
    """One tool on one cluster."""

    def __init__(self, bench: Bench, name: str, tool: Tool) -> None:
        super().__init__()
        self.bench, self.name, self.tool = bench, name, tool
        self.config = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}-status"

    def deploy(self, wanted: Wanted) -> Chapter:
        """Deploy what is wanted in the tool's usual way."""
        return self.bench.chapter(lambda: self.tool.apply(wanted.releases()))

    def fault(self, fault: str | None) -> None:
        """Let one node fail to pull its driver from now on, or not any more."""
        self.bench.annotate(BROKEN, "driver-fault", fault)

    # With a hook.

    @chapter
    def failed_installation(self) -> Chapter:
        """Install the operator and ours next to a DRA driver, where one node cannot pull its driver."""
        self.bench.plugin()
        self.fault("image-pull")
        return self.deploy(NEVER_READY)

    @chapter
    def first_installation(self) -> Chapter:
        """Install them as usual, where there is no DRA driver any more."""
        assert self.failed_installation
        self.bench.remove_plugin()
        self.fault(None)
        return self.deploy(FRESH)

    @chapter
    def installation(self) -> Chapter:
        """Add the DRA driver."""
        assert self.first_installation
        added = self.deploy(INSTALLED)
        self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
        return added

    @chapter
    def upgrade(self) -> Chapter:
        """Upgrade the operator and with it the driver: one node after the other."""
        assert self.installation
        return self.deploy(UPGRADED)

    @chapter
    def repetition(self) -> Chapter:
        """Deploy the same again."""
        assert self.upgrade
        return self.deploy(UPGRADED)

    @chapter
    def synced(self) -> Chapter:
        """Sync although nothing differs."""
        assert self.repetition
        return self.bench.chapter(lambda: self.tool.again(UPGRADED.releases()))

    @chapter
    def failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.repetition
        self.fault("image-pull")
        return self.deploy(FAILED)

    @chapter
    def unchanged_after_failure(self) -> Chapter:
        """Deploy the same once more after the hook failed."""
        assert self.failure
        return self.deploy(FAILED)

    @chapter
    def recovery(self) -> Chapter:
        """Repair the node and do what the tool's documentation says."""
        assert self.failure
        self.fault(None)
        return self.bench.chapter(lambda: self.tool.again(FAILED.releases()))

    @chapter
    def hook_alone(self) -> Chapter:
        """Change the hook and nothing else; a Job may delete itself at once."""
        assert self.recovery
        return self.deploy(replace(FAILED, post={**FAILED.post, "ttlSecondsAfterFinished": 0}))

    # With a plain Job.

    @chapter
    def conversion(self) -> Chapter:
        """Replace the hook by the same as plain manifests, on the live release."""
        assert self.recovery
        return self._ended("0.2.0", FAILED)

    @chapter
    def plain_upgrade(self) -> Chapter:
        """Upgrade operator and driver."""
        assert self.conversion
        return self._ended("0.2.1", PLAIN_UPGRADED)

    @chapter
    def plain_failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.plain_upgrade
        self.fault("image-pull")
        return self._ended("0.2.2", PLAIN_FAILED)

    def _ended(self, version: str, wanted: Wanted) -> Chapter:
        """Deploy plain manifests, and wait for the Job's end too: Argo CD does not wait for a Job that is no hook."""
        wrapped = replace(wanted, wrapped=wrap(wanted, version, self.bench.cluster.state / "wrapped"))
        before = len(self.bench.reports())

        def deployed() -> Outcome:
            outcome = self.tool.apply(wrapped.releases())
            self.bench.until(lambda: len(self.bench.reports()) > before, f"the Job ran; {outcome.said}", 120)
            self.bench.until(self.bench.no_job_is_active, "its end is known", 60)
            return outcome

        return self.bench.chapter(deployed)

    # With a controller.

    @chapter
    def controlled(self) -> Chapter:
        """Replace the Job by a controller, and upgrade to a driver that one node cannot pull, as before."""
        assert self.plain_failure
        self.bench.until(self.bench.all_ended, "no Job is under way", 180)
        others = set(NODES) - {BROKEN}

        def deployed() -> Outcome:
            outcome = self.tool.apply(CONTROLLED.releases())
            fresh = f"the others are fresh; {outcome.said}"
            self.bench.until(lambda: self.bench.are_fresh(CONTROLLED.driver, others), fresh, 120)
            return outcome

        return self.bench.chapter(deployed)

    @chapter
    def aftermath(self) -> Chapter:
        """Repair the node while nothing is deployed, and deploy the same again once the controller is through."""
        assert self.controlled
        before = self.bench.controller()

        def repaired() -> Outcome:
            self.fault(None)
            all_fresh = "the controller restarted the rest"
            self.bench.until(lambda: self.bench.are_fresh(CONTROLLED.driver, set(NODES)), all_fresh, 120)
            outcome = self.tool.apply(CONTROLLED.releases())
            assert self.bench.controller() == before
            return outcome

        return self.bench.chapter(repaired)

    def using(self, kind: type[T]) -> T:
        """Return the tool, which is of this kind."""
        assert isinstance(self.tool, kind)
        return self.tool

    def until_health(self, wanted: str) -> None:
        """Wait until the Application of ours shows a health: after its operation, which ends before a plain Job."""
        argocd = self.using(ByArgoCd).argocd
        self.bench.until(
            lambda: argocd.application(RELEASE)["status"].get("health", {}).get("status") == wanted, wanted, 120
        )


def assert_no_wrong_restart(chapter: Chapter) -> None:
    """Assert that no plugin was restarted before its node's driver was ready, and none that was fresh."""
    with promised():
        assert chapter.early == chapter.needless == []


def assert_stale_reported(chapter: Chapter) -> None:
    """Assert the same, and that the run's report names each node whose plugin is still stale."""
    assert_no_wrong_restart(chapter)
    with promised():
        assert set(chapter.stale) <= {each["node"] for each in chapter.report["nodes"]}


def assert_cause_reported(chapter: Chapter) -> None:
    """Assert that the pod's last message and the description of the Job name the node and why it was waited for."""
    assert (chapter.report["exitCode"], chapter.report["reason"]) == (124, "TimeUp"), chapter
    (node,) = [each for each in chapter.report["nodes"] if each["node"] == BROKEN]
    assert node["reason"] == "DriverFailing"
    assert any(BROKEN in message for message in chapter.messages)
    assert any(BROKEN in message and "DriverFailing" in message for message in chapter.events)
    assert any(BROKEN in line and "DriverFailing" in line for line in chapter.described.splitlines()), chapter.described


def assert_refreshed_together(failed: Chapter, repaired: Chapter, driver: str) -> None:
    """Assert that a failed run and the one after it restarted each plugin once, together."""
    repaired.assert_refreshed(repaired.restarted)
    assert repaired.drivers == {driver}
    assert sorted([*failed.restarted, *repaired.restarted]) == NODES
