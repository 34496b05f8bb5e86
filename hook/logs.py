"""Log lines for people, or JSON lines; never a control character of somebody else's."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, TextIO

CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Names and messages come from the cluster: terminal escapes in them are shown, not obeyed."""


def clean(text: str) -> str:
    """Make control characters visible."""
    return text.translate(CONTROL)


class PeopleFormatter(logging.Formatter):
    """Time of day, level where it matters, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one line."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{moment} {level}{clean(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the facts that a line carries as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one line."""
        facts = getattr(record, "facts", {})
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "message": record.getMessage(),
                **facts,
            }
        )


def configure(log_format: str, *, verbose: bool, stream: TextIO) -> None:
    """Send the program's log lines to a stream; libraries speak up only when something is wrong."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PeopleFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hook").setLevel(logging.DEBUG if verbose else logging.INFO)
