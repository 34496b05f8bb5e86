"""A process that is held still, and how long it then takes to end: its own time, without that of a busy machine."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

LOOK_MILLISECONDS = 5
PATIENCE_SECONDS = 60
NANOSECONDS = 1e9


class Held:
    """Stops a process, which signals then wait for, until it is let go."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = os.pidfd_open(pid)
        self._waited: dict[str, int] = {}

    def __enter__(self) -> Self:
        signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)
        os.close(self._handle)

    def is_told(self, number: int) -> bool:
        """Whether a signal waits for the process."""
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        (pending,) = (int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd:"))
        return bool(pending & 1 << number - 1)

    def let_go(self) -> float:
        """Let it continue; return the seconds that it took to end, less those in which it was not given a processor."""
        waited_before = dict(self._look())
        end = select.poll()
        end.register(self._handle, select.POLLIN)
        began = time.monotonic()
        signal.pidfd_send_signal(self._handle, signal.SIGCONT)
        while not end.poll(LOOK_MILLISECONDS) and time.monotonic() < began + PATIENCE_SECONDS:
            self._look()
        # The longest that one thread waited: those of several may be the same moments.
        waited = max((here - waited_before.get(thread, 0) for thread, here in self._look().items()), default=0)
        return time.monotonic() - began - waited / NANOSECONDS

    def _look(self) -> dict[str, int]:
        """Read how long each thread was ready to run but did not; one that has ended keeps its last value."""
        for thread in Path(f"/proc/{self._pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                self._waited[thread.parent.name] = int(thread.read_text().split()[1])
        return self._waited
