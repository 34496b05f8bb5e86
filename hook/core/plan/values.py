"""What a plan says. Data with reasons; times are seconds, because they are measured in whole ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.core.reasons import Reason


@unique
class Severity(StrEnum):
    """What an obstacle does to the upgrade."""

    BLOCKS = "blocks"
    """Some node is not upgraded until a person does something."""
    SLOWS = "slows"
    NOTE = "note"
    """The figures are less sure, or mean something else than one may think."""


@unique
class Obstacle(StrEnum):
    """Every obstacle that a plan can name. People grep for these: they do not change lightly."""

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
    NO_CONSUMER = "NoConsumer"
    UNREADABLE = "Unreadable"


@dataclass(frozen=True, slots=True)
class Warned:
    """One obstacle, with what was seen and what to do about it."""

    obstacle: Obstacle
    severity: Severity
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    """Nodes that it is about, all of them."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A measured time: its median, and what nine of ten stay below."""

    median: float
    p90: float
    samples: int


@dataclass(frozen=True, slots=True)
class Reloads:
    """What a pool's own driver pods tell about how long things take."""

    loading: Spread | None = None
    """Start of the driver container to Ready."""
    whole: Spread | None = None
    """Start of the unloading (the pod's init containers) to Ready; of pods that tell it."""
    steps: Spread | None = None
    """Between the beginnings of successive reloads in the last upgrade."""
    pods: int = 0
    """Driver pods that were looked at; those without a sample did not tell, or not plausibly."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How many nodes an upgrade controller takes at once, by its own arithmetic."""

    total: int
    """Nodes that it manages: what percentages are of."""
    parallel: int
    """``maxParallelUpgrades``; zero is no limit."""
    unavailable: str
    """``maxUnavailable`` as written; empty where there is no such limit."""
    allowed: int | None
    """The same as a number, rounded up; None where it cannot be read as one."""
    lost: tuple[str, ...]
    """Nodes that are cordoned or not Ready, and will stay so: they count against it."""
    stuck: tuple[str, ...]
    """Nodes whose upgrade failed: they keep their places among the parallel ones."""
    at_once: int
    """What is left: nodes that reload at the same time."""


@dataclass(frozen=True, slots=True)
class Range:
    """A time as it usually is, and as it is when things are slow."""

    typical: float
    slow: float

    def times(self, count: int) -> Range:
        """Give the same so many times, one after another."""
        return Range(self.typical * count, self.slow * count)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the upgrade takes away."""

    gpus: int
    """All of the pool's nodes, those that are left alone included."""
    at_once: int
    """GPUs away at the worst moment because of the upgrade."""
    hours: Range | None
    """GPU-hours over the whole upgrade: each node is away for one step."""
    sources: Mapping[str, int] = field(default_factory=dict)
    """How many nodes' GPUs are known from where."""
    unknown: tuple[str, ...] = ()
    """Nodes of which nothing says how many GPUs they have."""

    @property
    def percent(self) -> float:
        """Share of all GPUs that is away at the worst moment."""
        return 100 * self.at_once / self.gpus if self.gpus else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Which parallelism would finish within a time that somebody wants."""

    seconds: float
    at_once: int | None
    """Nodes at once; None where none would do."""
    reason: str
    change: bool = True
    """The limits of now would not do."""
    parallel: int | None = None
    """What to set ``maxParallelUpgrades`` to, nodes that keep their places included."""
    unavailable: int | None = None
    """What ``maxUnavailable`` must be at least, lost nodes included; None where there is no such limit."""
    gpus: int | None = None
    """GPUs away at the worst moment then."""


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A node that will not be upgraded, or is not ours to serve."""

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
    left_alone: tuple[LeftAlone, ...]
    budget: Budget
    reloads: Reloads
    step: Range
    """How long a node keeps its place: from one node's turn to the next one's."""
    batches: int | None
    """Turns until every node had its own; None where they never end."""
    capacity: Capacity
    obstacles: tuple[Warned, ...]
    answer: Answer | None = None

    @property
    def window(self) -> Range | None:
        """From the change of the policy until the last node is done; None where that never comes by itself."""
        return None if self.batches is None else self.step.times(self.batches)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for all chosen driver stacks."""

    pools: tuple[PoolPlan, ...]
    nothing: tuple[tuple[str, Reason, str], ...] = ()
    """Stacks without anything to plan: name, reason, message."""
    settling: float = 0.0
    """Seconds that a run may need beside the reloads themselves."""

    @property
    def window(self) -> Range | None:
        """Pools and stacks go on side by side, so the longest one counts; None if one never ends."""
        windows = [pool.window for pool in self.pools]
        known = [one for one in windows if one is not None]
        if not known or len(known) < len(windows):
            return None
        return Range(max(one.typical for one in known), max(one.slow for one in known))

    @property
    def run_seconds(self) -> float | None:
        """What a run that waits for all of it may need, when things are slow."""
        return None if self.window is None else self.window.slow + self.settling
