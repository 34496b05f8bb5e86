"""The program as a process: its end, its memory and its log."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.boot.layout import CHECKOUT
from devcluster.settings import separated

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOK_SECONDS: Final = 0.2
STOPPED: Final = 128 + signal.SIGTERM
KILLED: Final = -signal.SIGKILL
END_SECONDS: Final = 60.0
"""For a process that was stopped to report and end, also on a busy machine."""


class Process:
    """A program with a kubeconfig and its settings in the environment; its output goes to a file."""

    def __init__(self, command: Sequence[str], kubeconfig: Path, log: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
        arguments, settings = separated(command)
        self._log = log
        self.peak = 0.0
        """The most memory that it was seen with, in MiB."""
        self.marks: list[float] = []
        """Its memory at the end of each cycle that it lived through."""
        with log.open("w") as output:
            self._process = subprocess.Popen(
                arguments,
                cwd=CHECKOUT,
                env={**kept, "KUBECONFIG": str(kubeconfig), **settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def over(self) -> bool:
        """Whether it has ended; while it runs, its memory is looked at."""
        self.peak = max(self.peak, self._mebibytes("VmHWM"))
        return self._process.poll() is not None

    @property
    def growth(self) -> float:
        """The memory that came after the first cycle, which warms it up."""
        return self.marks[-1] - self.marks[0] if self.marks else 0.0

    def mark(self) -> None:
        """Note its memory at the end of a cycle."""
        if (resident := self._mebibytes("VmRSS")) > 0:
            self.marks.append(resident)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Wait for its end, kill it if that does not come, and return the exit code."""
        end = time.monotonic() + seconds
        while not self.over:
            if time.monotonic() > end:
                self._process.kill()
                break
            time.sleep(LOOK_SECONDS)
        return self._process.wait()

    def log(self) -> str:
        """Return what it logged."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _mebibytes(self, kind: str) -> float:
        """Return what the kernel says of its memory; 0 once it has ended."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return 0.0
        found = re.search(rf"{kind}:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0
