"""Run a command, and write what it spent into a file: ``python -S launcher.py FILE COMMAND...``.

A program of its own, because Linux counts the memory of the process that started another as the peak of the other until
its own is larger (``ru_maxrss`` outlives exec): who starts it must be small. It needs the standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    """Run it to its end; a signal to stop is passed on."""
    target, *command = sys.argv[1:]
    began = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ)
    signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(pid, number))
    _pid, status, used = os.wait4(pid, 0)
    spent = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "wall_seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_bytes": used.ru_maxrss * 1024,
    }
    Path(target).write_text(json.dumps({"pid": pid, **spent}), encoding="utf-8")


if __name__ == "__main__":
    main()
