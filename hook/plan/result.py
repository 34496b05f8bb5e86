"""What a plan says, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.decide.reasons import Reason


@unique
class Severity(StrEnum):
    """The effect of an obstacle on the upgrade."""

    BLOCKS = "blocks"
    """Some node is not upgraded until an administrator acts."""
    SLOWS = "slows"
    NOTE = "note"
    """The figures are less certain, or have another meaning than expected."""


@unique
class Obstacle(StrEnum):
    """All obstacles that a plan can name. Users search for these names, so do not change them lightly."""

    AUTO_UPGRADE_OFF = "AutoUpgradeOff"
    LIMIT_INVALID = "LimitInvalid"
    LIMIT_USED_UP = "LimitUsedUp"
    DRIVER_PODS_MISSING = "DriverPodsMissing"
    UPGRADE_FAILED = "UpgradeFailed"
    NODES_NOT_READY = "NodesNotReady"
    PODS_NOT_EVICTABLE = "PodsNotEvictable"
    NODES_CORDONED = "NodesCordoned"
    NODES_LEFT_ALONE = "NodesLeftAlone"
    LIMIT_ELSEWHERE = "LimitElsewhere"
    WAITS_FOR_PODS = "WaitsForPods"
    UPGRADE_UNDER_WAY = "UpgradeUnderWay"
    STEP_IS_ASSUMED = "StepIsAssumed"
    RELOADS_UNKNOWN = "ReloadsUnknown"
    GPUS_UNKNOWN = "GpusUnknown"
    PODS_NOT_READ = "PodsNotRead"
    NO_PLUGIN = "NoPlugin"
    MALFORMED_OBJECT = "MalformedObject"


@dataclass(frozen=True, slots=True)
class Warned:
    """One obstacle: what was observed, and what to do."""

    obstacle: Obstacle
    severity: Severity
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    """All nodes that the obstacle concerns."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured time: median and 90th percentile."""

    median: float
    p90: float
    samples: int


@dataclass(frozen=True, slots=True)
class Reloads:
    """Times measured from the driver pods of a pool."""

    loading: Spread | None = None
    """From the start of the driver container to Ready."""
    whole: Spread | None = None
    """From the start of the unloading (the pod's init containers) to Ready, for pods that record it."""
    steps: Spread | None = None
    """Between the starts of successive reloads in the last upgrade."""
    pods: int = 0
    """Driver pods that were examined. A pod without a sample records no times, or implausible ones."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many nodes the upgrade controller upgrades at once, by its own arithmetic."""

    total: int
    """Nodes that it manages. Percentages refer to this number."""
    parallel: int
    """``maxParallelUpgrades``; zero means no limit."""
    unavailable: str
    """``maxUnavailable`` as written; empty where there is no such limit."""
    allowed: int | None
    """The same as a number, rounded up; None if it is not a valid limit."""
    lost: tuple[str, ...]
    """Nodes that are cordoned or not Ready, but not because of the upgrade. They count against ``maxUnavailable``."""
    stuck: tuple[str, ...]
    """Nodes whose upgrade failed. Each one keeps one of the parallel places."""
    at_once: int
    """Nodes that can reload at the same time."""


@dataclass(frozen=True, slots=True)
class Range:
    """A typical time, and the time of a slow case."""

    typical: float
    slow: float

    def times(self, count: int) -> Range:
        """Return the time that several of these take, one after another."""
        return Range(self.typical * count, self.slow * count)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The GPU capacity that the upgrade takes away."""

    gpus: int
    """GPUs of all nodes of the pool, including excluded nodes."""
    at_once: int
    """GPUs that are unavailable at the worst moment because of the upgrade."""
    hours: Range | None
    """GPU-hours of the whole upgrade. Each node is unavailable for one step."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """Number of nodes by the source of their GPU count."""
    unknown: tuple[str, ...] = ()
    """Nodes whose number of GPUs is unknown."""

    @property
    def percent(self) -> float:
        """Return the share of all GPUs that is unavailable at the worst moment."""
        return 100 * self.at_once / self.gpus if self.gpus else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The parallelism that finishes within the requested time."""

    seconds: float
    at_once: int | None
    """Nodes at once; None if no number is enough."""
    reason: str
    change: bool = True
    """The current limits are not enough."""
    parallel: int | None = None
    """Value for ``maxParallelUpgrades``, including nodes that keep their places."""
    unavailable: int | None = None
    """Lowest value for ``maxUnavailable``, including lost nodes; None where there is no such limit."""
    gpus: int | None = None
    """GPUs that are then unavailable at the worst moment."""


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """An excluded node: the upgrade passes over it, or its plugins are not restarted."""

    node: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The plan for nodes that share one upgrade policy."""

    stack: str
    name: str
    """The object with the upgrade policy."""
    nodes: tuple[str, ...]
    """Nodes that will reload their driver."""
    excluded: tuple[LeftAlone, ...]
    budget: Budget
    reloads: Reloads
    step: Range
    """How long a node keeps its place, from the turn of one node to the turn of the next."""
    batches: int | None
    """Number of turns until every node is upgraded; None if the upgrade never ends by itself."""
    capacity: Capacity
    obstacles: tuple[Warned, ...]
    answer: Answer | None = None

    @property
    def window(self) -> Range | None:
        """Return the time from the change of the policy to the last node; None if it never ends by itself."""
        return None if self.batches is None else self.step.times(self.batches)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for all chosen driver stacks."""

    pools: tuple[PoolPlan, ...]
    nothing: tuple[tuple[str, Reason, str], ...] = ()
    """Stacks without anything to plan: name, reason, message."""
    settling: float = 0.0
    """Seconds that a run may need in addition to the reloads themselves."""

    @property
    def window(self) -> Range | None:
        """Return the longest window, because pools and stacks are upgraded in parallel; None if one never ends."""
        windows = [pool.window for pool in self.pools]
        known = [window for window in windows if window is not None]
        if not known or len(known) < len(windows):
            return None
        return Range(max(window.typical for window in known), max(window.slow for window in known))

    @property
    def run_seconds(self) -> float | None:
        """Return the seconds that a run needs to wait for the whole upgrade in a slow case."""
        return None if self.window is None else self.window.slow + self.settling
