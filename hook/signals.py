"""Turn SIGTERM and Ctrl-C into an error that every caller sees."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hook.errors import TerminatedError

if TYPE_CHECKING:
    from types import FrameType


def end_on_signals() -> None:
    """Raise TerminatedError wherever the program is; a second signal changes nothing."""

    def end(number: int, _frame: FrameType | None) -> None:
        ignore_signals()
        raise TerminatedError(number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def ignore_signals() -> None:
    """Let the report be written whole."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
