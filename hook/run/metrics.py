"""Metrics of the controller for Prometheus.

Counters and histograms are those of the library. Gauges of the fleet are built at each scrape.

The reconcile loop and the thread that renews the Lease call these methods. They neither raise nor block.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hook import __version__
from hook.decide.reasons import Reason
from hook.decide.result import Cause, NodeState
from hook.run.health import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime, timedelta

    from prometheus_client.core import Metric

    from hook.decide.result import NodeStatus, StalePod
    from hook.decide.workloads import Affected
    from hook.kube.client import Counters
    from hook.kube.informer import OutOfSync
    from hook.run.report import RestartResult
    from hook.run.status import ControllerState

Key = tuple[str, str]
"""Node, plugin."""


def is_stale(status: NodeStatus) -> bool:
    """Return whether a plugin pod is stale, restarted or not."""
    return status.stale_pod is not None or status.reason is Reason.TAINT_NOT_TOLERATED


def is_eligible(status: NodeStatus) -> bool:
    """Return whether the status is that of a plugin on an eligible node with a settled driver."""
    return bool(status.plugin) and status.state is not NodeState.EXCLUDED


class Staleness:
    """Stale plugins, and since when they are stale."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def update(self, statuses: Iterable[NodeStatus], now: datetime) -> list[timedelta]:
        """Record the statuses of a reconcile. Return how long each plugin was stale that is verified since the last."""
        stale, verified = {node for node, _plugin in self._since}, Reason.VERIFIED
        found = {
            (status.node, status.plugin): status
            for status in statuses
            if status.reason is not verified or status.node in stale
        }
        recovered: list[timedelta] = []
        since: dict[Key, datetime] = {}
        for key, began in self._since.items():
            status = found.get(key)
            if status is not None and status.state is NodeState.VERIFIED:
                recovered.append(now - began)
            elif _still_stale(status, key, found):
                since[key] = began
        for key, status in found.items():
            if is_stale(status) and status.state is not NodeState.EXCLUDED:
                ready = status.stale_pod.driver_ready if status.stale_pod is not None else None
                since[key] = min(since.get(key, now), ready or now)
        self._since = since
        return recovered

    @property
    def oldest(self) -> datetime | None:
        """Return since when the plugin that has waited longest is stale, or None."""
        return min(self._since.values(), default=None)


def _still_stale(status: NodeStatus | None, key: Key, others: Mapping[Key, NodeStatus]) -> bool:
    """Return whether a plugin that was stale is not verified yet: its own status, or that of its node, shows it."""
    if status is None:
        status = others.get((key[0], ""))
    return status is not None and status.state is not NodeState.EXCLUDED


PREFIX: Final = "gpu_operator_post"
REACTION_BUCKETS: Final = (0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 900, 3600)
"""Seconds. A restart normally follows within two seconds, and waits longer only for the disruption budget."""
STALE_BUCKETS: Final = (5, 10, 20, 30, 45, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""Seconds. A healthy plugin is verified 10 to 40 s after a restart. Without a restart it is stale for hours."""
LEAST_ADVANCED: Final = tuple(NodeState(name) for name in (
    "Failed", "Stale", "Waiting", "Restarting", "Verifying", "Verified", "Excluded",
))  # fmt: skip
"""Severity order: the worst status of a node is the one that counts."""


def by_node(statuses: Iterable[NodeStatus]) -> dict[tuple[str, str], int]:
    """Return the number of nodes by state and reason. Each node counts once, by its worst status."""
    worst: dict[str, NodeStatus] = {}
    for status in statuses:
        key = status.node
        if key not in worst or LEAST_ADVANCED.index(status.state) < LEAST_ADVANCED.index(worst[key].state):
            worst[key] = status
    return Tally((str(status.state), str(status.reason)) for status in worst.values())


Fleet = tuple["ControllerState | None", Staleness]
"""State after the last reconcile, if this replica leads, and since when plugins are stale."""


class Metrics:
    """All metrics, in a separate registry."""

    def __init__(self, counters: Counters, fleet: Callable[[], Fleet], out_of_sync: Callable[[], float]) -> None:
        registry = self.registry = CollectorRegistry()
        self.leader = _gauge("leader", "1 while this replica holds the Lease and acts, else 0", registry)
        self.last_reconcile = _gauge(
            "last_reconcile_timestamp_seconds", "Time of the last finished reconcile", registry
        )
        cache = _gauge(
            "cache_out_of_sync_seconds", "Seconds for which the cache has been out of sync; 0 while in sync", registry
        )
        cache.set_function(out_of_sync)
        build = Gauge(
            "build_info", "Always 1; the version is a label", ["version"], namespace=PREFIX, registry=registry
        )
        build.labels(__version__).set(1)
        self.restarts = Counter(
            "restarts", "Restarts of stale plugins by cause of staleness and by result",
            ["reason", "result"], namespace=PREFIX, registry=registry,
        )  # fmt: skip
        self.reaction = Histogram(
            "reaction_seconds", "Seconds from the ready driver, or this leader's first reconcile, to the restart",
            namespace=PREFIX, registry=registry, buckets=REACTION_BUCKETS,
        )  # fmt: skip
        self.stale = Histogram(
            "stale_seconds", "Seconds from the ready driver to the verified plugin, for plugins that were stale",
            namespace=PREFIX, registry=registry, buckets=STALE_BUCKETS,
        )  # fmt: skip
        registry.register(_FleetCollector(fleet))
        registry.register(_ApiCollector(counters))
        ProcessCollector(registry=registry)


class _FleetCollector(Collector):
    """State of the fleet, without label values that no longer exist. A standby has none."""

    def __init__(self, fleet: Callable[[], Fleet]) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        state, staleness = self._fleet()
        statuses = state.decision.statuses if state is not None else ()
        nodes = _family("nodes", "Nodes by state and reason", ["state", "reason"])
        for labels, count in by_node(statuses).items():
            nodes.add_metric(labels, count)
        plugins = _family("plugins", "Plugins on nodes whose driver is settled", [])
        stale = _family("stale_plugins", "Plugins that run on a driver that was unloaded", [])
        oldest = _family(
            "oldest_stale_timestamp_seconds",
            "Time since which the plugin that has waited longest is stale; absent if none is",
            [],
        )
        if state is not None:
            plugins.add_metric([], sum(map(is_eligible, statuses)))
            stale.add_metric([], sum(map(is_stale, statuses)))
        if (since := staleness.oldest) is not None:
            oldest.add_metric([], since.timestamp())
        yield from (nodes, plugins, stale, oldest, _affected(state.affected if state is not None else None))


def _affected(affected: Affected | None) -> GaugeMetricFamily:
    """Return the number of affected pods; nothing if it is not known, because 0 would resolve an alert."""
    pods = _family("affected_pods", "Pods that may hold files of an old driver; absent while unknown", [])
    if affected is not None and not affected.unknown:
        pods.add_metric([], len(affected.pods))
    return pods


class _ApiCollector(Collector):
    """Errors of requests to the API server."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            f"{PREFIX}_api_errors", "Requests that failed", labels=["code", "verb", "resource"]
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
        self._state: ControllerState | None = None
        self._since: datetime | None = None
        """When this replica finished its first reconcile as leader."""
        self._metrics = Metrics(counters, self._fleet, self._out_of_sync_seconds)

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
            self._staleness, self._state, self._since = Staleness(), None, None

    def waiting(self, lost: OutOfSync | None) -> None:
        """Record that the cache is not synced, so no reconcile can finish."""
        self.health.wait(lost)

    def reconciled(self, state: ControllerState) -> None:
        """Record a finished reconcile."""
        with self._lock:
            self._since = self._since or state.now
            for lasted in self._staleness.update(state.decision.statuses, state.now):
                self._metrics.stale.observe(max(lasted.total_seconds(), 0.0))
            self._state = state
            self._metrics.last_reconcile.set_to_current_time()
            self._show_zeros()
        self.health.reconciled(state)

    def executed(self, result: RestartResult, now: datetime) -> None:
        """Record a restart and its result; `now` is by the API server's clock."""
        outcome = REFUSED if result.refused else FAILED if result.trouble else RESTARTED
        with self._lock:
            pod = result.action.pod
            self._metrics.restarts.labels(pod.cause, outcome).inc()
            if outcome == RESTARTED:
                self._react(pod, now)

    def _show_zeros(self) -> None:
        """Create all counters with 0. Prometheus does not see the first increment of a counter that starts with it."""
        for cause in Cause:
            for result in (RESTARTED, REFUSED, FAILED):
                self._metrics.restarts.labels(cause, result)

    def _react(self, pod: StalePod, now: datetime) -> None:
        """Record the reaction time, from when a restart was possible. A retry does not count."""
        if pod.driver_ready is None or pod.again or self._since is None:
            return
        since = max(pod.driver_ready, self._since)
        self._metrics.reaction.observe(max((now - since).total_seconds(), 0.0))

    def _fleet(self) -> Fleet:
        with self._lock:
            return self._state, self._staleness

    def _out_of_sync_seconds(self) -> float:
        lost = self.health.lost
        return lost.seconds if lost is not None else 0.0
