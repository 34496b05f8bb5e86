"""What this program is to cost: each goal with what was measured, and what limits it. Pure: results in, rows out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.computed import HOURS, hours
from devcluster.bench.peers import LABELS, ORIGINAL, OURS, PODS, WITHOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from devcluster.bench.peers import Peer
    from devcluster.bench.results import Result

    Figures = Mapping[str, Any]
    Named = Mapping[str, Figures]
    """The figures of each measure, by name."""

MIB, MB = 2.0**20, 1e6
SOURCE: Final = "source"
"""The commit and the machine, among the figures of a measure."""
NOT_MEASURED: Final = "not measured yet"
TIMES: Final = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: what is measured, by which measure, and how much of it is enough."""

    words: str
    name: str
    """The measure, as `make bench` knows it."""
    value: Callable[[Named], float]
    """A KeyError means that something is not measured."""
    goal: float
    unit: str
    limit: str
    """What limits it."""
    at_least: bool = False

    def row(self, named: Named) -> tuple[str, ...]:
        """Write the row of a table."""
        relation = "at least" if self.at_least else "at most"
        goal, command = f"{relation} {_shown(self.goal, self.unit)}", f"`{self.name}`"
        try:
            value = self.value(named)
        except KeyError:
            return self.words, NOT_MEASURED, goal, "", self.limit, command
        met = value >= self.goal if self.at_least else value <= self.goal
        return self.words, _shown(value, self.unit), goal, "met" if met else "**missed**", self.limit, command


def rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """Return the rows of all goals."""
    named = {result.name: {**result.figures, SOURCE: result.source} for result in results}
    return (goal.row(named) for goal in GOALS)


def _shown(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits matter
    return f"{digits} {unit}"


def _of(name: str, key: str, unit: float = 1.0) -> Callable[[Named], float]:
    def value(named: Named) -> float:
        if (found := named[name][key]) is None:
            raise KeyError(key)
        return float(found) / unit

    return value


def _entries(figures: Figures) -> dict[str, Figures]:
    return {entry["name"]: entry for entry in figures["entries"]}


def _server(key: str, ours: str) -> Callable[[Named], float]:
    """Return how many times as much of the API server this program takes as the best script."""

    def ratio(named: Named) -> float:
        entries = _entries(named["api-server"])
        return float(entries[ours]["api_server"][key] / entries[PODS.name]["api_server"][key])

    return ratio


def _two_hours(key: str, *peers: Peer) -> Callable[[Named], float]:
    """Compute the share of the cheapest of some scripts."""

    def share(named: Named) -> float:
        figures = named["two-hours-100"]
        return hours(figures, OURS, key) / min(hours(figures, peer.name, key) for peer in peers)

    return share


def _per_node(named: Named) -> float:
    """Compare two fleets. Figures of two commits or machines do not compare."""
    if named["no-op-15000"].get(SOURCE) != named["no-op-5000"].get(SOURCE):
        raise KeyError(SOURCE)
    return float(named["no-op-15000"]["cpu_seconds"] / named["no-op-5000"]["cpu_seconds"]) / 3


def _stale(named: Named) -> float:
    entries = _entries(named["upgrade-100-1"])
    return float(entries[ORIGINAL.name]["stale_node_seconds"] / entries[OURS]["stale_node_seconds"])


_READS: Final = "this program reads each object at its start and at its end, and each change of it"
_COMPARE: Final = "each decision groups the objects of the nodes that changed, and counts all statuses again"
_EVENTS: Final = "the API server sends each change of a node or pod as the whole object"
_ONE_OBJECT: Final = "the shell Job watches one object, and restarts plugins too early or too late"
GOALS: Final = (
    Goal("one decision, 20 nodes changed", "decision-5000", _of("decision-5000", "incremental_ms"), 15, "ms", _COMPARE),
    Goal(
        "controller of a busy fleet without GPU claims, CPU per minute",
        "controller-5000",
        _of("controller-5000", "cpu_seconds_a_minute"),
        4,
        "s",
        _EVENTS,
    ),
    Goal(
        "Job that waits for a busy fleet without GPU claims, CPU per minute",
        "waiting-5000",
        _of("waiting-5000", "cpu_seconds_a_minute"),
        3,
        "s",
        _EVENTS,
    ),
    Goal(
        "memory of the controller, without GPU claims",
        "controller-5000",
        _of("controller-5000", "peak_bytes", MIB),
        70,
        "MiB",
        "Python itself, and the fields that are kept of each object",
    ),
    Goal("nothing to do, CPU", "no-op-5000", _of("no-op-5000", "cpu_seconds"), 4, "s", "TLS and decoding of lists"),
    Goal(
        "nothing to do, memory",
        "no-op-5000",
        _of("no-op-5000", "peak_bytes", MIB),
        58,
        "MiB",
        "Python and its libraries take half",
    ),
    Goal(
        "nothing to do, 15,000 nodes, memory",
        "no-op-15000",
        _of("no-op-15000", "peak_bytes", MIB),
        128,
        "MiB",
        "the limit of the chart for a Job",
    ),
    Goal(
        "nothing to do, CPU per node at 15,000 nodes against 5,000",
        "no-op-15000",
        _per_node,
        1.1,
        TIMES,
        "1 is linear",
    ),
    Goal(
        "reaction, 500 drivers ready at once: first 50",
        "reaction-5000",
        _of("reaction-5000", "first_50_seconds"),
        1,
        "s",
        "eight deletions run side by side",
    ),
    Goal(
        "reaction, 500 drivers ready at once: last",
        "reaction-5000",
        _of("reaction-5000", "last_seconds"),
        5,
        "s",
        "eight deletions run side by side",
    ),
    Goal(
        "CPU of the API server against the best script, without affected workloads",
        "api-server",
        _server("cpu_seconds", WITHOUT.name),
        1,
        TIMES,
        _READS,
    ),
    Goal(
        "bytes from the API server against the best script, without affected workloads",
        "api-server",
        _server("bytes", WITHOUT.name),
        3,
        TIMES,
        _READS,
    ),
    Goal(
        f"CPU of the API server in an upgrade of {HOURS} hours, against the cheaper label script (computed)",
        "two-hours-100",
        _two_hours("cpu_seconds", PODS, LABELS),
        0.1,
        TIMES,
        _EVENTS,
    ),
    Goal(
        f"bytes in an upgrade of {HOURS} hours, against the cheaper label script (computed)",
        "two-hours-100",
        _two_hours("bytes", PODS, LABELS),
        0.1,
        TIMES,
        _EVENTS,
    ),
    Goal(
        f"CPU of the API server in an upgrade of {HOURS} hours, against the shell Job (computed)",
        "two-hours-100",
        _two_hours("cpu_seconds", ORIGINAL),
        0.1,
        TIMES,
        _ONE_OBJECT,
    ),
    Goal(
        f"bytes in an upgrade of {HOURS} hours, against the shell Job (computed)",
        "two-hours-100",
        _two_hours("bytes", ORIGINAL),
        0.1,
        TIMES,
        _ONE_OBJECT,
    ),
    Goal(
        "start of the process to the first request",
        "start-up",
        _of("start-up", "first_request_median_seconds"),
        0.25,
        "s",
        "Python loads the modules",
    ),
    Goal("image to pull", "start-up", _of("start-up", "image_pull_bytes", MB), 45, "MB", "Python and the base image"),
    Goal(
        "stale node-seconds of the shell Job against this program, 100 nodes one by one",
        "upgrade-100-1",
        _stale,
        200,
        TIMES,
        "the driver's own time from loaded to Ready, and the start of the plugin",
        at_least=True,
    ),
)
"""In the order of the page. Fleets have 5,000 nodes, and comparisons 100, unless a row names another number."""
