"""Cut a recording of a real control plane down to what the core reads.

Usage: ``python tests/replay/reduce.py RECORDING.jsonl REDUCED.jsonl``

A recording has one line for each change of one object (``t``, ``kind``, ``name``, ``op``, ``v``).
Kept are the ClusterPolicy, the driver's DaemonSet, revisions and pods, the operator's Deployment and
pods, and the labels of nodes; a line that changes nothing of that is dropped.

Added is when a policy's spec was written, in seconds: a recording has no ``managedFields``, but its generation moves
with each such write. It is null for a policy that was there before.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Record = dict[str, Any]

DRIVER: Final = "nvidia-driver"
OPERATOR: Final = "gpu-operator"
KEPT: Final = {
    "clusterpolicy": ("gen", "state", "driver", "chart", "auto"),
    "ds": ("uid", "gen", "obs", "desired", "updated", "image", "chart"),
    "rev": ("revision", "owner"),
    "pod": ("uid", "comp", "node", "hash", "phase", "ready", "readyAt", "init", "ctr", "deleting"),
    "deploy": ("gen", "obs", "avail", "updated"),
}
"""Fields by kind. A node's are chosen by hand, below."""
MATTERS: Final[dict[str, Callable[[str, Record], bool]]] = {
    "clusterpolicy": lambda _name, _view: True,
    "deploy": lambda _name, _view: True,
    "ds": lambda _name, view: bool(view["comp"] == DRIVER),
    "rev": lambda _name, view: str(view["owner"]).startswith(DRIVER),
    "pod": lambda name, view: view["comp"] in (DRIVER, OPERATOR) and not name.startswith(f"{OPERATOR}-upgrade-crd"),
    "node": lambda name, _view: name.startswith("gpu-"),
}
"""Which objects of a kind are kept; the upgrade-crd pods are a hook of the operator's chart."""


def reduced(lines: Iterator[str]) -> Iterator[Record]:
    """Give the reduced records, their times in seconds since the first line of the recording."""
    start: float | None = None
    known: dict[tuple[str, str], Record | None] = {}
    for line in lines:
        record = json.loads(line)
        if start is None:
            start = record["t"]
            yield {"start": start}
        key = (record["kind"], record["name"])
        if not _matters(record, known):
            continue
        view, moment = _view(record["kind"], record["v"]), round(record["t"] - start, 3)
        if record["kind"] == "clusterpolicy" and view is not None:
            view["written"] = _written(record, view, known.get(key), moment)
        if key not in known or known[key] != view:
            known[key] = view
            yield {"t": moment, "op": record["op"], "kind": key[0], "name": key[1], "v": view}


def _matters(record: Record, known: dict[tuple[str, str], Record | None]) -> bool:
    view = record["v"]
    if view is None:
        return (record["kind"], record["name"]) in known
    test = MATTERS.get(record["kind"])
    return test is not None and test(record["name"], view)


def _written(record: Record, view: Record, before: Record | None, moment: float) -> float | None:
    """Return when the spec of a policy was written last, as far as the recording tells."""
    if before is not None and before["gen"] == view["gen"]:
        written: float | None = before["written"]
        return written
    return None if record["op"] == "LIST" else moment


def _view(kind: str, view: Record | None) -> Record | None:
    if view is None:
        return None
    if kind == "node":
        unusual = {key: value for key, value in view["deploy"].items() if key == "driver" or value != "true"}
        return {"up": view["up"], "skip": view["skip"], "present": view["present"], "deploy": unusual}
    return {key: view[key] for key in KEPT[kind]}


def main(source: str, target: str) -> None:
    """Reduce one file."""
    with Path(source).open(encoding="utf-8") as lines:
        records = list(reduced(iter(lines)))
    text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
