"""What times nearer to real ones would make of the figures: computed, not measured. Pure.

A run with real times takes a night: the real upgrade controller looks again after two minutes (measured on the real
operator, docs/how-it-works.md), so that a node takes that long. Stale node-seconds follow from the moment at which an
approach acts, so they can be computed; the same sums are compared with what was measured with the short times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.peers import LABELS, OURS, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

REAL_TURN: Final = 120.0
REAL_LOADED: Final = 45.0
"""An assumption: seconds from a driver pod's start to its loaded driver; compiled ones take up to 300."""
REAL_READY: Final = 70.0
"""Seconds from its start to Ready: the operator's startup probe looks after 60 s, then every 10."""
REAL_GAP: Final = REAL_READY - REAL_LOADED
REAL_LAG: Final = REAL_TURN - REAL_READY
"""Seconds by which the label ``upgrade-done`` comes after the driver's being ready: what is left of the two minutes."""
HOURS: Final = 2
"""The length of the upgrade whose cost to the API server is computed."""
REAL_MINUTES: Final = 20
"""What 100 nodes take in reality, ten at once."""


@dataclass(frozen=True, slots=True)
class Times:
    """How an upgrade goes."""

    nodes: int
    parallel: int
    turn: float
    """Seconds from one group of nodes to the next."""
    lag: float
    """Seconds from a ready driver to its node's ``upgrade-done``."""
    own: float
    """Stale seconds per node in any case: from a loaded driver to a plugin that is restarted at once."""

    @property
    def turns(self) -> int:
        """Return how many groups of nodes go one after the other."""
        return -(-self.nodes // self.parallel)

    @property
    def restarted_at_once(self) -> float:
        """Return the stale node-seconds if each plugin is restarted when its driver is ready."""
        return self.nodes * self.own

    @property
    def restarted_by_label(self) -> float:
        """Return the same if each plugin is restarted when its node's label shows that."""
        return self.nodes * (self.lag + self.own)

    @property
    def restarted_at_the_end(self) -> float:
        """Return the same if all plugins are restarted when the last label shows that.

        It is the same if all plugins stay stale until an administrator restarts them at that moment.
        """
        groups = (min(self.parallel, self.nodes - first) for first in range(0, self.nodes, self.parallel))
        waited = sum(size * (self.turns - 1 - number) * self.turn for number, size in enumerate(groups))
        return waited + self.restarted_by_label


def hours(figures: Mapping[str, Any], name: str, key: str) -> float:
    """Compute what an approach costs the API server in an upgrade of `HOURS`, from what a minute of waiting costs.

    This program reads everything once in addition. The minute that was measured has as many changes as a minute of such
    an upgrade, so what they cost is in it.
    """
    entries = {entry["name"]: entry for entry in figures["entries"]}
    start = float(figures["start"][key]) if name == OURS else 0.0
    return start + HOURS * 60 * float(entries[name][f"{key}_a_minute"])


def at_real_times(entry: Mapping[str, Any], key: str) -> float:
    """Compute what an approach costs the API server if the upgrade that was measured takes `REAL_MINUTES`.

    A script that asks again and again pays for the time. All others pay for the changes, of which there are as many.
    """
    repeats = entry["name"] in (PODS.name, LABELS.name)
    return float(entry["api_server"][key]) * (REAL_MINUTES * 60 / entry["seconds"] if repeats else 1.0)
