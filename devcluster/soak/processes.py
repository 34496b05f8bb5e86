"""Runs of the hook as processes, and the memory of one that waits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.boot.layout import CHECKOUT
from devcluster.settings import separated
from devcluster.soak.judge import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

SAMPLE_SECONDS: Final = 2.0
STOPPED: Final = 128 + signal.SIGTERM
KILLED: Final = -signal.SIGKILL
END_SECONDS: Final = 60.0
"""For a process that was stopped to report and end, also on a busy machine."""


class Process:
    """A process whose output goes to a file: it need not be read for the process to continue."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self.began = time.time()
        self._file: TextIO = log.open("w")
        self._process = subprocess.Popen(
            list(command), cwd=CHECKOUT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=self._file,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Wait for its end, and end it if it does not come. Gives the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._file.close()

    def mebibytes(self) -> float | None:
        """Return its resident memory; None once it has ended."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return None
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else None

    def said(self, last: int = 4000) -> str:
        """Return the end of what it said."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-last:]


def launch(command: Sequence[str], kubeconfig: Path, log: Path) -> Process:
    """Start a program with a kubeconfig and the settings in its environment, and nothing of a pod's."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBERNETES_")}
    arguments, settings = separated(command)
    return Process(arguments, {**kept, "KUBECONFIG": str(kubeconfig), **settings}, log)


class Waiting:
    """A process that is to continue until it is stopped, with its memory at many moments."""

    def __init__(self, process: Process, seconds: float = SAMPLE_SECONDS) -> None:
        self.process = process
        self._seconds = seconds
        self.samples: list[Sample] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def look_away(self) -> None:
        """Take no more samples."""
        self._end.set()
        self._thread.join()

    def stop(self) -> str:
        """Stop it; return what is wrong with how it ended, or nothing."""
        early = self.process.over
        self.look_away()
        if not early:
            self.process.signal(signal.SIGTERM)
        code = self.process.wait(END_SECONDS)
        if early:
            return f"the process that waits ended by itself, with {code}: {self.process.said(600)}"
        # Of one that had not come to its first line, the signal itself tells.
        if code in (STOPPED, -signal.SIGTERM):
            return ""
        return f"the process that waits was stopped, and ended with {code}"

    def _sample(self) -> None:
        while not self._end.wait(self._seconds):
            taken = self.process.mebibytes()
            if taken is None:
                return
            self.samples.append(Sample(time.time(), taken))
