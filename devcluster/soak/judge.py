"""The promises over time, from ground truth and from what the runs came to; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the hook; with a controller, one cycle, which is to end with 0."""

    cycle: int
    began: float
    ended: float
    code: int
    expected: tuple[int, ...]
    """Exit codes that the cycle allows."""
    stale: tuple[str, ...] = ()
    """Nodes with a stale plugin when it ended."""
    behind: tuple[str, ...] = ()
    """Nodes that had not the asked driver, Ready, when it ended."""
    said: str = ""

    @property
    def broken(self) -> list[str]:
        """Return which promises it broke."""
        found = []
        if self.code not in self.expected:
            allowed = " or ".join(str(code) for code in self.expected)
            found.append(f"cycle {self.cycle}: ended with {self.code}, not {allowed}")
        if self.code == 0 and self.stale:
            found.append(f"cycle {self.cycle}: succeeded with stale plugins on {_some(self.stale)}")
        if self.code == 0 and self.behind:
            found.append(f"cycle {self.cycle}: succeeded before the driver was ready on {_some(self.behind)}")
        return found


@dataclass(frozen=True, slots=True)
class Soaked:
    """Everything that came of it."""

    nodes: int
    seed: int
    cycles: tuple[str, ...]
    """What each was."""
    runs: tuple[Run, ...]
    truth: Truth
    since: float
    """When the fleet was up and fresh."""
    daemonset: str
    upsets: tuple[float, ...] = ()
    """When something was asked of the operator or done to nodes."""
    peak: float = 0.0
    """The most memory of a process, in MiB."""
    growth: float = 0.0
    """What a controller took on top of what it had after its first cycle."""
    limit: float = JOB_MEBIBYTES
    """What the chart lets such a process have."""
    wrong: str = ""
    """How controllers ended that were not to end so; empty if all is well."""
    left_stale: tuple[str, ...] = field(default_factory=tuple)
    """Nodes with a stale plugin at the very end."""
    controller_ends: tuple[int, ...] = ()
    """How each controller ended, if controllers ran."""

    def early(self) -> tuple[list[Entry], list[Entry]]:
        """Return restarts on nodes that were not settled, and those of them that no program could have known."""
        found = self.truth.early_restarts(self.daemonset, self.since)
        raced = [each for each in found if self._is_race(each.t)]
        return [each for each in found if each not in raced], raced

    def needless(self) -> list[Entry]:
        """Return restarts of plugins that were fresh, on nodes that were settled: others are early, or a race."""
        early = {id(each) for part in self.early() for each in part}
        found = self.truth.needless_restarts(self.daemonset, self.since)
        return [each for each in found if id(each) not in early]

    def _is_race(self, moment: float) -> bool:
        return any(0 <= moment - upset < RACE_SECONDS for upset in self.upsets)

    def stale_windows(self, until: float) -> list[float]:
        """Return how long each spell of a stale plugin lasted."""
        spells = self.truth.stale_intervals(self.daemonset).values()
        return [
            (until if end is None else end) - start
            for found in spells
            for start, end in found
            if end is None or end >= self.since
        ]

    def broken(self) -> list[str]:
        """List every broken promise."""
        found = [line for run in self.runs for line in run.broken]
        early, _raced = self.early()
        found += [f"restarted early: {each.pod} on {each.node}" for each in early]
        found += [f"restarted needlessly: {each.pod} on {each.node}" for each in self.needless()]
        found += [f"stale at the end: {_some(self.left_stale)}"] if self.left_stale else []
        found += [self.wrong] if self.wrong else []
        if self.growth > GROWTH_MEBIBYTES:
            found.append(f"the memory grew by {self.growth:.1f} MiB")
        if self.peak > self.limit:
            found.append(f"the memory came to {self.peak:.0f} MiB, its limit is {self.limit:.0f}")
        if not self.peak:
            found.append("the memory was not seen")
        return found

    def report(self, until: float) -> dict[str, Any]:
        """Sum up, for programs and for people."""
        windows = self.stale_windows(until)
        return {
            "nodes": self.nodes,
            "cycles": len(self.cycles),
            "seed": self.seed,
            "seconds": round(until - self.since),
            "runs": len(self.runs),
            "exitCodes": _counted(run.code for run in self.runs),
            "controllerExitCodes": _counted(self.controller_ends),
            "restarts": len(self.truth.restarts(self.daemonset, self.since)),
            "restartsInARace": len(self.early()[1]),
            "staleWindows": len(windows),
            "staleSecondsMean": round(_mean(windows), 1),
            "staleSecondsMost": round(max(windows, default=0.0), 1),
            "memoryPeakMiB": round(self.peak, 1),
            "memoryGrowthMiB": round(self.growth, 1),
            "broken": self.broken(),
        }


def _counted(codes: Iterable[int]) -> dict[str, int]:
    return {str(code): count for code, count in Counter(codes).items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _some(nodes: Iterable[str]) -> str:
    every = list(nodes)
    return ", ".join(every[:5]) + (f" and {len(every) - 5} more" if len(every) > 5 else "")  # noqa: PLR2004 - a few
