"""Metrics of the controller for Prometheus.

Counters and histograms are those of the library. Gauges of the fleet are built at each scrape.

The reconcile loop and the thread that renews the Lease call these methods. They neither raise nor block.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hook import __version__
from hook.decide.reasons import Reason
from hook.decide.result import Cause, DeletePod, NodeState
from hook.run.health import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime, timedelta

    from prometheus_client.core import Metric

    from hook.decide.decide import Memories
    from hook.decide.result import Action, Decision, NodeStatus, StalePod
    from hook.decide.state import Memory
    from hook.kube.client import Counters
    from hook.kube.informer import OutOfSync
    from hook.run.loop import RestartResult

Key = tuple[str, str, str]
"""Stack, node, consumer."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A plugin that was stale and is verified now."""

    stack: str
    after: timedelta


def is_stale(judged: NodeStatus) -> bool:
    """Return whether a plugin pod is stale, restarted or not."""
    return judged.stale_pod is not None or judged.reason is Reason.TAINT_NOT_TOLERATED


def is_served(judged: NodeStatus) -> bool:
    """Return whether the status is that of a plugin on an eligible node with a settled driver."""
    return bool(judged.plugin) and judged.state is not NodeState.EXCLUDED


class Staleness:
    """Stale plugins, and since when they are stale."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def update(self, statuses: Iterable[NodeStatus], now: datetime) -> list[Recovery]:
        """Record the statuses of a reconcile. Return the plugins that were verified since the last one."""
        judged = {(status.stack, status.node, status.plugin): status for status in statuses}
        back: list[Recovery] = []
        after: dict[Key, datetime] = {}
        for key, since in self._since.items():
            status = judged.get(key)
            if status is not None and status.state is NodeState.VERIFIED:
                back.append(Recovery(status.stack, now - since))
            elif _goes_on(status, key, judged):
                after[key] = since
        for key, status in judged.items():
            if is_stale(status) and status.state is not NodeState.EXCLUDED:
                after[key] = min(after.get(key, now), _ready(status) or now)
        self._since = after
        return back

    def oldest(self, stack: str) -> datetime | None:
        """Return since when the plugin that has waited longest is stale, or None."""
        return min((since for (of, _node, _consumer), since in self._since.items() if of == stack), default=None)


def _goes_on(judged: NodeStatus | None, key: Key, others: Mapping[Key, NodeStatus]) -> bool:
    """Return whether a plugin that was stale is not verified yet: its own status, or that of its node, shows it."""
    if judged is None:
        stack, node, _consumer = key
        judged = others.get((stack, node, ""))
    return judged is not None and judged.state is not NodeState.EXCLUDED


def _ready(judged: NodeStatus) -> datetime | None:
    return judged.stale_pod.driver_ready if judged.stale_pod is not None else None


PREFIX: Final = "gpu_operator_post"
REACTION_BUCKETS: Final = (0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600)
"""Seconds. A restart normally follows within two seconds, and waits longer only for the disruption budget."""
STALE_BUCKETS: Final = (5, 10, 20, 30, 45, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""Seconds. A healthy plugin is verified 10 to 40 s after a restart. Without a restart it is stale for hours."""
LEAST_ADVANCED: Final = tuple(NodeState(name) for name in (
    "Failed", "Stale", "Waiting", "Restarting", "Verifying", "Verified", "Excluded",
))  # fmt: skip
"""Severity order: the worst status of a node is the one that counts."""


@dataclass(frozen=True, slots=True)
class Standing:
    """State of the fleet after a reconcile. Empty on a standby."""

    nodes: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """Number of nodes by stack, state and reason."""
    plugins: Mapping[str, int] = field(default_factory=dict)
    """Number of plugins on eligible nodes with a settled driver, by stack."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Number of stale plugins, by stack."""
    oldest: Mapping[str, datetime] = field(default_factory=dict)
    """Since when the plugin that has waited longest is stale, by stack."""
    breakers: Mapping[str, bool] = field(default_factory=dict)
    """Whether the circuit breaker is open, by stack."""


def by_node(statuses: Iterable[NodeStatus]) -> dict[tuple[str, str, str], int]:
    """Return the number of nodes by stack, state and reason. Each node counts once per stack, by its worst status."""
    worst: dict[tuple[str, str], NodeStatus] = {}
    for status in statuses:
        key = status.stack, status.node
        if key not in worst or LEAST_ADVANCED.index(status.state) < LEAST_ADVANCED.index(worst[key].state):
            worst[key] = status
    return Tally((status.stack, str(status.state), str(status.reason)) for status in worst.values())


class Metrics:
    """All metrics, in a separate registry."""

    def __init__(self, counters: Counters, standing: Callable[[], Standing], lost_seconds: Callable[[], float]) -> None:
        registry = self.registry = CollectorRegistry()
        self.leader = _gauge("leader", "1 while this replica holds the Lease and acts, else 0", registry)
        self.last_round = _gauge("last_round_timestamp_seconds", "Time of the last finished reconcile", registry)
        contact = _gauge(
            "contact_lost_seconds", "Seconds for which the cluster could not be read; 0 while it can be read", registry
        )
        contact.set_function(lost_seconds)
        build = Gauge(
            "build_info", "Always 1; the version is a label", ["version"], namespace=PREFIX, registry=registry
        )
        build.labels(__version__).set(1)
        self.restarts = Counter(
            "restarts", "Restarts of stale plugins by cause of staleness and by result",
            ["stack", "reason", "result"], namespace=PREFIX, registry=registry,
        )  # fmt: skip
        self.reaction = Histogram(
            "reaction_seconds", "Seconds from the ready driver, or this leader's first reconcile, to the restart",
            ["stack"], namespace=PREFIX, registry=registry, buckets=REACTION_BUCKETS,
        )  # fmt: skip
        self.stale = Histogram(
            "stale_seconds", "Seconds from the ready driver to the verified plugin, for plugins that were stale",
            ["stack"], namespace=PREFIX, registry=registry, buckets=STALE_BUCKETS,
        )  # fmt: skip
        registry.register(_Fleet(standing))
        registry.register(_Contact(counters))
        ProcessCollector(registry=registry)


class _Fleet(Collector):
    """State of the fleet, without label values that no longer exist."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        seen = self._standing()
        nodes = _family("nodes", "Nodes by state and reason", ["stack", "state", "reason"])
        for labels, count in seen.nodes.items():
            nodes.add_metric(labels, count)
        plugins = _family("plugins", "Plugins on nodes whose driver is settled", ["stack"])
        stale = _family("stale_plugins", "Plugins that run on a driver that was unloaded", ["stack"])
        oldest = _family(
            "oldest_stale_timestamp_seconds",
            "Time since which the plugin that has waited longest is stale; absent if none is",
            ["stack"],
        )
        breakers = _family("breaker_open", "1 while the circuit breaker is open and nothing is restarted", ["stack"])
        for family, values in (
            (plugins, seen.plugins),
            (stale, seen.stale),
            (oldest, {stack: since.timestamp() for stack, since in seen.oldest.items()}),
            (breakers, seen.breakers),
        ):
            for stack, value in values.items():
                family.add_metric([stack], value)
        yield from (nodes, plugins, stale, oldest, breakers)


class _Contact(Collector):
    """Errors of requests to the API server."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            f"{PREFIX}_api_errors", "Requests that failed", labels=["kind", "verb", "resource"]
        )
        for failure, count in self._counters.errors.items():
            errors.add_metric(failure, count)
        watches = CounterMetricFamily(
            f"{PREFIX}_watch_restarts", "Watches that were restarted", labels=["resource", "reason"]
        )
        for restart, count in self._counters.watches.items():
            watches.add_metric(restart, count)
        yield from (errors, watches)


def _gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(name, text, namespace=PREFIX, registry=registry)


def _family(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)


RESTARTED: Final = "restarted"
REFUSED: Final = "refused"
FAILED: Final = "failed"


class Telemetry:
    """Records what the controller does. Safe to use from several threads."""

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # one more time series per counter, without use
        self._lock = threading.Lock()
        self.health = Health(clock)
        """What /healthz and /readyz show."""
        self._staleness = Staleness()
        self._standing = Standing()
        self._since: datetime | None = None
        """When this replica finished its first reconcile as leader."""
        self._metrics = Metrics(counters, lambda: self._standing, self._lost_seconds)

    @property
    def registry(self) -> CollectorRegistry:
        """Return the registry for /metrics."""
        return self._metrics.registry

    def trying(self, trouble: str = "") -> None:
        """Record a Lease request, with its error if it failed."""
        self.health.try_for_the_lease(trouble)

    def leading(self, leading: bool) -> None:
        """Record that the Lease was acquired or lost. A standby has no metrics of the fleet."""
        self.health.lead(leading=leading)
        with self._lock:
            self._metrics.leader.set(leading)
            self._staleness, self._standing, self._since = Staleness(), Standing(), None

    def waiting(self, lost: OutOfSync | None) -> None:
        """Record that the cache is not synced, so no reconcile can finish."""
        self.health.wait(lost)

    def round(self, decision: Decision, memories: Memories, lost: OutOfSync | None, now: datetime) -> None:
        """Record a finished reconcile; `now` is by the API server's clock."""
        with self._lock:
            self._since = self._since or now
            for recovery in self._staleness.update(decision.statuses, now):
                self._metrics.stale.labels(recovery.stack).observe(max(recovery.after.total_seconds(), 0.0))
            breakers = {stack: _is_open(memory) for stack, memory in memories.items()}
            self._standing = Standing(
                nodes=by_node(decision.statuses),
                plugins=_by_stack(filter(is_served, decision.statuses), memories),
                stale=_by_stack(filter(is_stale, decision.statuses), memories),
                oldest={stack: since for stack in memories if (since := self._staleness.oldest(stack)) is not None},
                breakers=breakers,
            )
            self._metrics.last_round.set_to_current_time()
            self._show_zeros(memories)
        self.health.finish_round(lost, [stack for stack, is_open in breakers.items() if is_open])

    def executed(self, result: RestartResult, now: datetime) -> None:
        """Record a restart and its result; `now` is by the API server's clock."""
        outcome = REFUSED if result.refused else FAILED if result.trouble else RESTARTED
        with self._lock:
            for pod in _pods(result.action):
                self._metrics.restarts.labels(result.action.stack, pod.cause, outcome).inc()
                if outcome == RESTARTED:
                    self._react(result.action.stack, pod, now)

    def _show_zeros(self, stacks: Iterable[str]) -> None:
        """Create all counters with 0. Prometheus does not see the first increment of a counter that starts with it."""
        for stack in stacks:
            self._metrics.reaction.labels(stack)
            self._metrics.stale.labels(stack)
            for cause in Cause:
                for result in (RESTARTED, REFUSED, FAILED):
                    self._metrics.restarts.labels(stack, cause, result)

    def _react(self, stack: str, pod: StalePod, now: datetime) -> None:
        """Record the reaction time, from when a restart was possible. A retry does not count."""
        if pod.driver_ready is None or pod.again or self._since is None:
            return
        since = max(pod.driver_ready, self._since)
        self._metrics.reaction.labels(stack).observe(max((now - since).total_seconds(), 0.0))

    def _lost_seconds(self) -> float:
        lost = self.health.lost
        return lost.seconds if lost is not None else 0.0


def _by_stack(statuses: Iterable[NodeStatus], stacks: Iterable[str]) -> dict[str, int]:
    """Return the number of statuses per stack, also 0."""
    found = Tally(status.stack for status in statuses)
    return {stack: found[stack] for stack in stacks}


def _pods(action: Action) -> Iterator[StalePod]:
    """Return the pods that an action restarts. The same restart for other stacks does not count again."""
    if isinstance(action, DeletePod):
        yield action.pod
    else:
        yield from (pod for _node, pod in action.pods)


def _is_open(memory: Memory) -> bool:
    return memory.breaker.opened_at is not None
