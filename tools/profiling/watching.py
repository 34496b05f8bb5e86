"""Watch a running program from another thread: which functions spend processor time, and what fills memory.

A tracing profiler slows small functions most, and since Python 3.12 there can be one only. So the time is sampled:
every few milliseconds each thread's own processor time, as Linux counts it, goes to the function that it is in.
"""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

EVERY_SECONDS: Final = 0.005
TASKS: Final = Path("/proc/self/task")
GROWN: Final = 1.03
"""A new peak is one that is so much higher: each costs a copy of all that is known."""
SHOWN: Final = 12
PROGRAM: Final = "hook/"
ALL: Final = "all lines together"
HERE: Final = str(Path(__file__).parents[2])


class Watch(threading.Thread):
    """Looks again and again, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(name="watch", daemon=True)
        self._over = threading.Event()

    def run(self) -> None:
        """Look."""
        while not self._over.wait(EVERY_SECONDS):
            self.look()

    def stop(self) -> list[dict[str, Any]]:
        """Look a last time, and return what was found, the most first."""
        self._over.set()
        self.join()
        self.look()
        return self.found()

    def look(self) -> None:
        """Look once."""
        raise NotImplementedError

    def found(self) -> list[dict[str, Any]]:
        """Return what was found."""
        raise NotImplementedError


class Time(Watch):
    """Whose processor time it was."""

    def __init__(self) -> None:
        super().__init__()
        alive = [thread.native_id for thread in threading.enumerate() if thread.native_id]
        self._spent = {native_id: _processor_time(native_id) for native_id in alive}
        self._own: Counter[str] = Counter()
        self._all: Counter[str] = Counter()

    def look(self) -> None:
        """Add what each thread has spent since the last look to the function in which it is now, and its callers."""
        frames = sys._current_frames()  # noqa: SLF001 - documented, and the only way
        for thread in threading.enumerate():
            if thread is not self and thread.native_id and (frame := frames.get(thread.ident or 0)):
                spent = _processor_time(thread.native_id)
                since = spent - self._spent.get(thread.native_id, 0)
                self._spent[thread.native_id] = max(spent, self._spent.get(thread.native_id, 0))
                self._give(frame, max(since, 0))

    def _give(self, frame: FrameType, nanoseconds: int) -> None:
        self._own[_name(frame)] += nanoseconds
        callers: set[str] = set()
        step: FrameType | None = frame
        while step is not None:
            callers.add(_name(step))
            step = step.f_back
        for name in callers:
            self._all[name] += nanoseconds

    def found(self) -> list[dict[str, Any]]:
        """Return which functions spent the most, and which of the program with all that they called, as shares."""
        total = self._own.total() or 1
        most = [name for name, _own in self._own.most_common(SHOWN)]
        program = [name for name, _all in self._all.most_common() if name.startswith(PROGRAM)]
        return [
            {"where": name, "itself": self._own[name] / total, "with_callees": self._all[name] / total}
            for name in dict.fromkeys([*most, *program[:SHOWN]])
        ]


class Memory(Watch):
    """What stood in memory when there was most of it, as far as Python allocated it."""

    def __init__(self) -> None:
        super().__init__()
        tracemalloc.start()
        self._most = 0
        self._snapshot: tracemalloc.Snapshot | None = None

    def look(self) -> None:
        """Keep what is there, if it is more than ever before."""
        now, _peak = tracemalloc.get_traced_memory()
        if now > self._most * GROWN:
            self._most, self._snapshot = now, tracemalloc.take_snapshot()

    def found(self) -> list[dict[str, Any]]:
        """Stop, and return lines by what they allocated, and all of them together."""
        tracemalloc.stop()
        snapshot = self._snapshot
        assert snapshot is not None  # noqa: S101 - the last look makes one, since something was allocated
        lines = snapshot.filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)]).statistics("lineno")
        shown = [
            {"where": f"{_short(one.traceback[0].filename)}:{one.traceback[0].lineno}", "bytes": one.size}
            for one in lines[:SHOWN]
        ]
        return [*shown, {"where": ALL, "bytes": sum(one.size for one in lines)}]


WATCHES: Final[dict[str, type[Watch]]] = {"time": Time, "memory": Memory}


def _processor_time(native_id: int) -> int:
    """Return the nanoseconds that a thread was on a processor; 0 if it has ended meanwhile."""
    try:
        return int((TASKS / str(native_id) / "schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def _name(frame: FrameType) -> str:
    return f"{_short(frame.f_code.co_filename)} {frame.f_code.co_qualname}"


def _short(filename: str) -> str:
    """Name a file as people know it: in this checkout, of a library, or of Python."""
    roots = sorted((path for path in (HERE, *sys.path) if path), key=len, reverse=True)
    return next((filename.removeprefix(f"{root}/") for root in roots if filename.startswith(f"{root}/")), filename)
