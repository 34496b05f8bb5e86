"""Processes that outlive us: started in a session of their own, written down, ended by record only.

A record holds the process id and the moment the process started, so that a process that got the
same id later is never touched. Each process leads its own group, and the group is what is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from devcluster import patience
from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from devcluster.boot.layout import State

T = TypeVar("T")

START_SECONDS = 120.0
"""Five to six seconds on an idle machine; generous for one that runs several clusters and a build."""

STEP_SECONDS = 0.02
"""Between two looks at a process that should end."""

KILL_SECONDS = 5.0
"""SIGKILL is not refused, but a busy kernel takes its time to reap."""

START_FIELD = 21
"""Where ``/proc/<pid>/stat`` holds the start time, counted from the first field (proc(5), field 22)."""


class ProcessError(Exception):
    """A process did not start, or ended too early."""


@dataclass(frozen=True, slots=True)
class Record:
    """A process that we started."""

    name: str
    pid: int
    started: str

    @classmethod
    def of(cls, name: str, pid: int) -> Self:
        """Identify a process that runs now."""
        return cls(name, pid, start_mark(pid) or "")

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return bool(self.started) and start_mark(self.pid) == self.started

    def write(self, folder: Path) -> None:
        """Keep the record; whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{self.name}.{os.getpid()}"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(folder / f"{self.name}.json")

    def forget(self, folder: Path) -> None:
        """Remove the record of a process that has ended."""
        (folder / f"{self.name}.json").unlink(missing_ok=True)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children, unless another process has the id by now.

        Children may outlive their leader; its id stays taken as long as its group has members.
        """
        if start_mark(self.pid) in (self.started, None):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def start_mark(pid: int) -> str | None:
    """Return what tells this process from a later one with the same id; None if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = [str(pid), "", *stat[stat.rindex(")") + 1 :].split()]  # the name may hold blanks
    return None if fields[2] == "Z" else fields[START_FIELD]


def start(
    state: State, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that survives us, with its output in a log, and record it."""
    state.logs.mkdir(parents=True, exist_ok=True)
    with state.log(name).open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=CHECKOUT,
            start_new_session=True,
        )
    Record.of(name, process.pid).write(state.processes)
    return process


class Children:
    """The processes of a cluster that this process started."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start one more."""
        self._running[name] = start(self._state, name, command, environment)

    def wait_until(
        self,
        what: patience.What,
        look: Callable[[], T | None],
        seconds: float = START_SECONDS,
        soonest: float = patience.SOONEST,
    ) -> T:
        """Wait for what they bring about, and return it; fail at once when one of them ends."""

        def looked() -> T | None:
            found = look()
            for name, process in () if found else self._running.items():
                if process.poll() is not None:
                    log = tail(self._state.log(name))
                    raise ProcessError(f"{name} ended with {process.returncode} before {patience.told(what)}:\n{log}")
            return found

        def so_far() -> str:
            tails = (f"  {name}:\n{tail(self._state.log(name), 5)}" for name in self._running)
            return "\n".join((f"{patience.told(what)}; the logs end with", *tails))

        return patience.until(looked, so_far, seconds, soonest)

    def end(self, *names: str, grace: float) -> None:
        """End some of them."""
        chosen = [record for record in records(self._state.processes) if record.name in names]
        end(chosen, grace=grace)
        for record in chosen:
            record.forget(self._state.processes)
            self._running.pop(record.name).wait()

    def reap(self) -> None:
        """Collect them after their end."""
        for process in self._running.values():
            process.wait()
        self._running.clear()


def records(folder: Path) -> list[Record]:
    """Read all records, oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    return [Record(**json.loads(file.read_text())) for file in files]


def end(running: Sequence[Record], *, grace: float) -> None:
    """End processes together: ask, wait for the grace period, then kill."""
    if grace > 0:
        for record in running:
            record.signal_group(signal.SIGTERM)
        _wait(running, grace)
    for record in running:
        record.signal_group(signal.SIGKILL)
    survivors = _wait(running, KILL_SECONDS)
    if survivors:
        raise ProcessError(f"still running after SIGKILL: {', '.join(r.name for r in survivors)}")


def _wait(running: Sequence[Record], seconds: float) -> list[Record]:
    """Wait until all have ended; return those that have not."""
    deadline = time.monotonic() + seconds
    while True:
        remaining = [record for record in running if record.alive]
        if not remaining or time.monotonic() >= deadline:
            return remaining
        time.sleep(STEP_SECONDS)


def tail(log: Path, lines: int = 20) -> str:
    """Return the end of a log, indented, for an error message."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return "    (no log)"
    return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:]) or "    (empty log)"
