"""The plan as data. ``plan -o json`` prints these Structs; the schema ``docs/plan.schema.json`` describes them."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types
from enum import StrEnum, unique

from msgspec import Struct, field

from hook.decide.reasons import Reason  # noqa: TC001


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
    PODS_NOT_DRAINABLE = "PodsNotDrainable"
    NODES_CORDONED = "NodesCordoned"
    NODES_LEFT_ALONE = "NodesLeftAlone"
    LIMIT_ELSEWHERE = "LimitElsewhere"
    PLUGIN_HOLDS_DRIVER = "PluginHoldsDriver"
    WAITS_FOR_PODS = "WaitsForPods"
    UPGRADE_UNDER_WAY = "UpgradeUnderWay"
    STEP_IS_ASSUMED = "StepIsAssumed"
    RELOADS_UNKNOWN = "ReloadsUnknown"
    GPUS_UNKNOWN = "GpusUnknown"
    PODS_NOT_READ = "PodsNotRead"
    NO_PLUGIN = "NoPlugin"
    MALFORMED_OBJECT = "MalformedObject"


class Finding(Struct, frozen=True):
    """One obstacle: what was observed, and what to do."""

    obstacle: Obstacle
    severity: Severity
    message: str
    remedy: str = ""
    nodes: tuple[str, ...] = ()
    """All nodes that the obstacle concerns."""


class Spread(Struct, frozen=True):
    """A measured time: median and 90th percentile."""

    median: float = field(name="medianSeconds")
    p90: float = field(name="p90Seconds")
    samples: int


class Range(Struct, frozen=True):
    """A typical time, and the time of a slow case."""

    typical: float = field(name="typicalSeconds")
    slow: float = field(name="slowSeconds")

    def times(self, count: int) -> Range:
        """Return the time that several of these take, one after another."""
        return Range(self.typical * count, self.slow * count)


class Step(Range, frozen=True):
    """How long a node keeps its place, from the turn of one node to the turn of the next."""

    measured: Spread | None = None
    """Between the starts of successive reloads in the last upgrade; None if the step is assumed."""


class Reloads(Struct, frozen=True):
    """Times measured from the driver pods of a pool."""

    loading: Spread | None = None
    """From the start of the driver container to Ready."""
    whole: Spread | None = field(name="withUnloading", default=None)
    """From the start of the unloading (the pod's init containers) to Ready, for pods that record it."""
    pods: int = 0
    """Driver pods that were examined. A pod without a sample records no times, or implausible ones."""


class Budget(Struct, frozen=True, rename="camel"):
    """How many nodes the upgrade controller upgrades at once, by its own arithmetic."""

    total: int = field(name="managedNodes")
    """Nodes that it manages. Percentages refer to this number."""
    parallel: int = field(name="maxParallelUpgrades")
    """Zero means no limit."""
    unavailable: str | None = field(name="maxUnavailable")
    """As written; None where there is no such limit."""
    allowed: int | None = field(name="maxUnavailableNodes")
    """The same as a number, rounded up; None if it is not a valid limit."""
    lost: tuple[str, ...] = field(name="unavailable")
    """Nodes that are cordoned or not Ready, but not because of the upgrade. They count against ``maxUnavailable``."""
    stuck: tuple[str, ...] = field(name="failed")
    """Nodes whose upgrade failed. Each one keeps one of the parallel places."""
    at_once: int
    """Nodes that can reload at the same time."""


class GpuHours(Struct, frozen=True):
    """GPU-hours of the whole upgrade, in a typical and in a slow case."""

    typical: float
    slow: float


class Capacity(Struct, frozen=True, rename="camel"):
    """The GPU capacity that the upgrade takes away."""

    gpus: int
    """GPUs of all nodes of the pool, including excluded nodes."""
    at_once: int = field(name="gpusAway")
    """GPUs that are unavailable at the worst moment because of the upgrade."""
    percent: float
    """The share of all GPUs that is unavailable at the worst moment."""
    hours: GpuHours | None = field(name="gpuHours")
    """Each node is unavailable for one step."""
    sources: Mapping[str, int]
    """Number of nodes by the source of their GPU count."""
    unknown: tuple[str, ...] = field(name="unknownNodes")
    """Nodes whose number of GPUs is unknown."""


class Target(Struct, frozen=True, rename="camel"):
    """The parallelism that finishes within the requested time."""

    seconds: float
    reason: str
    possible: bool = False
    """Some number of nodes at once is enough."""
    change: bool = True
    """The current limits are not enough."""
    at_once: int | None = None
    """Nodes at once."""
    parallel: int | None = field(name="maxParallelUpgrades", default=None)
    """Value to set, including nodes that keep their places."""
    unavailable: int | None = field(name="maxUnavailable", default=None)
    """Lowest value to set, including lost nodes; None where there is no such limit."""
    gpus: int | None = field(name="gpusAway", default=None)
    """GPUs that are then unavailable at the worst moment."""


class Excluded(Struct, frozen=True):
    """An excluded node: the upgrade passes over it, or its plugins are not restarted."""

    node: str
    reason: Reason
    message: str


class PoolPlan(Struct, frozen=True):
    """The plan for nodes that share one upgrade policy."""

    name: str
    """The object with the upgrade policy."""
    nodes: tuple[str, ...]
    """Nodes that will reload their driver."""
    excluded: tuple[Excluded, ...] = field(name="leftAlone")
    budget: Budget = field(name="limits")
    reloads: Reloads = field(name="reload")
    step: Step
    turns: int | None
    """Number of turns until every node is upgraded; None if the upgrade never ends by itself."""
    window: Range | None
    """From the change of the policy to the last node; None if the upgrade never ends by itself."""
    capacity: Capacity
    obstacles: tuple[Finding, ...]
    target: Target | None = None


class NoPlan(Struct, frozen=True):
    """Why there is nothing to plan."""

    reason: Reason
    message: str


class Timeouts(Struct, frozen=True):
    """The timeouts for the chart and for each deployment tool, as each of them reads it."""

    timeout: str
    helm: str
    helmfile: str
    flux: str
    argocd: None = None
    """A sync of Argo CD has no timeout by default."""


class Plan(Struct, frozen=True):
    """The plan for all pools of nodes."""

    version: str
    window: Range | None
    """The longest window, because pools are upgraded in parallel; None if one never ends."""
    timeouts: Timeouts | None
    """For a run that waits for the whole window in a slow case; None if no time is enough."""
    nothing: NoPlan | None
    pools: tuple[PoolPlan, ...]
