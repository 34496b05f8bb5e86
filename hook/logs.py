"""Format log lines as text or JSON, without control characters that came from the cluster."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, TextIO

LONGEST_LINE: Final = 8192
"""Characters of one line: half of what the kubelet keeps in one piece (K8S ``pkg/kubelet``, 16 KiB)."""


def clean(text: str) -> str:
    """Escape characters that are not printable. Names and messages come from the cluster, and terminals run escapes.

    This includes marks that change the direction of text, line separators, and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _spelled(ord(character)) for character in text)


def cut(text: str, limit: int) -> str:
    """Shorten a text to so many characters, and mark the cut with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown(text: str, limit: int = LONGEST_LINE) -> str:
    """Make a text fit for a terminal. It is cut first, because escaping a long text is slow."""
    return cut(clean(cut(text, limit)), limit)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


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
