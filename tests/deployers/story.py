"""The life of a platform, told through one deployer: install, upgrade, nothing to do, failure, recovery.

Each chapter happens once, after those before it, on one cluster; what was true at its end is noted, so that tests
may ask in any order.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from tests.deployers.bench import NODES, Chapter, Wanted
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART

if TYPE_CHECKING:
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
