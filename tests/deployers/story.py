"""The life of a platform, told through one deployer: install, upgrade, nothing to do, failure, recovery.

Each chapter happens once, after those before it, on one cluster; what was true at its end is noted, so that tests
may ask in any order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tests.deployers.bench import NODES, Chapter, Wanted
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD

if TYPE_CHECKING:
    from devcluster.deployers.release import Outcome
    from tests.deployers.bench import Bench, Deployer

NEXT: Final = "580.142.10"
NEXT_CHART: Final = "v26.3.5"
BROKEN: Final = "gpu-1"
"""The node whose driver image cannot be pulled in the chapter that fails."""

FRESH: Final = Wanted(plugin=False)
INSTALLED: Final = Wanted()
UPGRADED: Final = Wanted(chart=NEW_CHART, driver=NEW)
FAILED: Final = Wanted(
    chart=NEXT_CHART,
    driver=NEXT,
    operator={"upgradePolicy": ALL_AT_ONCE["driver__upgradePolicy"]},
    post={"stallTimeout": "15s"},
)
"""The real default of stallTimeout is half an hour."""
PLAIN: Final = Wanted(chart=NEXT_CHART, driver=NEXT, operator=FAILED.operator, post={"hook": {"enabled": False}})
PLAIN_CHANGED: Final = replace(PLAIN, post={**PLAIN.post, "pluginTimeout": "2m"})
PATIENT: Final = Wanted(chart=NEXT_CHART, driver=OLD)
IMPATIENT: Final = replace(PATIENT, timeout=10)
"""As five minutes are to a fleet of hundreds of nodes."""


class Story:
    """One deployer on one cluster."""

    def __init__(self, bench: Bench, deployer: Deployer) -> None:
        self.bench, self.deployer = bench, deployer

    @cached_property
    def first_installation(self) -> Chapter:
        """Install the operator and ours, where there is no DRA driver yet."""
        return self.bench.chapter(lambda: self.deployer.apply(FRESH.releases()))

    @cached_property
    def installation(self) -> Chapter:
        """Add the DRA driver."""
        assert self.first_installation
        chapter = self.bench.chapter(lambda: self.deployer.apply(INSTALLED.releases()))
        self.bench.until(lambda: self.bench.serving() == len(NODES), "every plugin runs on a ready driver", 120)
        return chapter

    @cached_property
    def upgrade(self) -> Chapter:
        """Upgrade the operator and with it the driver: one node after the other."""
        assert self.installation
        return self.bench.chapter(lambda: self.deployer.apply(UPGRADED.releases()))

    @cached_property
    def repetition(self) -> Chapter:
        """Deploy the same again."""
        assert self.upgrade
        return self.bench.chapter(lambda: self.deployer.apply(UPGRADED.releases()))

    @cached_property
    def failure(self) -> Chapter:
        """Upgrade to a driver that one node cannot pull."""
        assert self.repetition
        self.bench.annotate(BROKEN, "driver-fault", "image-pull")
        return self.bench.chapter(lambda: self.deployer.apply(FAILED.releases()))

    @cached_property
    def recovery(self) -> Chapter:
        """Mend the node and do what the deployer's documentation says."""
        assert self.failure
        self.bench.annotate(BROKEN, "driver-fault", None)
        return self.bench.chapter(lambda: self.deployer.again(FAILED.releases()))

    @cached_property
    def conversion(self) -> tuple[Chapter, Chapter]:
        """Make the hook a plain Job, as bundlers do that strip annotations; then change it, which no Job allows."""
        assert self.recovery
        return self.bench.chapter(lambda: self._ended(PLAIN)), self.bench.chapter(lambda: self._ended(PLAIN_CHANGED))

    def _ended(self, wanted: Wanted) -> Outcome:
        """Deploy, and wait for the Job's end too: Argo CD does not wait for a Job that is no hook."""
        before = len(self.bench.told())
        outcome = self.deployer.apply(wanted.releases())
        assert outcome.succeeded, outcome.said
        self.bench.until(lambda: len(self.bench.told()) > before, "the Job ran", 120)
        return outcome

    @cached_property
    def impatience(self) -> Chapter:
        """Go back to the driver of before, one node after the other, with less time than that takes."""
        assert self.recovery
        return self.bench.chapter(lambda: self.deployer.apply(IMPATIENT.releases()))

    @cached_property
    def patience(self) -> Chapter:
        """Deploy the same with the time that it takes, once the Job that was left running has ended."""
        assert self.impatience
        assert not self.impatience.story
        self.bench.until(self.bench.all_ended, "the abandoned Job ended", 180)
        return self.bench.chapter(lambda: self.deployer.apply(PATIENT.releases()))

    # What every deployer must bring about.

    def assert_installed(self) -> None:
        """Assert that without a DRA driver there is nothing to protect, and that it is said, not failed."""
        self.first_installation.assert_served([])
        assert self.first_installation.story["reason"] == "NoConsumer"
        self.installation.assert_served([])

    def assert_upgraded(self) -> None:
        """Assert that when the deployer comes back, every plugin was restarted once, on the new driver."""
        self.upgrade.assert_served(NODES)
        assert {NEW} == self.upgrade.drivers
        assert self.upgrade.story["reason"] == "Refreshed"

    def assert_nothing_done(self, runs: int) -> None:
        """Assert that a second time costs no plugin anything, however often the deployer runs us."""
        self.repetition.assert_served([])
        assert runs == self.repetition.runs
        assert runs == 0 or self.repetition.story["reason"] == "NothingStale"

    def assert_failure_told(self) -> None:
        """Assert that the deployer says so, and that the pod's message and the Job's events name node and cause."""
        failure = self.failure
        assert not failure.outcome.succeeded, failure.outcome.said
        assert failure.early == []
        assert (124, "Stalled") == (failure.story["exitCode"], failure.story["reason"])
        (node,) = [each for each in failure.story["nodes"] if each["node"] == BROKEN]
        assert node["reason"] == "DriverFailing"
        assert any(BROKEN in message for message in self.bench.events("Job", "Stalled"))
        assert any(BROKEN in each["message"] for each in self.bench.terminated() if each["exitCode"] == 124)

    def assert_recovered(self) -> None:
        """Assert that the rest is served: the failed run and this one restarted each plugin once."""
        self.recovery.assert_served(self.recovery.restarted)
        assert {NEXT} == self.recovery.drivers
        assert sorted([*self.failure.restarted, *self.recovery.restarted]) == NODES

    def assert_converted(self) -> None:
        """Assert that hook and plain Job may follow each other on a live release, and a changed plain Job too."""
        for chapter in self.conversion:
            chapter.assert_served([])
            assert (1, "NothingStale") == (chapter.runs, chapter.story["reason"])

    def assert_cut_short_and_continued(self) -> None:
        """Assert that a deployer's shorter time fails the release only: the Job goes on, and the next run agrees."""
        assert not self.impatience.outcome.succeeded
        assert self.impatience.early == []
        self.patience.assert_served([])
        assert {OLD} == self.patience.drivers
        (abandoned, _) = self.bench.told()[-2:]
        assert abandoned["reason"] == "Refreshed"
