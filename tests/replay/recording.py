"""A recording of a real operator, cut down to what the core reads: its changes, and the truth about its drivers.

Each line is one change of one object, ``t`` seconds after the start. A policy's ``written`` is the moment at which its
generation last moved, so its spec was written; null for a policy that was there before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "recordings"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One object as of one moment; ``view`` is None once it is deleted."""

    at: float
    listed: bool
    kind: str
    name: str
    view: Object | None


@dataclass(frozen=True, slots=True)
class Load:
    """One driver pod's hold on a node, in seconds of the recording."""

    uid: str
    node: str
    hash: str
    started: float
    ready: float
    """End of its install: no sooner does the pod become Ready."""
    ended: float

    @property
    def loaded(self) -> float:
        """The driver is loaded some time before its pod is Ready: half-way, in this model."""
        return (self.started + self.ready) / 2


@dataclass
class Recording:
    """All changes of one recording, oldest first."""

    start: datetime
    changes: list[Change]
    t0: float
    """First change of the ClusterPolicy's generation, or its creation."""

    @property
    def end(self) -> float:
        """The moment of the last change."""
        return self.changes[-1].at

    @property
    def gpu_nodes(self) -> list[str]:
        """Every node that ever had a GPU."""
        return sorted({one.name for one in self.changes if one.kind == "node" and one.view and one.view["present"]})

    def moment(self, seconds: float) -> datetime:
        """Return a moment of the recording as a time."""
        return self.start + timedelta(seconds=seconds)

    def seconds(self, text: str) -> float:
        """Return a time of the API as seconds of the recording."""
        return (datetime.fromisoformat(text) - self.start).total_seconds()

    def newest_hash(self) -> str:
        """Return the hash of the driver's last revision."""
        revisions = [(one.view["revision"], one.name) for one in self.changes if one.kind == "rev" and one.view]
        return max(revisions)[1].rpartition("-")[2]

    def loads(self) -> list[Load]:
        """Return every driver pod that became Ready, with its whole time on its node."""
        found: dict[str, Load] = {}
        for change in self.changes:
            view = change.view
            if change.kind != "pod" or "driver" not in change.name:
                continue
            if view is None or view["deleting"] or view["ready"] != "True":
                self._end(found, change)
            else:
                started, ready = self.seconds(view["ctr"][0][3]), self.seconds(view["readyAt"])
                load = Load(view["uid"], view["node"], view["hash"], started, ready, float("inf"))
                found.setdefault(change.name, load)
        return list(found.values())

    def truth(self) -> float:
        """Return the last moment at which a driver pod became Ready for good, of the newest revision."""
        lasting = [one for one in self.loads() if one.ended == float("inf")]
        assert {one.node for one in lasting} == set(self.gpu_nodes), "this recording did not finish"
        assert {one.hash for one in lasting} == {self.newest_hash()}
        return max(one.ready for one in lasting)

    def _end(self, found: dict[str, Load], change: Change) -> None:
        before = found.get(change.name)
        if before is not None and before.ended == float("inf"):
            facts = (before.uid, before.node, before.hash, before.started, before.ready)
            found[change.name] = Load(*facts, ended=change.at)


def load(name: str) -> Recording:
    """Read a reduced recording."""
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        head, *records = (json.loads(line) for line in lines)
    changes = [Change(one["t"], one["op"] == "LIST", one["kind"], one["name"], one["v"]) for one in records]
    return Recording(datetime.fromtimestamp(head["start"], UTC), changes, _t0(changes))


def _t0(changes: list[Change]) -> float:
    generations = [(one.at, one.view["gen"]) for one in changes if one.kind == "clusterpolicy" and one.view]
    first = generations[0][1]
    changed = [at for at, generation in generations if generation != first]
    return changed[0] if changed else generations[0][0]
