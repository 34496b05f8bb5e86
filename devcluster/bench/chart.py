"""Draw what each way loses on each fleet: a bar each, on one scale of powers of ten. Pure: values in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

from devcluster.svg import FAINT, line, picture, rectangle, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTH, LEFT, RIGHT = 960, 250, 90
BAR, STEP, TITLE, GAP, TOP, AXIS = 12, 16, 22, 12, 10, 46
COLOURS: Final = ("#2a9d8f", "#d1495b", "#edae49", "#8da9c4", "#9aa5b1")
"""Ours, the cure's green of the other picture, then the others; distinct in grey, too."""


@dataclass(frozen=True, slots=True)
class Group:
    """One fleet's bars, in the order of the ways."""

    title: str
    values: Sequence[float]


def draw(ways: Sequence[str], groups: Sequence[Group], caption: str) -> str:
    """Draw all groups below one another. A value of nothing has no bar on such a scale, and its word all the same."""
    shown = [value for group in groups for value in group.values if value > 0]
    first, last = floor(log10(min(shown))), ceil(log10(max(shown)))
    height = TOP + sum(_height(group) for group in groups) + AXIS

    def place(value: float) -> float:
        share = (log10(value) - first) / max(last - first, 1)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    shapes: list[str] = []
    for power in range(first, last + 1):
        x = place(10**power)
        shapes.append(line(x, TOP, x, height - AXIS, FAINT))
        shapes.append(text(x, height - AXIS + 18, f"{10**power:g}", anchor="middle"))
    top = TOP
    for group in groups:
        shapes.append(text(8, top + 15, group.title, weight="bold"))
        for number, (way, value) in enumerate(zip(ways, group.values, strict=True)):
            end = place(value) if value > 0 else LEFT
            shapes += _bar(way, value, end, top + TITLE + number * STEP, COLOURS[number % len(COLOURS)])
        top += _height(group)
    return picture(WIDTH, height, [*shapes, text(LEFT, height - 8, caption)])


def _height(group: Group) -> int:
    return TITLE + STEP * len(group.values) + GAP


def _bar(way: str, value: float, end: float, top: float, colour: str) -> Iterator[str]:
    """Draw one bar between its name and its value."""
    yield text(LEFT - 8, top + BAR - 2, way, anchor="end")
    yield rectangle(LEFT, top, max(end - LEFT, 1), BAR, colour)
    yield text(max(end, LEFT) + 6, top + BAR - 2, f"{value:,.1f}" if value < 100 else f"{value:,.0f}")  # noqa: PLR2004
