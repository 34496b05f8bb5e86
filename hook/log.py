"""Log formats, text that is safe to print, and signal handling."""

from __future__ import annotations

import json
import logging
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from hook.errors import TerminatedError
from hook.format import LONGEST_LINE, printable, shortened
from hook.settings import LogFormat

if TYPE_CHECKING:
    from types import FrameType

    from hook.settings import LogLevel


class PeopleFormatter(logging.Formatter):
    """Time of day, level unless it is INFO, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of text."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{moment} {level}{printable(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the facts of the record as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        facts = getattr(record, "facts", {})
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "message": shortened(record.getMessage(), LONGEST_LINE),
                **facts,
            }
        )


def configure(log_format: LogFormat, level: LogLevel, stream: TextIO) -> None:
    """Send the program's log lines to a stream; libraries log warnings and errors only."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else PeopleFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hook").setLevel(level.upper())


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
