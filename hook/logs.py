"""Log lines for people, or JSON lines; never a control character of somebody else's."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, TextIO

LONGEST_LINE: Final = 8192
"""Characters of one line: half of what a kubelet's log keeps in one piece (K8S ``pkg/kubelet``, 16 KiB)."""


def clean(text: str) -> str:
    """Make visible what is not: names and messages come from the cluster, and terminals obey escapes in them.

    Also marks that turn the direction of writing, separators of lines, and halves of characters.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _spelled(ord(one)) for one in text)


def cut(text: str, limit: int) -> str:
    """Shorten to so many characters, and show it."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def shown(text: str, limit: int = LONGEST_LINE) -> str:
    """Make fit for a terminal. Cut first, too: spelling a mebibyte takes a while."""
    return cut(clean(cut(text, limit)), limit)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


class PeopleFormatter(logging.Formatter):
    """Time of day, level where it matters, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one line."""
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        return f"{moment} {level}{shown(record.getMessage())}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with the facts that a line carries as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Give one line."""
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
    """Send the program's log lines to a stream; libraries speak up only when something is wrong."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PeopleFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("hook").setLevel(logging.DEBUG if verbose else logging.INFO)
