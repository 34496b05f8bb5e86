"""The promises over time, from ground truth and from how the program ended; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.journal import Entry
    from devcluster.truth import Truth

RACE_SECONDS: Final = 3.0
"""No program can know what was asked of the operator, or happened to a node, just now: the API does not show it yet.
A restart within it is counted by itself."""
GROWTH_MEBIBYTES: Final = 12.0
"""What a controller may take on top of what it had after its first cycle: watches that are listed anew leave some of
the allocator's memory behind, once. The chart's limit leaves more than twice as much."""
JOB_MEBIBYTES: Final = 128.0
"""The chart's memory limit for the Job (``resources``)."""
CONTROLLER_MEBIBYTES: Final = 192.0
"""The chart's memory limit for the controller (``controller.resources``)."""
LAST: Final = 600
"""Characters of a log that explain a wrong end."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the Job; with a controller, one cycle, which is to end with 0."""

    cycle: int
    code: int
    expected: tuple[int, ...]
    """Exit codes that the cycle allows."""
    stale: tuple[str, ...] = ()
    """Nodes with a stale plugin when it ended."""
    behind: tuple[str, ...] = ()
    """Nodes that had not the asked driver, Ready, when it ended."""
    log: str = ""

    @property
    def broken(self) -> list[str]:
        """Return which promises it broke."""
        found = []
        if self.code not in self.expected:
            allowed = " or ".join(str(code) for code in self.expected)
            found.append(f"cycle {self.cycle}: ended with {self.code}, not {allowed}: {self.log[-LAST:]}")
        if self.code == 0 and self.stale:
            found.append(f"cycle {self.cycle}: succeeded with stale plugins on {', '.join(self.stale)}")
        if self.code == 0 and self.behind:
            found.append(f"cycle {self.cycle}: succeeded before the driver was ready on {', '.join(self.behind)}")
        return found


@dataclass(frozen=True, slots=True)
class Life:
    """The memory of one process, in MiB."""

    limit: float
    """What the chart lets it have."""
    peak: float
    growth: float = 0.0
    """What came after its first cycle, which warms it up."""


@dataclass(slots=True)
class Soaked:
    """Everything that comes of a soak."""

    daemonset: str
    since: float
    """When the fleet was up and fresh."""
    truth: Truth
    runs: list[Run] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    upsets: list[float] = field(default_factory=list)
    """When something was asked of the operator or done to nodes."""
    wrong: list[str] = field(default_factory=list)
    """How controllers ended that were not to end so."""

    def broken(self) -> list[str]:
        """List every broken promise."""
        early, _raced = self._early()
        left = self.truth.stale_now(self.daemonset)
        found = [line for run in self.runs for line in run.broken]
        found += [f"restarted early: {each.pod} on {each.node}" for each in early]
        found += [f"restarted needlessly: {each.pod} on {each.node}" for each in self._needless()]
        found += [f"stale at the end: {', '.join(left)}"] if left else []
        found += self.wrong
        for life in self.lives:
            if life.growth > GROWTH_MEBIBYTES:
                found.append(f"a process grew by {life.growth:.1f} MiB")
            if life.peak > life.limit:
                found.append(f"a process had {life.peak:.0f} MiB, its limit is {life.limit:.0f}")
        if not any(life.peak for life in self.lives):
            found.append("the memory of no process was seen")
        return found

    def report(self, until: float) -> dict[str, Any]:
        """Sum up, for programs and for people."""
        stale = [
            (until if end is None else end) - start
            for spells in self.truth.stale_intervals(self.daemonset).values()
            for start, end in spells
            if end is None or end >= self.since
        ]
        return {
            "seconds": round(until - self.since),
            "exitCodes": _counted(run.code for run in self.runs),
            "restarts": len(self.truth.restarts(self.daemonset, self.since)),
            "restartsInARace": len(self._early()[1]),
            "staleSecondsMean": round(mean(stale or [0.0]), 1),
            "staleSecondsMost": round(max(stale, default=0.0), 1),
            "memoryPeakMiB": round(max((life.peak for life in self.lives), default=0.0), 1),
            "memoryGrowthMiB": round(max((life.growth for life in self.lives), default=0.0), 1),
            "broken": self.broken(),
        }

    def _early(self) -> tuple[list[Entry], list[Entry]]:
        """Return restarts on nodes that were not settled, and those of them that no program could have known."""
        found = self.truth.early_restarts(self.daemonset, self.since)
        raced = [each for each in found if any(0 <= each.t - upset < RACE_SECONDS for upset in self.upsets)]
        return [each for each in found if each not in raced], raced

    def _needless(self) -> list[Entry]:
        """Return restarts of plugins that were fresh, on nodes that were settled: others are early, or a race."""
        early = {id(each) for part in self._early() for each in part}
        found = self.truth.needless_restarts(self.daemonset, self.since)
        return [each for each in found if id(each) not in early]


def _counted(codes: Iterable[int]) -> dict[str, int]:
    return {str(code): count for code, count in Counter(codes).items()}
