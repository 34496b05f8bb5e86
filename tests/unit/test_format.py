"""Formats that messages share: what a terminal may show, and columns."""

from __future__ import annotations

import pytest

from hook.format import CELL_MOST, LONGEST_LINE, aligned, escaped, printable, shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("gpu-0 é", "gpu-0 é", id="printable"),
        pytest.param("\x1b[2J", "\\x1b[2J", id="terminal-escape"),
        pytest.param("a\nb", "a\\x0ab", id="line-break"),
        pytest.param("\u202egpu", "\\u202egpu", id="right-to-left-mark"),
        pytest.param("\ud800", "\\ud800", id="half-of-a-character"),
        pytest.param("\U000e0001", "\\U000e0001", id="language-tag"),
    ],
)
def test_characters_that_are_not_printable_are_escaped(text: str, expected: str) -> None:
    """A terminal obeys nothing that comes from the cluster."""
    assert expected == escaped(text)


def test_a_text_is_cut_with_a_mark() -> None:
    """A text that fits stays as it is."""
    assert ("abc", "ab…") == (shortened("abc", 3), shortened("abcd", 3))


def test_an_escaped_text_fits_too() -> None:
    """Each escaped character is longer than before."""
    assert LONGEST_LINE == len(printable("\x00" * (LONGEST_LINE + 1)))


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    """The last one is not padded, and no cell exceeds its limit."""
    rows = [("NODE", "STATE", "REASON", "MESSAGE"), ("gpu-0", "Stale", "PluginStale", "x" * (CELL_MOST + 1))]
    assert ["NODE   STATE  REASON       MESSAGE", f"gpu-0  Stale  PluginStale  {'x' * (CELL_MOST - 1)}…"] == aligned(
        rows
    )
