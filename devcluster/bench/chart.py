"""Draw a few bars on one linear scale. Pure: values in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Final

from devcluster.svg import FAINT, line, picture, rectangle, text

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, LEFT, RIGHT = 960, 380, 140
BAR, STEP, TOP, BOTTOM = 22, 34, 44, 40
MOST_BARS: Final = 6
OURS, OTHER = "#0b6e4f", "#8a5a83"
"""Each has a contrast of more than 4.5 to 1 on white."""
MOST_MARKS: Final = 5
STEPS: Final = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, and the words at its ends."""

    name: str
    value: float
    note: str = ""
    ours: bool = False


def draw(title: str, bars: Sequence[Bar], caption: str) -> str:
    """Draw bars below one another, from nothing to the largest value."""
    largest = max(bar.value for bar in bars)
    height = TOP + STEP * len(bars) + BOTTOM
    shapes = [text(8, 24, title, weight="bold")]
    for mark in marks(largest):
        x = LEFT + mark / largest * (WIDTH - LEFT - RIGHT)
        shapes += [line(x, TOP - 6, x, height - BOTTOM, FAINT)]
        shapes += [text(x, height - BOTTOM + 16, f"{mark:,.10g}", anchor="middle")]
    for place, bar in enumerate(bars):
        top = TOP + STEP * place
        length = bar.value / largest * (WIDTH - LEFT - RIGHT)
        shapes += [
            text(LEFT - 8, top + BAR - 6, bar.name, anchor="end", weight="bold" if bar.ours else "normal"),
            rectangle(LEFT, top, max(length, 2), BAR, OURS if bar.ours else OTHER),
            text(LEFT + length + 6, top + BAR - 6, f"{number(bar.value)} {bar.note}".rstrip(), weight="bold"),
        ]
    return picture(WIDTH, height, title, _description(bars, caption), [*shapes, text(LEFT, height - 6, caption)])


def _description(bars: Sequence[Bar], caption: str) -> str:
    values = "; ".join(f"{bar.name}: {number(bar.value)} {bar.note}".rstrip() for bar in bars)
    return f"{values} ({caption})."


def marks(largest: float) -> list[float]:
    """Return round values up to the largest, no more than a few."""
    power = 10.0 ** floor(log10(largest / MOST_MARKS))
    step = next(power * step for step in STEPS if largest / (power * step) <= MOST_MARKS)
    return [count * step for count in range(floor(largest / step) + 1)]


def number(value: float) -> str:
    """Write a value with as many digits as matter."""
    return f"{value:,.1f}" if value < MOST_DIGITS else f"{value:,.0f}"


MOST_DIGITS: Final = 100
"""Larger values have no fraction."""
