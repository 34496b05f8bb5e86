"""The plan as data. ``plan -o json`` prints these Structs."""

from __future__ import annotations

from enum import StrEnum, unique

from msgspec import Struct, field

from hook.decide.reasons import Reason  # noqa: TC001 - msgspec reads the types


@unique
class Severity(StrEnum):
    """The effect of an obstacle. The worst comes first."""

    BLOCKS = "blocks"
    """Some node is not upgraded until an administrator acts."""
    HARMS = "harms"
    """The restart of a plugin does harm to GPUs or workloads."""
    SLOWS = "slows"
    NOTE = "note"
    """The figures are less certain, or have another meaning than expected."""


@unique
class Obstacle(StrEnum):
    """All obstacles that a plan can name. Users search for these names, so do not change them lightly."""

    AUTO_UPGRADE_OFF = "AutoUpgradeOff"
    LIMIT_USED_UP = "LimitUsedUp"
    DRIVER_PODS_MISSING = "DriverPodsMissing"
    UPGRADE_FAILED = "UpgradeFailed"
    NODES_NOT_READY = "NodesNotReady"
    PODS_NOT_EVICTABLE = "PodsNotEvictable"
    PODS_NOT_DRAINABLE = "PodsNotDrainable"
    RESTART_LOSES_GPUS = "RestartLosesGpus"
    RESTART_DELETES_MIG = "RestartDeletesMig"
    NODES_CORDONED = "NodesCordoned"
    PLUGIN_HOLDS_DRIVER = "PluginHoldsDriver"
    WAITS_FOR_PODS = "WaitsForPods"
    NODES_LEFT_ALONE = "NodesLeftAlone"
    UPGRADE_UNDER_WAY = "UpgradeUnderWay"
    STEP_IS_ASSUMED = "StepIsAssumed"
    PODS_NOT_READ = "PodsNotRead"
    MALFORMED_OBJECT = "MalformedObject"


class Part(Struct, frozen=True, rename="camel"):
    """A part of the plan."""


class Finding(Part, frozen=True):
    """One obstacle: what was observed, and what to do."""

    obstacle: Obstacle
    severity: Severity
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    """All nodes that the obstacle concerns."""


class Spread(Part, frozen=True):
    """A measured time: median and 90th percentile."""

    median: float = field(name="medianSeconds")
    p90: float = field(name="p90Seconds")
    samples: int


class Range(Part, frozen=True):
    """A typical time, and the time of a slow case."""

    typical: float = field(name="typicalSeconds")
    slow: float = field(name="slowSeconds")

    def times(self, count: int) -> Range:
        """Return the time that several of these take, one after another."""
        return Range(self.typical * count, self.slow * count)


class Step(Range, frozen=True):
    """How long a node keeps its place, from the turn of one node to the turn of the next."""

    measured: int = 0
    """The number of steps of the last upgrade that were measured. 0: the step is assumed."""


class Budget(Part, frozen=True):
    """How many nodes the upgrade controller upgrades at once, by its own arithmetic."""

    total: int = field(name="managedNodes")
    """Nodes that it manages. Percentages refer to this number."""
    parallel: int = field(name="maxParallelUpgrades")
    """Zero means no limit."""
    unavailable: str | None = field(name="maxUnavailable")
    """As written; None where there is no such limit."""
    allowed: int = field(name="maxUnavailableNodes")
    """The same as a number, rounded up. Zero if it is not a valid limit."""
    lost: tuple[str, ...] = field(name="unavailable")
    """Nodes that are cordoned or not Ready, but not because of the upgrade. They count against ``maxUnavailable``."""
    stuck: tuple[str, ...] = field(name="failed")
    """Nodes whose last upgrade failed. Each keeps a place."""
    at_once: int
    """Nodes that are upgraded at the same time."""


class Capacity(Part, frozen=True):
    """The GPU capacity that the upgrade takes away."""

    gpus: int
    """GPUs of all nodes of the pool, including excluded nodes."""
    away: int = field(name="gpusAway")
    """GPUs that are unavailable at the worst moment because of the upgrade."""
    unknown: tuple[str, ...] = field(name="unknownNodes")
    """Nodes whose number of GPUs is unknown. It counts as zero."""


class Target(Part, frozen=True):
    """The parallelism that finishes within the requested time."""

    seconds: float
    reason: str
    at_once: int | None = None
    """Nodes at once; None if no number is enough."""
    change: bool = False
    """The current limits are not enough."""
    parallel: int | None = field(name="maxParallelUpgrades", default=None)
    """Value to set, including nodes that keep their places."""
    unavailable: int | None = field(name="maxUnavailable", default=None)
    """Lowest value to set, including lost nodes; None where there is no such limit."""
    away: int | None = field(name="gpusAway", default=None)
    """GPUs that are then unavailable at the worst moment."""


class Excluded(Part, frozen=True):
    """An excluded node: the upgrade passes over it, or its plugins are not restarted."""

    node: str
    reason: Reason
    message: str


class PoolPlan(Part, frozen=True):
    """The plan for nodes that share one upgrade policy."""

    name: str
    """The object with the upgrade policy."""
    nodes: tuple[str, ...]
    """Nodes that will reload their driver."""
    excluded: tuple[Excluded, ...]
    budget: Budget = field(name="limits")
    reload: Spread | None
    """From the start of the unloading, where the pods record it, until the driver is Ready; None if unknown."""
    step: Step
    turns: int | None
    """Number of turns until every node is upgraded; None if the upgrade never ends by itself."""
    window: Range | None
    """From the change of the policy to the last node; None if the upgrade never ends by itself."""
    capacity: Capacity
    obstacles: tuple[Finding, ...] = ()
    target: Target | None = None


class NoPlan(Part, frozen=True):
    """Why there is nothing to plan."""

    reason: Reason
    message: str


class Timeouts(Part, frozen=True):
    """Timeouts for a run that waits for the whole window in a slow case."""

    chart: float = field(name="chartSeconds")
    tool: float = field(name="deploymentToolSeconds")


class Plan(Part, frozen=True):
    """The plan for all pools of nodes."""

    version: str
    window: Range | None
    """The longest window, because pools are upgraded in parallel; None if one never ends."""
    timeouts: Timeouts | None
    """None if no time is enough."""
    nothing: NoPlan | None
    pools: tuple[PoolPlan, ...]
