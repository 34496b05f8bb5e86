"""Formats that messages share: durations, timestamps, node lists, numbers or percentages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

NAMED_IN_A_SENTENCE: Final = 5
"""Most nodes that one message names. The table has all of them."""


def some(names: Sequence[str], most: int = NAMED_IN_A_SENTENCE) -> str:
    """Return the first few names, and the number of the others."""
    first = ", ".join(names[:most])
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def timestamp(when: datetime) -> str:
    """Return a timestamp in the format of the API server."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


class Bound(str):
    """A number of plugins, or a percentage of them (K8S ``intstr``): ``3`` or ``25%``."""

    __slots__ = ()

    @property
    def percent(self) -> bool:
        """Return whether this is a percentage."""
        return self.endswith("%")

    @property
    def value(self) -> int:
        """Return the number, or the percentage without its sign."""
        return int(self.removesuffix("%"))

    def of(self, total: int) -> int:
        """Return the number. A percentage is rounded up to at least one, like ``maxUnavailable`` of a DaemonSet."""
        return max(1, -(-total * self.value // 100)) if self.percent else self.value


def as_text(duration: timedelta) -> str:
    """Format a duration like the flags: ``1h30m``; ``90s`` becomes ``1m30s``. Clocks differ, so none is negative."""
    minutes, seconds = divmod(max(0, int(duration.total_seconds())), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


LONGEST_LINE: Final = 8192
"""Characters of one line: half of what the kubelet keeps in one piece (K8S ``pkg/kubelet``, 16 KiB)."""


def escaped(text: str) -> str:
    """Escape characters that are not printable. Names and messages come from the cluster, and terminals run escapes.

    This includes marks that change the direction of text, line separators, and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(ord(character)) for character in text)


def shortened(text: str, limit: int) -> str:
    """Shorten a text to so many characters, and mark the cut with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def printable(text: str, limit: int = LONGEST_LINE) -> str:
    """Make a text fit for a terminal. It is cut first, because escaping a long text is slow."""
    return shortened(escaped(shortened(text, limit)), limit)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004


CELL_MOST: Final = 2048
"""Characters of one cell. Names are shorter, and messages of a failed driver are cut earlier."""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows of cells as columns."""
    cells = [[printable(cell, CELL_MOST) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]
