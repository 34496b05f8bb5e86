"""What each step found, as one small file a step: a step that fails is recorded, and does not stop the later ones."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONGEST = 400_000
"""Characters of one part of a report: the beginning and the end of what is longer."""


class TimeUpError(Exception):
    """A step reached its limit."""


class Report:
    """The report of one step. It is written as it grows, so that a killed run leaves what it had."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_text("")

    def note(self, title: str, text: str) -> None:
        """Add a part."""
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]}\n... {len(text) - LONGEST} characters left out ...\n{text[-LONGEST // 2 :]}"
        with self._file.open("a") as out:
            out.write(f"## {title}\n\n{text.rstrip()}\n\n")

    def run(self, *command: str, seconds: float = 30.0) -> str:
        """Run a command of the machine, add what it prints, and return that."""
        try:
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.note(" ".join(command), str(error))
            return ""
        self.note(f"{' '.join(command)} (exit code {ended.returncode})", ended.stdout)
        return ended.stdout


class Record:
    """The reports of all steps, and a line for each in `summary.txt`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._summary = folder / "summary.txt"
        self.failed = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._summary.write_text("")

    def say(self, line: str) -> None:
        """Add a line to the summary."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        with self._summary.open("a") as out:
            out.write(f"{line}\n")

    def step(self, name: str, seconds: int, do: Callable[[Report], str]) -> None:
        """Run a step within its limit. What it returns is its line in the summary."""
        report = Report(self._folder / f"{name}.txt")
        began = time.monotonic()
        try:
            with limited(seconds):
                found = f"done: {do(report)}"
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the later steps have their turn
            self.failed += 1
            found = f"FAILED: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            report.note("This step failed", traceback.format_exc())
        self.say(f"{name} ({time.monotonic() - began:.1f} s) {found}")


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Interrupt what takes longer."""

    def interrupt(_number: int, _frame: object) -> None:
        raise TimeUpError(f"not within {seconds} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
