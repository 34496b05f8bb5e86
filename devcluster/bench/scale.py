"""What a fleet costs, as functions of its nodes and changes that are fitted to what was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import linear_regression
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.tables import markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devcluster.bench.results import Result

    Figures = Mapping[str, Any]

FLEETS: Final = (1000, 5000, 15_000, 65_000)
"""The last is the largest cluster that a cloud provider offers."""
KB, MB, MIB, MILLI = 1e3, 1e6, 2.0**20, 1e-3
BUSY: Final = {"waiting": "a Job that waits", "controller": "a controller"}


@dataclass(frozen=True, slots=True)
class Line:
    """A cost that grows evenly with the nodes."""

    per_node: float
    base: float

    def of(self, nodes: int) -> float:
        """Return the cost of a fleet."""
        return self.base + self.per_node * nodes


def fitted(results: Sequence[Result], key: str) -> Line:
    """Fit a line to the runs with nothing to do."""
    found = [result for result in results if result.measure == "no-op"]
    nodes, values = ([result.given["nodes"] for result in found], [result.figures[key] for result in found])
    slope, intercept = linear_regression(nodes, values)
    return Line(slope, intercept)


def per_change(result: Result) -> tuple[float, float]:
    """Return the bytes and the CPU seconds of one change, of a program that reads a busy fleet."""
    changes = result.figures["changes_a_second"] * 60
    received = result.figures["received_bytes"] / result.given["minutes"] / changes
    return received, result.figures["cpu_seconds_a_minute"] / changes


def lines(results: Sequence[Result]) -> list[str]:
    """Return the measured functions, and what they make of larger fleets."""
    received, cpu, peak, server = (
        fitted(results, key) for key in ("received_bytes", "cpu_seconds", "peak_bytes", "api_server_cpu_seconds")
    )
    sizes = ", ".join(f"{result.given['nodes']:,}" for result in sorted(_of(results, "no-op"), key=_nodes))
    measured = [
        ("read the fleet once: bytes from the API server", f"{received.per_node / KB:,.0f} kB per node"),
        ("read the fleet once: CPU of the program", f"{cpu.per_node / MILLI:.1f} ms per node, and {cpu.base:.1f} s"),
        ("read the fleet once: CPU of the API server", f"{server.per_node / MILLI:.1f} ms per node"),
        ("memory of a Job", f"{peak.per_node / KB:.1f} kB per node, and {peak.base / MIB:.0f} MiB"),
    ]
    for result in _of(results, "controller"):
        peak_of_it = f"{result.figures['peak_bytes'] / MIB:.0f} MiB"
        measured.append((f"memory of a controller of {result.given['nodes']:,} nodes", peak_of_it))
    for kind, words in BUSY.items():
        for result in _of(results, kind):
            size, seconds = per_change(result)
            row = f"{size / KB:,.0f} kB and {seconds / MILLI:.1f} ms of CPU per change"
            measured.append((f"follow a fleet of {result.given['nodes']:,} nodes, {words}", row))
    computed: list[tuple[str, Callable[[int], str]]] = [
        ("bytes of one read", lambda nodes: f"{received.of(nodes) / MB:,.0f} MB"),
        ("CPU of one read", lambda nodes: f"{cpu.of(nodes):,.1f} s"),
        ("CPU of the API server for it", lambda nodes: f"{server.of(nodes):,.0f} s"),
        ("memory of a Job", lambda nodes: f"{peak.of(nodes) / MIB:,.0f} MiB"),
    ]
    head = ("computed from these functions", *(f"{nodes:,} nodes" for nodes in FLEETS))
    return [
        *markdown(("measured", ""), measured),
        "",
        f"Fitted to {sizes} nodes. A number of nodes that is not among them was **not measured**:",
        "",
        *markdown(head, [(words, *(of(nodes) for nodes in FLEETS)) for words, of in computed]),
    ]


def _of(results: Sequence[Result], kind: str) -> list[Result]:
    return [result for result in results if result.measure == kind]


def _nodes(result: Result) -> int:
    return int(result.given["nodes"])
