"""What a follower shows to Prometheus: names, help and labels of its metrics, in one place.

Counters and histograms are the library's own; what is a fact of the moment is put together when somebody asks.
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
"""A restart follows within a second or two, and waits longer only for its turn: fine below, coarse above."""
STALE_BUCKETS: Final = (5, 10, 20, 30, 45, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""A healthy plugin is back on its driver 10 to 40 s after a restart; without anybody it is stale for hours."""
LEAST_ADVANCED: Final = tuple(NodeState(name) for name in (
    "Failed", "Stale", "Waiting", "Restarting", "Verifying", "Verified", "Excluded",
))  # fmt: skip
"""Which of a node's judgements speaks for it."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the fleet stands after a round; empty while nobody looks."""

    nodes: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """By stack, state and reason."""
    plugins: Mapping[str, int] = field(default_factory=dict)
    """Plugins by stack, but for those that are left alone, or whose node waits for its driver."""
    stale: Mapping[str, int] = field(default_factory=dict)
    """Those of them that are stale."""
    oldest: Mapping[str, datetime] = field(default_factory=dict)
    breakers: Mapping[str, bool] = field(default_factory=dict)
    """By stack: whether it is open."""


def by_node(judgements: Iterable[Judgement]) -> dict[tuple[str, str, str], int]:
    """Count nodes by stack, state and reason, each node of a stack once, by what keeps it from being done."""
    speaks: dict[tuple[str, str], Judgement] = {}
    for status in judgements:
        key = status.stack, status.node
        if key not in speaks or LEAST_ADVANCED.index(status.state) < LEAST_ADVANCED.index(speaks[key].state):
            speaks[key] = status
    return Tally((status.stack, str(status.state), str(status.reason)) for status in speaks.values())


class Metrics:
    """Everything that is counted, in a registry of its own."""

    def __init__(self, counters: Counters, standing: Callable[[], Standing], lost_seconds: Callable[[], float]) -> None:
        registry = self.registry = CollectorRegistry()
        self.leader = _gauge("leader", "1 while this replica holds the Lease and acts, else 0", registry)
        self.last_round = _gauge("last_round_timestamp_seconds", "When the last round was finished", registry)
        contact = _gauge("contact_lost_seconds", "For how long the cluster cannot be read; 0 while it can", registry)
        contact.set_function(lost_seconds)
        build = Gauge(
            "build_info", "Always 1; the version is a label", ["version"], namespace=PREFIX, registry=registry
        )
        build.labels(__version__).set(1)
        self.restarts = Counter(
            "restarts", "Restarts of stale plugins by why they were stale and what came of it",
            ["stack", "reason", "result"], namespace=PREFIX, registry=registry,
        )  # fmt: skip
        self.reaction = Histogram(
            "reaction_seconds", "From a driver that is ready, or from when this replica could see it, to the restart",
            ["stack"], namespace=PREFIX, registry=registry, buckets=REACTION_BUCKETS,
        )  # fmt: skip
        self.stale = Histogram(
            "stale_seconds", "From a driver that is ready to a plugin that is verified on it, where it was stale",
            ["stack"], namespace=PREFIX, registry=registry, buckets=STALE_BUCKETS,
        )  # fmt: skip
        registry.register(_Fleet(standing))
        registry.register(_Contact(counters))
        ProcessCollector(registry=registry)


class _Fleet(Collector):
    """How the fleet stands now. What is not there any more is not shown any more."""

    def __init__(self, standing: Callable[[], Standing]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        seen = self._standing()
        nodes = _family("nodes", "Nodes by how they stand and why", ["stack", "state", "reason"])
        for labels, count in seen.nodes.items():
            nodes.add_metric(labels, count)
        plugins = _family("plugins", "Plugins on nodes whose driver is settled", ["stack"])
        stale = _family("stale_plugins", "Plugins that run on a driver that is gone", ["stack"])
        oldest = _family(
            "oldest_stale_timestamp_seconds",
            "Since when the plugin that has waited longest is stale, until it is verified; absent where none is",
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
    """What went wrong on the way to the API server."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            f"{PREFIX}_api_errors", "Requests that failed", labels=["kind", "verb", "resource"]
        )
        for failure, count in self._counters.errors.items():
            errors.add_metric(failure, count)
        watches = CounterMetricFamily(
            f"{PREFIX}_watch_restarts", "Watches that were opened again", labels=["resource", "reason"]
        )
        for restart, count in self._counters.watches.items():
            watches.add_metric(restart, count)
        yield from (errors, watches)


def _gauge(name: str, text: str, registry: CollectorRegistry) -> Gauge:
    return Gauge(name, text, namespace=PREFIX, registry=registry)


def _family(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
