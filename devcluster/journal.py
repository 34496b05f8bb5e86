"""The simulator's journal: one entry a line, as JSON. The fleet writes it, `truth` reads it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

JOURNAL = "truth.jsonl"
"""The journal's name in a cluster's state directory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal; what an event does not have is left at its default."""

    t: float
    event: str
    node: str
    stack: str = ""
    """``gpu`` or ``network``; empty for what happens to a node as a whole."""
    pod: str = ""
    uid: str = ""
    daemonset: str = ""
    namespace: str = ""
    hash: str = ""
    version: str = ""
    load: int | None = None
    node_load: int | None = None
    toolkit: int = 0
    mig: int = 0
    stale: bool = False
    drained: bool = False
    driver_ready: bool = False
    driver_current: bool = False
    node_ready: bool = False
    cordoned: bool = False
    driver: str = ""
    """The DRA driver that a plugin registers, or that a DeviceTaintRule selects; empty selects all."""

    @classmethod
    def parse(cls, line: str) -> Entry:
        """Read one line; keys that this version does not know are ignored."""
        return cls(**{key: value for key, value in json.loads(line).items() if key in KNOWN})

    def concerns(self, daemonset: str | None) -> bool:
        """Return whether this is about a DaemonSet, given as ``name`` or ``namespace/name``; None is any."""
        return daemonset in {None, self.daemonset, f"{self.namespace}/{self.daemonset}"}


KNOWN = frozenset(each.name for each in fields(Entry))


def encode(event: str, node: str, t: float, **details: object) -> str:
    """Spell one line of the journal, its newline included."""
    return json.dumps({"t": round(t, 3), "event": event, "node": node, **details}) + "\n"


class Journal:
    """An append-only file. Each line is one write, so that a reader never sees a torn one."""

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def write(self, event: str, node: str, **details: object) -> None:
        """Append one event that happens now."""
        os.write(self._fd, encode(event, node, time.time(), **details).encode())
