"""Turn SIGTERM and Ctrl-C into an exception."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hook.errors import TerminatedError

if TYPE_CHECKING:
    from types import FrameType


def end_on_signals() -> None:
    """Raise TerminatedError on a signal; ignore a second one."""

    def end(number: int, _frame: FrameType | None) -> None:
        ignore_signals()
        raise TerminatedError(number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def ignore_signals() -> None:
    """Ignore signals, so that the report is complete."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
