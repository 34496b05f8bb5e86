"""The life of a platform, told through one deployer: install, upgrade, nothing to do, failure, recovery.

First with the chart's hook, then with plain manifests as bundlers deploy them. Each chapter happens once, after those
before it, on one cluster; what was true at its end is noted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.deployers import plain
from tests.deployers.bench import NODES, Chapter, Wanted
from tests.deployers.stage import Chapters, chapter
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, OLD, RELEASE
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.deployers.release import Outcome, Values
    from tests.deployers.bench import Bench, Deployer

BROKEN: Final = "gpu-1"
"""The node whose driver image cannot be pulled in the chapters that fail."""
SOON: Final = {"stallTimeout": "15s"}
"""The default is half an hour."""
PARALLEL: Final = {"upgradePolicy": ALL_AT_ONCE["driver__upgradePolicy"]}
"""Where a chapter is about something else than the order of nodes."""
NEXT: Final = "580.142.10"
NEXT_CHART: Final = "v26.3.5"
HELM_3: Final = 3

NEVER_READY: Final = Wanted(plugin=False, post={"onMissingPlugin": "wait", **SOON})
"""Holds the first release until the driver has settled, which it does not."""
FRESH: Final = Wanted(plugin=False)
INSTALLED: Final = Wanted()
UPGRADED: Final = Wanted(chart=NEW_CHART, driver=NEW)
FAILED: Final = Wanted(chart=NEXT_CHART, driver=NEXT, operator=PARALLEL, post=SOON)
PLAIN: Final = FAILED
PLAIN_UPGRADED: Final = Wanted(chart="v26.7.0", driver="590.44.01", operator=PARALLEL)
PLAIN_FAILED: Final = Wanted(chart="v26.7.1", driver="590.48.01", operator=PARALLEL, post=SOON)
HELM_3_SECONDS: Final = 60
"""For the chapter that fails: Helm 3 uses up all of its time before it notices that a plain Job failed."""
FOLLOWED: Final[Values] = {"controller": {"enabled": True}, "job": {"mode": "delegate"}}
"""Beside a follower, as the documentation recommends it."""
HANDED_OVER: Final = Wanted(chart="v26.7.2", driver="595.20.02", operator=PARALLEL, post=FOLLOWED)
PATIENT: Final = Wanted(chart=NEXT_CHART, driver=OLD)
IMPATIENT: Final = replace(PATIENT, timeout=10)
"""As five minutes are to a fleet of hundreds of nodes."""


class Story(Chapters):
    """One deployer on one cluster."""

    def __init__(self, bench: Bench, deployer: Deployer) -> None:
        super().__init__()
        self.bench, self.deployer = bench, deployer
        self._wrapped: dict[str, Wanted] = {}

    # With a hook.

    @chapter
    def failed_installation(self) -> Chapter:
        """Install the operator and ours, told to wait for drivers, where one node cannot pull its driver."""
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        return self.bench.chapter(lambda: self.deployer.apply(NEVER_READY.releases()))

    @chapter
    def first_installation(self) -> Chapter:
        """Install them as usual, where there is no DRA driver yet."""
        assert self.failed_installation
        self.bench.annotate(BROKEN, "driver-fault", None)
        return self.bench.chapter(lambda: self.deployer.apply(FRESH.releases()))

    @chapter
    def installation(self) -> Chapter:
        """Add the DRA driver."""
        assert self.first_installation
        added = self.bench.chapter(lambda: self.deployer.apply(INSTALLED.releases()))
        self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
        return added

    @chapter
    def upgrade(self) -> Chapter:
        """Upgrade the operator and with it the driver: one node after the other."""
        assert self.installation
        return self.bench.chapter(lambda: self.deployer.apply(UPGRADED.releases()))

    @chapter
    def repetition(self) -> Chapter:
        """Deploy the same again."""
        assert self.upgrade
        return self.bench.chapter(lambda: self.deployer.apply(UPGRADED.releases()))

    @chapter
    def failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.repetition
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        return self.bench.chapter(lambda: self.deployer.apply(FAILED.releases()))

    @chapter
    def recovery(self) -> Chapter:
        """Mend the node and do what the deployer's documentation says."""
        assert self.failure
        self.bench.annotate(BROKEN, "driver-fault", None)
        return self.bench.chapter(lambda: self.deployer.again(FAILED.releases()))

    # With a plain Job.

    @chapter
    def conversion(self) -> Chapter:
        """Replace the hook by the same as plain manifests, on the live release."""
        assert self.recovery
        return self._ended(lambda: self.deployer.apply(self.plain("0.2.0", PLAIN).releases()))

    @chapter
    def plain_upgrade(self) -> Chapter:
        """Upgrade operator and driver."""
        assert self.conversion
        return self._ended(lambda: self.deployer.apply(self.plain("0.2.1", PLAIN_UPGRADED).releases()))

    @chapter
    def plain_repetition(self) -> Chapter:
        """Deploy the same again."""
        assert self.plain_upgrade
        return self.bench.chapter(lambda: self.deployer.apply(self.plain("0.2.1", PLAIN_UPGRADED).releases()))

    @chapter
    def plain_failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.plain_repetition
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        timeout = HELM_3_SECONDS if self.bench.helm == HELM_3 else PLAIN_FAILED.timeout
        failing = replace(self.plain("0.2.2", PLAIN_FAILED), timeout=timeout)
        return self._ended(lambda: self.deployer.apply(failing.releases()))

    @chapter
    def plain_recovery(self) -> Chapter:
        """Mend the node, delete the Job that failed, since a Job does not run twice, and deploy the same again."""
        assert self.plain_failure
        self.bench.annotate(BROKEN, "driver-fault", None)

        def mended() -> Outcome:
            self.bench.cluster.kubectl("delete", "job", "-n", NAMESPACE, "-l", f"app.kubernetes.io/name={RELEASE}")
            return self.deployer.again(self.plain("0.2.2", PLAIN_FAILED).releases())

        return self._ended(mended)

    def plain(self, version: str, wanted: Wanted) -> Wanted:
        """Wrap the plain manifests of what is wanted in a chart of some version."""
        if version not in self._wrapped:
            folder = self.bench.cluster.state / "wrapped"
            self._wrapped[version] = replace(wanted, wrapped=plain.wrap(wanted, version, folder))
        return self._wrapped[version]

    def _ended(self, act: Callable[[], Outcome]) -> Chapter:
        """Do something, and wait for the Job's end too: Argo CD does not wait for a Job that is no hook."""
        before = len(self.bench.told())

        def acted() -> Outcome:
            outcome = act()
            self.bench.until(lambda: len(self.bench.told()) > before, f"the Job ran; {outcome.said}", 120)
            self.bench.until(self.bench.no_job_is_active, "its end is known", 60)
            return outcome

        return self.bench.chapter(acted)

    # With a follower.

    @chapter
    def handover(self) -> Chapter:
        """Deploy the hook with a follower beside it, and upgrade to a driver that one node cannot pull."""
        assert self.plain_recovery
        self.bench.until(self.bench.all_ended, "no Job is under way", 180)
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        others = set(NODES) - {BROKEN}

        def handed_over() -> Outcome:
            outcome = self.deployer.apply(HANDED_OVER.releases())
            driver = HANDED_OVER.driver
            self.bench.until(lambda: self.bench.serve(driver, others), f"the others are served; {outcome.said}", 120)
            return outcome

        return self.bench.chapter(handed_over)

    @chapter
    def aftermath(self) -> Chapter:
        """Mend the node while nothing is deployed, and deploy the same again once the follower has served it."""
        assert self.handover
        before = self.bench.follower()
        assert before.waited_for

        def mended() -> Outcome:
            self.bench.annotate(BROKEN, "driver-fault", None)
            driver = HANDED_OVER.driver
            self.bench.until(lambda: self.bench.serve(driver, set(NODES)), "the follower served the rest", 120)
            outcome = self.deployer.apply(HANDED_OVER.releases())
            assert before == self.bench.follower()
            return outcome

        return self.bench.chapter(mended)

    # With too little time.

    @chapter
    def impatience(self) -> Chapter:
        """Go back to the hook and to the driver of before, one node after the other, in less time than that takes."""
        assert self.plain_recovery
        return self.bench.chapter(lambda: self.deployer.apply(IMPATIENT.releases()))

    @chapter
    def patience(self) -> Chapter:
        """Deploy the same with the time that it takes, once the Job that was left running has ended."""
        assert self.impatience
        assert not self.impatience.story
        self.bench.until(self.bench.all_ended, "the abandoned Job ended", 180)
        return self.bench.chapter(lambda: self.deployer.apply(PATIENT.releases()))

    # What every deployer must bring about.

    def assert_failed_installation_told(self) -> None:
        """Assert that a first installation fails where the driver cannot settle, and that the cause is told."""
        assert not self.failed_installation.outcome.succeeded
        assert_touched_rightly(self.failed_installation)
        assert self.failed_installation.restarted == []
        assert_cause_told(self.failed_installation)

    def assert_installed(self) -> None:
        """Assert that without a DRA driver there is nothing to protect, and that it is said, not failed."""
        self.first_installation.assert_served([])
        assert self.first_installation.story["reason"] == "NoPlugin"
        self.installation.assert_served([])

    def assert_upgraded(self) -> None:
        """Assert that when the deployer comes back, every plugin was restarted once, on the new driver."""
        self.upgrade.assert_served(NODES)
        assert {NEW} == self.upgrade.drivers
        assert self.upgrade.story["reason"] == "Refreshed"

    def assert_nothing_done(self, runs: int) -> None:
        """Assert that a second time costs no plugin anything, however often the deployer runs us."""
        assert_nothing_stale(self.repetition, runs)

    def assert_failure_told(self) -> None:
        """Assert that the deployer says so, and that the pod's message and the Job's events name node and cause."""
        assert not self.failure.outcome.succeeded, self.failure.outcome.said
        assert_failed_honestly(self.failure)
        assert_cause_told(self.failure)

    def assert_recovered(self) -> None:
        """Assert that the rest is served: the failed run and this one restarted each plugin once."""
        _assert_both_served(self.failure, self.recovery, NEXT)

    def assert_converted(self) -> None:
        """Assert that a plain Job may follow a hook on a live release."""
        self.conversion.assert_served([])
        assert (1, "NothingStale") == (self.conversion.runs, self.conversion.story["reason"])

    def assert_upgraded_plainly(self) -> None:
        """Assert that a plain Job may follow another, and that each stale plugin was restarted once, by the Job."""
        self.plain_upgrade.assert_served(NODES)
        assert (1, "Refreshed") == (self.plain_upgrade.runs, self.plain_upgrade.story["reason"])
        assert {PLAIN_UPGRADED.driver} == self.plain_upgrade.drivers

    def assert_nothing_done_plainly(self) -> None:
        """Assert that an unchanged plain Job does not run again, and fails nothing."""
        self.plain_repetition.assert_served([])
        assert self.plain_repetition.runs == 0

    def assert_failed_plainly(self) -> None:
        """Assert that a failing plain Job tells its cause, whatever the deployer says."""
        assert_failed_honestly(self.plain_failure)
        assert_cause_told(self.plain_failure)

    def assert_recovered_plainly(self) -> None:
        """Assert that the rest is served once the failed Job was deleted and deployed again."""
        _assert_both_served(self.plain_failure, self.plain_recovery, PLAIN_FAILED.driver)

    def assert_handed_over(self, runs: int) -> None:
        """Assert that the deployer came back before the last node could be served, and the follower served it.

        Each plugin was restarted once, and the same again, in so many runs, neither restarts nor changes the follower.
        """
        assert self.handover.outcome.succeeded, self.handover.outcome.said
        assert_touched_rightly(self.handover)
        assert (1, "Delegated") == (self.handover.runs, self.handover.story["reason"])
        assert BROKEN not in self.handover.restarted
        _assert_both_served(self.handover, self.aftermath, HANDED_OVER.driver)
        assert runs == self.aftermath.runs
        assert runs == 0 or self.aftermath.story["reason"] == "NothingStale"

    def assert_cut_short_and_continued(self) -> None:
        """Assert that a deployer's shorter time fails the release only: the Job goes on, and the next run agrees."""
        assert not self.impatience.outcome.succeeded
        assert_touched_rightly(self.impatience)
        self.patience.assert_served([])
        assert {OLD} == self.patience.drivers
        (abandoned, _) = self.bench.told()[-2:]
        assert abandoned["reason"] == "Refreshed"


def assert_nothing_stale(again: Chapter, runs: int) -> None:
    """Assert that the same again restarted nothing, in so many runs."""
    again.assert_served([])
    assert runs == again.runs
    assert runs == 0 or again.story["reason"] == "NothingStale"


def assert_touched_rightly(told: Chapter) -> None:
    """Assert that no plugin was restarted before its node's driver was ready, and none that was fresh."""
    with promised():
        assert told.early == []
        assert told.needless == []


def assert_failed_honestly(told: Chapter) -> None:
    """Assert the same, and that a plugin that is left stale is one that the run's last message tells of."""
    assert_touched_rightly(told)
    with promised():
        assert set(told.stale) <= {each["node"] for each in told.story["nodes"]}


def assert_cause_told(told: Chapter) -> None:
    """Assert that the pod's last message and an Event on the Job name the node and why it was waited for."""
    assert (124, "Stalled") == (told.story["exitCode"], told.story["reason"]), told
    (node,) = [each for each in told.story["nodes"] if each["node"] == BROKEN]
    assert node["reason"] == "DriverFailing"
    assert any(BROKEN in message for message in told.messages)
    assert any(BROKEN in message and "DriverFailing" in message for message in told.events)


def assert_told_beside(told: Chapter) -> None:
    """Assert that an Event on the deployer's own object names node and cause, beside the condition that does not."""
    assert any(BROKEN in message and "DriverFailing" in message for message in told.beside), told.beside


def _assert_both_served(failed: Chapter, mended: Chapter, driver: str) -> None:
    """Assert that a failed run and the one after it restarted each plugin once, together."""
    mended.assert_served(mended.restarted)
    assert {driver} == mended.drivers
    assert sorted([*failed.restarted, *mended.restarted]) == NODES
