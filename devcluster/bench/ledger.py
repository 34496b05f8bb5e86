"""What each approach cost, by the ground truth. Pure: a journal in, figures out.

A stale node-second is a second of a node with a plugin that holds a driver which is gone, or without any while it is
replaced: new GPU pods get old files there, or fail. Seconds in which the driver itself reloads do not count: they are
the same for all approaches. The time from a loaded driver to its Ready pod counts: nothing may restart the plugin then.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from devcluster.bench.usage import Usage
    from devcluster.happening import Happening
    from devcluster.truth import Truth


@dataclass(frozen=True, slots=True)
class Split:
    """Where stale node-seconds went, in seconds over all nodes."""

    driver_ready: float = 0.0
    """From a loaded driver to its Ready pod: the driver's own probe."""
    reaction: float = 0.0
    """From there to the deletion of the stale plugin."""
    plugin_start: float = 0.0
    """From there to the start of the next plugin."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The account of one approach."""

    name: str
    exit_code: int | None
    """None where nothing runs."""
    seconds: float | None
    """How long it took."""
    stale_node_seconds: float
    stale_per_node_median: float
    stale_per_node_most: float
    split: Split
    """Of the stale node-seconds of plugins that were restarted."""
    stale_left: int
    """Plugins that still hold a driver which is gone."""
    restarts: int
    early: int
    """Restarts before the node's driver was ready, or on an old one."""
    needless: int
    """Restarts of plugins that were fresh."""
    reaction_median: float | None
    """Seconds from a driver's being ready to the deletion of the stale plugin on its node."""
    reaction_p99: float | None
    api_server: Mapping[str, Any] | None = None
    """What this approach cost its own API server, where it had one."""

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        found = {key: value for key, value in asdict(self).items() if key != "api_server" or value is not None}
        found["split"] = {key: round(value, 3) for key, value in found["split"].items()}
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}


@dataclass(frozen=True, slots=True)
class Ran:
    """How the program of an approach ended."""

    name: str
    daemonset: str
    """Its plugin, ``namespace/name``."""
    exit_code: int | None = None
    seconds: float | None = None
    usage: Usage | None = None


def account(truth: Truth, ran: Ran, since: float, until: float) -> Entry:
    """Draw up the account of one approach, from the start of the upgrade to a moment that is the same for all."""
    reactions = reaction_seconds(truth, ran.daemonset, since)
    stale = list(stale_seconds(truth, ran.daemonset, since, until).values())
    return Entry(
        name=ran.name,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        stale_node_seconds=sum(stale),
        stale_per_node_median=percentile(stale, 0.5) or 0.0,
        stale_per_node_most=max(stale, default=0.0),
        split=split(truth, ran.daemonset, since),
        stale_left=len(truth.stale_now(ran.daemonset)),
        restarts=len(truth.restarts(ran.daemonset, since)),
        early=len(truth.early_restarts(ran.daemonset, since)),
        needless=len(truth.needless_restarts(ran.daemonset, since)),
        reaction_median=percentile(reactions, 0.5),
        reaction_p99=percentile(reactions, 0.99),
        api_server=ran.usage.as_json() if ran.usage else None,
    )


def over(truth: Truth, daemonsets: Sequence[str], since: float) -> float:
    """Return when the upgrade was over: the last driver was ready, and the last plugin that was refreshed was fresh.

    An approach that leaves plugins stale is charged to this moment and no further: as if all of them were repaired at
    once then. How long an approach continues to confirm its end costs the others nothing.
    """
    ready = [each.t for each in truth.since(since) if each.event == "driver-ready"]
    cured = [
        end
        for daemonset in daemonsets
        for spells in truth.stale_intervals(daemonset).values()
        for _start, end in spells
        if end is not None and end >= since
    ]
    return max([since, *ready, *cured])


def stale_seconds(truth: Truth, daemonset: str, since: float, until: float) -> dict[str, float]:
    """Add up, for each node, the seconds with a stale plugin within a time."""
    return {
        node: sum(max(0.0, min(until, until if end is None else end) - max(since, start)) for start, end in spells)
        for node, spells in truth.stale_intervals(daemonset).items()
    }


def reaction_seconds(truth: Truth, daemonset: str, since: float) -> list[float]:
    """Return, for each deletion of a stale plugin, the time since its node's driver was last ready."""
    return [deleted.t - ready.t for ready, deleted in cures(truth, daemonset, since)]


def split(truth: Truth, daemonset: str, since: float) -> Split:
    """Divide the stale time before each restart that helped into its three parts."""
    restarts = {(cure.node, cure.t): ready.t for ready, cure in cures(truth, daemonset, since)}
    driver_ready = reaction = plugin_start = 0.0
    for node, spells in truth.stale_intervals(daemonset).items():
        for start, end in spells:
            deleted = [moment for name, moment in restarts if name == node and start <= moment <= (end or start)]
            if end is not None and deleted:
                ready = max(start, restarts[node, deleted[-1]])
                driver_ready += ready - start
                reaction += deleted[-1] - ready
                plugin_start += end - deleted[-1]
    return Split(driver_ready, reaction, plugin_start)


def cures(truth: Truth, daemonset: str, since: float) -> Iterator[tuple[Happening, Happening]]:
    """Pair each deletion of a stale plugin with its node's driver having last become ready, which comes first."""
    ready: dict[str, Happening] = {}
    for each in truth.since(since):
        if each.event == "driver-ready":
            ready[each.node] = each
        elif each.event == "plugin-deleted" and each.concerns(daemonset) and each.stale and each.node in ready:
            yield ready[each.node], each


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return a value that was measured, by nearest rank; None of nothing."""
    known = sorted(values)
    return known[ceil(share * len(known)) - 1] if known else None


def table(entries: Sequence[Entry], nodes: int) -> list[str]:
    """Write a Markdown table; the times are those of the first."""
    best = entries[0].stale_node_seconds
    lines = [
        "| | exit | stale node-seconds | per node | times | stale left | restarts (early, needless) | reaction, p99 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in entries:
        ratio = f"{one.stale_node_seconds / best:.0f}" if best else ""
        code = "" if one.exit_code is None else str(one.exit_code)
        cells = (
            one.name,
            code,
            f"{one.stale_node_seconds:.1f}",
            f"{one.stale_node_seconds / nodes:.1f} s",
            ratio,
            str(one.stale_left),
            f"{one.restarts} ({one.early}, {one.needless})",
            f"{_seconds(one.reaction_median)}, {_seconds(one.reaction_p99)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
