"""Format log lines as text or JSON, without control characters that came from the cluster."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from hook.core.sentences import LONGEST_LINE, cut, shown


class PeopleFormatter(logging.Formatter):
    """Time of day, level unless it is INFO, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of text."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{moment} {level}{shown(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the facts of the record as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        facts = getattr(record, "facts", {})
        return json.dumps(
            {
                "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "message": cut(record.getMessage(), LONGEST_LINE),
                **facts,
            }
        )


def configure(log_format: str, *, verbose: bool, stream: TextIO) -> None:
    """Send the program's log lines to a stream; libraries log warnings and errors only."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PeopleFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hook").setLevel(logging.DEBUG if verbose else logging.INFO)
