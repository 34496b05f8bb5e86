"""What the demo shows: the fleet while it migrates, and the proof at the end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

if TYPE_CHECKING:
    from devcluster.replay import Standing
    from devcluster.truth import Truth

COLUMNS = {"node": 6, "driver": 12, "plugin": 16, "script's plugin": 16, "state": 17}
"""Headings, and widths that hold everything that comes below them, so that the table does not jump."""

Row = tuple[str, str, str, str, str]
"""Node, driver, our plugin, the script's plugin, state."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one way of serving the fleet came to, from the ground truth."""

    name: str
    exit_code: int
    seconds: float
    """How long the command took."""
    restarts: int
    early: int
    needless: int
    stale_after: tuple[str, ...]
    stale_seconds: dict[str, float]
    exposed_seconds: dict[str, float]
    """The part of these in which new pods could come to the node."""

    @property
    def exposed(self) -> float:
        """The exposed time of all nodes together, in seconds."""
        return sum(self.exposed_seconds.values())


def rows(truth: Truth, ours: str, theirs: str, new_version: str) -> list[Row]:
    """Describe each node with both its plugins."""
    our_view, their_view = truth.standings(ours), truth.standings(theirs)
    return [
        (
            node,
            _driver(our_view[node]),
            _plugin(our_view[node]),
            _plugin(their_view[node]),
            _state(our_view[node], new_version),
        )
        for node in truth.nodes
    ]


def _driver(standing: Standing) -> str:
    if not standing.version:
        return "none"
    return standing.version if standing.driver_ready else f"{standing.version} …"


def _plugin(standing: Standing) -> str:
    if standing.plugin_version is None:
        return "starting"
    return f"{standing.plugin_version} STALE" if standing.stale else standing.plugin_version


def _state(standing: Standing, new_version: str) -> str:
    """Put a node's progress into a word, for our plugin."""
    if not standing.version:
        return "reloading"
    if standing.version != new_version:
        return "on the old driver"
    if not standing.driver_ready:
        return "loaded, not Ready"
    if standing.plugin_version is None:
        return "plugin restarts"
    return "plugin is stale" if standing.stale else "fresh"


class Show:
    """A table that redraws itself on a terminal; elsewhere one line for each change of a node."""

    def __init__(self) -> None:
        self.console = Console()
        self._began = time.time()
        self._live = Live(console=self.console, refresh_per_second=4)
        self._said: dict[str, Row] = {}

    def settle(self) -> None:
        """Leave the table as it is; what comes now is below it."""
        self._live.stop()

    def update(self, fleet: list[Row]) -> None:
        """Show the fleet as it is now."""
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._live.start()
            self._live.update(self._table(fleet))
            return
        for row in fleet:
            if self._said.get(row[0]) != row:
                self._said[row[0]] = row
                node, driver, ours, theirs, state = row
                self.say(f"{node:<6} driver {driver:<12} plugin {ours:<17} script's plugin {theirs:<17} {state}")

    def say(self, text: str) -> None:
        """Print a line, with the seconds since the demo's beginning."""
        self.console.print(
            f"[{time.time() - self._began:5.1f} s] {text}", markup=False, highlight=False, soft_wrap=True
        )

    def _table(self, fleet: list[Row]) -> Table:
        table = Table(title=f"{time.time() - self._began:.0f} s", title_justify="left")
        for heading, width in COLUMNS.items():
            table.add_column(heading, min_width=width)
        for node, driver, ours, theirs, state in fleet:
            table.add_row(node, _hold(driver), _hold(ours), _hold(theirs), _hold(state))
        return table


def _hold(text: str) -> str:
    """Colour what is wrong or under way."""
    if "STALE" in text or "stale" in text:
        return f"[bold red]{text}[/]"
    moving = ("none", "starting", "reloading", "loaded, not Ready", "plugin restarts")
    return f"[yellow]{text}[/]" if text in moving or text.endswith("…") else text


def proof(sides: list[Side]) -> Table:
    """Compare both ways, every figure from the ground truth."""
    table = Table(title="What is true at the end", title_justify="left")
    table.add_column("")
    for side in sides:
        table.add_column(side.name, justify="right")
    lines = {
        "exit code": [str(side.exit_code) for side in sides],
        "it took": [f"{side.seconds:.0f} s" for side in sides],
        "stale plugins after": [str(len(side.stale_after)) for side in sides],
        "plugins restarted": [str(side.restarts) for side in sides],
        "… before the new driver was ready": [str(side.early) for side in sides],
        "… although they were fresh": [str(side.needless) for side in sides],
        "longest time a node was stale": [_longest(side) for side in sides],
        "all nodes' stale time": [f"{sum(side.stale_seconds.values()):.0f} s" for side in sides],
        "… of that exposed to new pods": [f"{side.exposed:.0f} s" for side in sides],
    }
    for name, values in lines.items():
        table.add_row(name, *values)
    table.add_section()
    nodes = sorted(sides[0].stale_seconds, key=lambda name: (len(name), name))
    for node in nodes:
        table.add_row(f"{node} was stale for", *(_spell(side, node) for side in sides))
    return table


def _spell(side: Side, node: str) -> str:
    seconds = f"{side.stale_seconds[node]:.0f} s"
    return f"{seconds}, and counting" if node in side.stale_after else seconds


def _longest(side: Side) -> str:
    longest = max(side.stale_seconds.values(), default=0.0)
    return f"{longest:.0f} s, and counting" if side.stale_after else f"{longest:.0f} s"
