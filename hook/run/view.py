"""The view of the fleet that the command ``status`` shows: once, or again whenever it changes."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hook.decide import freshness
from hook.decide.fleet import NodeView, index, live_pods
from hook.decide.record import Memory
from hook.decide.result import NodeState, headline
from hook.decide.run import decide
from hook.format import shortened
from hook.plan.timing import remaining_seconds
from hook.run import lookup, report, workloads

if TYPE_CHECKING:
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision, NodeStatus
    from hook.decide.workloads import Affected
    from hook.kube.client import Api

CLEAR: Final = "\x1b[H\x1b[2J"
"""Moves the cursor of a terminal to the top and erases the screen."""
SHORTEST_SECONDS: Final = 1.0
"""Between two views. Hundreds of objects change per second while a large fleet reloads."""
LONGEST_SECONDS: Final = 10.0
"""Between two views of a fleet that does not change, because a controller may have renewed its Lease."""


@dataclass(frozen=True, slots=True)
class View:
    """One evaluation of the fleet, without memory, so no grace period has passed."""

    now: datetime
    fleet: Fleet
    decision: Decision
    affected: Affected
    found: lookup.Lookup
    problem: str = ""
    """What cannot be read now. The view is of the time before."""
    eta: int | None = None
    """Estimated seconds for the remaining nodes. None if unknown."""

    def summary(self) -> tuple[str, ...]:
        """Return what changes only if the fleet changes."""
        tables = (report.table(self.decision), *workloads.as_lines(self.affected))
        return *tables, headline(self.decision), "out of sync" if self.problem else ""

    def times(self, status: NodeStatus) -> dict[str, datetime]:
        """Return when driver and plugin started (`driver`, `plugin`), and were `ready` and `verified`, where known.

        A plugin is verified since it became ready.
        """
        fleet = self.fleet
        node = fleet.nodes.get(status.node) or NodeView(status.node, None)
        drivers, plugins = live_pods(node.driver_pods), live_pods((*node.plugin_pods, *node.unnamed_pods))
        plugins = [pod for pod in plugins if str(pod) == status.subject] or plugins
        times: dict[str, datetime | None] = {}
        if len(drivers) == 1:
            times["driver"] = freshness.driver_started(drivers[0], fleet.stack)
            times["ready"] = freshness.ready_since(drivers[0], fleet.stack.driver.container)
        starts = [each.started_at for pod in plugins for each in pod.containers if each.started_at is not None]
        times["plugin"] = min(starts, default=None)
        if status.state is NodeState.VERIFIED:
            times["verified"] = max(filter(None, (pod.containers_ready_since for pod in plugins)), default=None)
        return {name: time for name, time in times.items() if time is not None}

    def as_lines(self) -> list[str]:
        """Return the lines for a terminal: tables, verdict, advice, and the state of the controller."""
        ending = report.ending(self.decision, lookup.advice(self.decision, self.found, self.fleet.stack))
        unknown = f"affected workloads are not known: {self.affected.unknown}" if self.affected.unknown else ""
        lines = (report.table(self.decision), *ending, *workloads.as_lines(self.affected), unknown)
        return list(filter(None, (*lines, *lookup.as_lines(self.found), self.problem and f"WARNING {self.problem}")))

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        parts = {"affectedWorkloads": workloads.as_json(self.affected), "controller": lookup.as_json(self.found)}
        return {**report.as_json(self.decision), **parts}


class Viewer:
    """Reads the fleet, follows its changes, and evaluates it."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api, self._settings = api, settings
        self._cache = lookup.read_cache(api, settings, workloads=True)

    def look(self) -> View:
        """Evaluate the fleet as it is now."""
        self._cache.watch_plugins()
        found = lookup.find_controller(self._api, self._settings.stack)
        snapshot, now, lost = self._cache.snapshot(), self._api.now(), self._cache.out_of_sync
        decision, _memory = decide(snapshot, Memory(started=now), self._settings, now)
        affected = workloads.evaluate(self._cache, self._settings, snapshot)
        problem = str(lost) if lost is not None and lost.seconds >= report.LOST_SECONDS else ""
        fleet = index(snapshot, self._settings)
        eta = remaining_seconds(fleet, decision, now)
        return View(now, fleet, decision, affected, found, problem, eta)

    def wait(self) -> None:
        """Wait until something has changed, at most for some seconds."""
        time.sleep(SHORTEST_SECONDS)
        self._cache.wait(LONGEST_SECONDS - SHORTEST_SECONDS)

    def stop(self) -> None:
        """Stop following the fleet."""
        self._cache.stop()


def watch(viewer: Viewer) -> NoReturn:
    """Show the fleet until an interrupt. A terminal shows one view; a file gets one more whenever the fleet changes."""
    before: tuple[str, ...] = ()
    while True:
        view = viewer.look()
        moment = f"{view.now:%H:%M:%S} UTC, {report.progress(view.decision, view.eta)}"
        if sys.stdout.isatty():
            _print(CLEAR + "\n".join(_fitting([f"{moment}, Ctrl-C ends it", *view.as_lines()])))
        elif (summary := view.summary()) != before:
            _print("\n".join([moment, *view.as_lines(), ""]))
            before = summary
        viewer.wait()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _fitting(lines: list[str]) -> list[str]:
    """Cut lines to the size of the terminal. The table comes first, so its beginning is what stays."""
    columns, rows = shutil.get_terminal_size()
    lines = [line for text in lines for line in text.splitlines()]
    left_out = len(lines) - (rows - 1)
    shown = lines if left_out <= 0 else [*lines[: rows - 2], f"({left_out + 1} more lines)"]
    return [shortened(line, columns) for line in shown]
