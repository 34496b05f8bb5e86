"""Log formats, what is written to standard output, and signal handling."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from hook.errors import OutputError, TerminatedError
from hook.format import LONGEST_LINE, printable, shortened
from hook.settings import LogFormat

if TYPE_CHECKING:
    from types import FrameType

    from hook.settings import LogLevel


OUTPUT: Final = "standard output"


class Handler(logging.StreamHandler[TextIO]):
    """Writes log lines to a stream. A line that the stream does not take is lost, and the program continues."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of logging
        """Report an error of the program, but not that the stream is closed or its disk is full."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


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
    handler = Handler(stream)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else PeopleFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hook").setLevel(level.upper())


def write(text: str) -> None:
    """Write a text to standard output at once. Raises OutputError."""
    if sys.stdout is None:  # as Python shows a file descriptor that was closed before the start
        raise OutputError(OUTPUT, OSError(errno.EBADF, os.strerror(errno.EBADF)))
    _put(sys.stdout, f"{text}\n")


def complain(error: Exception) -> None:
    """Write an error to standard error, if that takes it."""
    with contextlib.suppress(OutputError):
        _put(sys.stderr, f"Error: {printable(str(error))}\n")


def settle() -> None:
    """Write what the standard streams have not taken yet, or complain, so that the exit code stays as it is."""
    for stream in (sys.stdout, sys.stderr):
        try:
            _put(stream, "")
        except OutputError as error:
            complain(error)


def _put(stream: TextIO | None, text: str) -> None:
    """Write to a stream, or drop what it does not take. Raises OutputError.

    Python would try again when the process ends, and change the exit code.
    """
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise OutputError(OUTPUT, error) from None


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
