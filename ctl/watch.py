"""The table of ``status --watch``, which is shown again whenever the fleet changes."""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NoReturn

from ctl.plan.plan import remaining_seconds
from hook.decide.result import headline
from hook.format import as_text, shortened
from hook.log import write
from hook.run import report, workloads

if TYPE_CHECKING:
    from hook.run.status import View, Viewer

CLEAR: Final = "\x1b[H\x1b[2J"
"""Moves the cursor of a terminal to the top and erases the screen."""


def watch(viewer: Viewer) -> NoReturn:
    """Show the fleet until an interrupt. A terminal shows one view; a file gets one more whenever the fleet changes."""
    before: tuple[str, ...] = ()
    while True:
        view = viewer.look()
        if sys.stdout is not None and sys.stdout.isatty():
            write(CLEAR + "\n".join(_fitting([f"{_progress(view)}, Ctrl-C ends it", *view.as_lines()])))
        elif (summary := _summary(view)) != before:
            write("\n".join([_progress(view), *view.as_lines(), ""]))
            before = summary
        viewer.wait()


def _progress(view: View) -> str:
    """Return the time, how many nodes are verified, and the estimated time for the others if it is known."""
    seconds = remaining_seconds(view.fleet, view.now)
    about = f", about {as_text(timedelta(seconds=seconds))} left" if seconds else ""
    return f"{view.now:%H:%M:%S} UTC, {report.progress(view.decision)}{about}"


def _summary(view: View) -> tuple[str, ...]:
    """Return what changes only if the fleet changes."""
    tables = (report.table(view.decision), *workloads.as_lines(view.affected))
    return *tables, headline(view.decision), "out of sync" if view.problem else ""


def _fitting(lines: list[str]) -> list[str]:
    """Cut lines to the size of the terminal. The table comes first, so its beginning is what stays."""
    columns, rows = shutil.get_terminal_size()
    lines = [line for text in lines for line in text.splitlines()]
    room = max(rows - 2, 0)
    shown = lines if len(lines) < rows else [*lines[:room], f"({len(lines) - room} more lines)"]
    return [shortened(line, columns) for line in shown]
