"""Formats that messages share: what a terminal may show, columns, and numbers or percentages."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.format import CELL_MOST, LONGEST_LINE, Bound, aligned, as_text, escaped, printable, shortened, some, timestamp
from tests.fixtures.objects import at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain gpu-0, größer €", "plain gpu-0, größer €"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\x0ab\\x0d\\x09c"),
        ("\u202egpu", "\\u202egpu"),  # right to left
        ("a\u2028b", "a\\u2028b"),  # line separator
        ("\ud800", "\\ud800"),  # half of a character
        ("\U000e0001", "\\U000e0001"),  # language tag
    ],
)
def test_characters_that_are_not_printable_are_escaped(text: str, expected: str) -> None:
    """A terminal interprets nothing that comes from the cluster."""
    assert expected == escaped(text)


def test_durations_times_and_lists_of_nodes() -> None:
    """Durations look like the flags, times like the API server's; a message names the first few nodes."""
    for seconds, expected in {-5: "0s", 0: "0s", 90: "1m30s", 5400: "1h30m", 3661: "1h1m1s"}.items():
        assert expected == as_text(timedelta(seconds=seconds))
    assert "2026-01-01T10:00:05Z" == timestamp(at(5))
    assert ("a, b, c, d, e", "a, b, c, d, e and 1 more") == (some("abcde"), some("abcdef"))
    # A text that fits stays as it is; each escaped character is longer than before.
    assert ("abc", "ab…") == (shortened("abc", 3), shortened("abcd", 3))
    assert LONGEST_LINE == len(printable("\x00" * (LONGEST_LINE + 1)))


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    """The last one is not padded, and no cell exceeds its limit."""
    rows = [("NODE", "STATE", "REASON", "MESSAGE"), ("gpu-0", "Stale", "PluginStale", "x" * (CELL_MOST + 1))]
    expected = ["NODE   STATE  REASON       MESSAGE", f"gpu-0  Stale  PluginStale  {'x' * (CELL_MOST - 1)}…"]
    assert expected == aligned(rows)


@pytest.mark.parametrize(
    ("bound", "total", "expected"), [("3", 100, 3), ("25%", 100, 25), ("25%", 101, 26), ("25%", 0, 1)]
)
def test_a_bound_is_a_number_or_a_share(bound: str, total: int, expected: int) -> None:
    """A share is rounded up to at least one, as in a DaemonSet's maxUnavailable."""
    assert expected == Bound(bound).of(total)
