"""Prometheus metrics of the controller: names, help texts and labels.

Counters and histograms are those of the library. Gauges of the fleet are built at each scrape.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hook import __version__
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from prometheus_client.core import Metric

    from hook.cluster.counters import Counters
    from hook.core.verdicts import Judgement

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


def by_node(judgements: Iterable[Judgement]) -> dict[tuple[str, str, str], int]:
    """Return the number of nodes by stack, state and reason. Each node counts once per stack, by its worst status."""
    worst: dict[tuple[str, str], Judgement] = {}
    for status in judgements:
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
