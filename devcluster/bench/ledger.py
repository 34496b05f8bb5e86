"""What each way cost, by the ground truth. Pure: a journal in, figures out.

Lost is every second of a node with a plugin that holds a driver which is gone, or without any while it is replaced:
new GPU pods fail there. Seconds in which the driver itself reloads are nobody's loss here: they are the same for all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.truth import Truth


@dataclass(frozen=True, slots=True)
class Entry:
    """One way's account."""

    name: str
    exit_code: int | None
    """None where nothing is run."""
    seconds: float | None
    """How long it took."""
    lost_node_seconds: float
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

    def as_json(self) -> dict[str, Any]:
        """Give everything, for programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a way's own program ended."""

    name: str
    daemonset: str
    """The plugin that it serves, ``namespace/name``."""
    exit_code: int | None = None
    seconds: float | None = None


def account(truth: Truth, ran: Ran, since: float, until: float) -> Entry:
    """Draw up the account of one way, from the upgrade's beginning to a moment that is the same for all."""
    reactions = reaction_seconds(truth, ran.daemonset, since)
    return Entry(
        name=ran.name,
        exit_code=ran.exit_code,
        seconds=ran.seconds,
        lost_node_seconds=lost(truth, ran.daemonset, since, until),
        stale_left=len(truth.stale_now(ran.daemonset)),
        restarts=len(truth.restarts(ran.daemonset, since)),
        early=len(truth.early_restarts(ran.daemonset, since)),
        needless=len(truth.needless_restarts(ran.daemonset, since)),
        reaction_median=percentile(reactions, 0.5),
        reaction_p99=percentile(reactions, 0.99),
    )


def lost(truth: Truth, daemonset: str, since: float, until: float) -> float:
    """Add up the node-seconds with a stale plugin within a time."""
    spells = (spell for node in truth.stale_intervals(daemonset).values() for spell in node)
    return sum(max(0.0, min(until, until if end is None else end) - max(since, start)) for start, end in spells)


def reaction_seconds(truth: Truth, daemonset: str, since: float) -> list[float]:
    """Give, for each deletion of a stale plugin, the time since its node's driver was last ready."""
    ready: dict[str, float] = {}
    found = []
    for each in truth.since(since):
        if each.event == "driver-ready":
            ready[each.node] = each.t
        elif each.event == "plugin-deleted" and each.concerns(daemonset) and each.stale and each.node in ready:
            found.append(each.t - ready[each.node])
    return found


def percentile(values: Sequence[float], share: float) -> float | None:
    """Give a value that was measured, by nearest rank; None of nothing."""
    known = sorted(values)
    return known[ceil(share * len(known)) - 1] if known else None


def table(entries: Sequence[Entry], nodes: int) -> list[str]:
    """Write a Markdown table; how much more each loses than the first."""
    best = entries[0].lost_node_seconds
    lines = [
        "| | exit | lost node-seconds | a node | times | stale left | restarts (early, needless) | reaction, p99 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in entries:
        ratio = f"{one.lost_node_seconds / best:.0f}" if best else ""
        code = "" if one.exit_code is None else str(one.exit_code)
        cells = (
            one.name,
            code,
            f"{one.lost_node_seconds:.1f}",
            f"{one.lost_node_seconds / nodes:.1f} s",
            ratio,
            str(one.stale_left),
            f"{one.restarts} ({one.early}, {one.needless})",
            f"{_seconds(one.reaction_median)}, {_seconds(one.reaction_p99)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
