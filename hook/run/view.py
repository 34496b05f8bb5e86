"""The view of the fleet that ``status`` shows."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.decide.fleet import index
from hook.decide.record import Memory
from hook.decide.run import decide
from hook.run import lookup, report, workloads

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision
    from hook.decide.workloads import Affected
    from hook.kube.client import Api
    from hook.settings import Settings

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

    @property
    def wrong(self) -> bool:
        """Return whether a plugin is stale or a node has failed."""
        return self.decision.unhappy or any(map(report.needs_action, self.decision.statuses))

    def as_lines(self) -> list[str]:
        """Return the lines for a terminal: tables, verdict, advice, and the state of the controller."""
        ending = report.ending(self.decision, lookup.advice(self.decision, self.found, self.fleet.stack))
        unknown = f"affected workloads are not known: {self.affected.unknown}" if self.affected.unknown else ""
        lines = (report.table(self.decision), *ending, *workloads.as_lines(self.affected), unknown)
        return list(filter(None, (*lines, *lookup.as_lines(self.found), self.problem and f"WARNING {self.problem}")))

    def shown(self, output: str) -> str:
        """Return the text for an output: `table` or `json`."""
        return json.dumps(self.as_json(), indent=2) if output == "json" else "\n".join(self.as_lines())

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
        return View(now, index(snapshot, self._settings), decision, affected, found, problem)

    def wait(self) -> None:
        """Wait until something has changed, at most for some seconds."""
        time.sleep(SHORTEST_SECONDS)
        self._cache.wait(LONGEST_SECONDS - SHORTEST_SECONDS)

    def stop(self) -> None:
        """Stop following the fleet."""
        self._cache.stop()
