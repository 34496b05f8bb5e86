"""Draw a driver upgrade as SVG: one lane per node, seconds from left to right. Pure: values in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.truth import Lane

INK, FAINT, PAPER, STRIPE = "#22303c", "#c5ced6", "#ffffff", "#f4f6f8"
WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 960, 64, 24
LANE_HEIGHT, BAR_HEIGHT = 22, 15
TITLE_HEIGHT, MARK_HEIGHT, PANEL_GAP = 24, 18, 16
LEGEND_ROW, LEGEND_HEIGHT, AXIS_HEIGHT = 24, 58, 46

TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
"""Steps of the time axis that people read easily, in seconds."""
MOST_TICKS = 14


class Bar(NamedTuple):
    """How a kind of bar looks, and what it means."""

    colour: str
    words: str
    outline: str = "none"
    height: int = BAR_HEIGHT
    sign: str = ""


CORDONED: Final = "#efeaf7"
BARS: Final = (
    Bar(CORDONED, "node cordoned: takes no new pods", "#8a76b0", BAR_HEIGHT + 5),
    Bar("#6589af", "driver reloads"),
    Bar("#6f0f22", "plugin stale: GPU pods get old files"),
    Bar("#a8e6cf", "plugin restarts", INK),
    Bar("#ffb000", "restarted too early: still the old driver", INK, sign="\N{MULTIPLICATION SIGN}"),
)
"""From back to front: restarts lie within stale time, and all in cordoned time. Neighbours have a contrast of 3 to 1 at
least; a light colour has an outline."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One approach on all nodes."""

    title: str
    lanes: list[Lane]
    ended: float
    """When its command ended."""
    end: str
    """How."""

    @property
    def height(self) -> int:
        """Its height in pixels."""
        return TITLE_HEIGHT + MARK_HEIGHT + LANE_HEIGHT * len(self.lanes)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From unix seconds to pixels."""

    start: float
    end: float

    @property
    def step(self) -> int:
        """Seconds between two ticks."""
        return next((step for step in TICKS if (self.end - self.start) / step <= MOST_TICKS), TICKS[-1])

    def x(self, t: float) -> float:
        """Place a moment; what lies outside is cut off."""
        share = (min(max(t, self.start), self.end) - self.start) / (self.end - self.start)
        return MARGIN_LEFT + share * (WIDTH - MARGIN_LEFT - MARGIN_RIGHT)


def draw(panels: list[Panel], start: float, end: float, title: str, caption: str) -> str:
    """Draw all panels below one another, on one axis from `start` to `end` with a caption.

    A screen reader reads the title and a description.
    """
    scale = _Scale(start, end)
    top = LEGEND_HEIGHT
    body: list[str] = []
    for panel in panels:
        body += _panel(panel, scale, top)
        top += panel.height + PANEL_GAP
    height = top - PANEL_GAP + AXIS_HEIGHT
    legend = "; ".join(bar.words for bar in BARS)
    description = f"One lane per node, {caption}. Bars: {legend}. Panels: {'; '.join(panel.title for panel in panels)}."
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="14" fill="{INK}">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
    )
    paper = _rectangle(0, 0, WIDTH, height, PAPER)
    return "\n".join([head, paper, *_legend(), *body, *_axis(scale, height - AXIS_HEIGHT, caption), "</svg>\n"])


def _panel(panel: Panel, scale: _Scale, top: int) -> Iterator[str]:
    """Draw a title, the lanes, and the end of the command."""
    yield _text(8, top + 16, panel.title, weight="bold")
    lanes_top = top + TITLE_HEIGHT + MARK_HEIGHT
    for number, lane in enumerate(panel.lanes):
        yield from _lane(lane, scale, lanes_top + number * LANE_HEIGHT, STRIPE if number % 2 == 0 else PAPER)
    x = scale.x(panel.ended)
    yield _line(x, lanes_top - 4, x, top + panel.height, INK, dashes="3 2")
    near_the_edge = x > WIDTH * 0.7
    yield _text(x, lanes_top - 7, panel.end, anchor="end" if near_the_edge else "start")


def _lane(lane: Lane, scale: _Scale, top: float, background: str) -> Iterator[str]:
    """Draw one node. An interval that still lasts goes to the right edge, one outside of the picture is left out."""
    yield _rectangle(0, top, WIDTH, LANE_HEIGHT, background)
    yield _text(MARGIN_LEFT - 8, top + LANE_HEIGHT - 6, lane.node, anchor="end")
    kinds = (lane.cordoned, lane.reloads, lane.stale, lane.restarts, lane.early)
    for bar, intervals in zip(BARS, kinds, strict=True):
        for begin, until in intervals:
            end = scale.end if until is None else until
            if end > scale.start and begin < scale.end:
                x = scale.x(begin)
                yield from _bar(bar, x, top + LANE_HEIGHT / 2, max(scale.x(end) - x, 2))


def _bar(bar: Bar, x: float, middle: float, width: float) -> Iterator[str]:
    """Draw what the legend explains."""
    yield _rectangle(x, middle - bar.height / 2, width, bar.height, bar.colour, bar.outline)
    if bar.sign:
        yield _text(x + width / 2, middle + BAR_HEIGHT / 2 - 2, bar.sign, anchor="middle", weight="bold")


def _legend() -> Iterator[str]:
    x, middle = 8, 18
    for bar in BARS:
        width = 40 + 15 * len(bar.words) // 2
        if x + width > WIDTH:
            x, middle = 8, middle + LEGEND_ROW
        yield from _bar(bar, x, middle, 18)
        yield _text(x + 24, middle + 5, bar.words)
        x += width


def _axis(scale: _Scale, top: float, caption: str) -> Iterator[str]:
    """Draw seconds since the start."""
    yield _line(MARGIN_LEFT, top, WIDTH - MARGIN_RIGHT, top, FAINT)
    for second in range(0, int(scale.end - scale.start) + 1, scale.step):
        x = scale.x(scale.start + second)
        yield _line(x, top, x, top + 5, INK)
        yield _text(x, top + 19, str(second), anchor="middle")
    yield _text(MARGIN_LEFT, top + 36, caption)


def _rectangle(x: float, y: float, width: float, height: float, colour: str, outline: str = "none") -> str:  # noqa: PLR0913, PLR0917 - what a rectangle has
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{colour}" stroke="{outline}"/>'


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, dashes: str = "none") -> str:  # noqa: PLR0913, PLR0917 - what a line has
    place = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-dasharray="{dashes}"/>'


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
