"""Draw a driver upgrade as SVG: one lane per node, seconds from left to right. Pure: values in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from devcluster.intervals import Interval
    from devcluster.truth import Lane

INK, FAINT, PAPER, STRIPE = "#22303c", "#c5ced6", "#ffffff", "#f4f6f8"
WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 960, 64, 24
LANE_HEIGHT, BAR_HEIGHT = 22, 15
TITLE_HEIGHT, MARK_HEIGHT, PANEL_GAP = 24, 18, 16
LEGEND_ROW, LEGEND_HEIGHT, AXIS_HEIGHT = 24, 58, 46

TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
"""Steps of the time axis that people read easily, in seconds."""
MOST_TICKS = 14

RELOAD, STALE, RESTART, EARLY = "#6589af", "#6f0f22", "#a8e6cf", "#ffb000"
"""Neighbours have a contrast of 3 to 1 at least; the light ones have an outline, and an early restart a cross."""
CORDONED, CORDON = "#efeaf7", "#8a76b0"
"""The background of cordoned time, and its edge."""
CROSS = "\N{MULTIPLICATION SIGN}"

LEGEND = (
    (CORDONED, "node cordoned: takes no new pods"),
    (RELOAD, "driver reloads"),
    (STALE, "plugin stale: GPU pods get old files"),
    (RESTART, "plugin restarts"),
    (EARLY, "restarted too early: still the old driver"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One approach on all nodes."""

    title: str
    lanes: list[Lane]
    ended: float
    """When its command ended."""
    end: str
    """How."""


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
    """Draw all panels below one another, on one axis from `start` to `end` with a caption."""
    scale = _Scale(start, end)
    top = LEGEND_HEIGHT
    body: list[str] = []
    for panel in panels:
        body += _panel(panel, scale, top)
        top += _height(panel) + PANEL_GAP
    height = top - PANEL_GAP + AXIS_HEIGHT
    legend = "; ".join(words for _, words in LEGEND)
    description = f"One lane per node, {caption}. Bars: {legend}. Panels: {'; '.join(panel.title for panel in panels)}."
    return picture(WIDTH, height, title, description, [*_legend(), *body, *_axis(scale, height - AXIS_HEIGHT, caption)])


def _height(panel: Panel) -> int:
    return TITLE_HEIGHT + MARK_HEIGHT + LANE_HEIGHT * len(panel.lanes)


def _panel(panel: Panel, scale: _Scale, top: int) -> Iterator[str]:
    """Draw a title, the lanes, and the end of the command."""
    yield text(8, top + 16, panel.title, weight="bold")
    lanes_top = top + TITLE_HEIGHT + MARK_HEIGHT
    bottom = lanes_top + LANE_HEIGHT * len(panel.lanes)
    for number, lane in enumerate(panel.lanes):
        yield from _lane(lane, scale, lanes_top + number * LANE_HEIGHT, striped=number % 2 == 0)
    x = scale.x(panel.ended)
    dash = f'stroke="{INK}" stroke-dasharray="3 2"'
    yield f'<line x1="{x:.1f}" y1="{lanes_top - 4}" x2="{x:.1f}" y2="{bottom}" {dash}/>'
    near_the_edge = x > WIDTH * 0.7
    yield text(x, lanes_top - 7, panel.end, anchor="end" if near_the_edge else "start")


def _lane(lane: Lane, scale: _Scale, top: float, *, striped: bool) -> Iterator[str]:
    """Draw one node. Cordoned time is behind all; restarts come last, because they lie within stale time."""
    yield rectangle(0, top, WIDTH, LANE_HEIGHT, STRIPE if striped else PAPER)
    yield text(MARGIN_LEFT - 8, top + LANE_HEIGHT - 6, lane.node, anchor="end")
    bars = (
        (CORDONED, lane.cordoned),
        (RELOAD, lane.reloads),
        (STALE, lane.stale),
        (RESTART, lane.restarts),
        (EARLY, lane.early),
    )
    for colour, intervals in bars:
        for interval in intervals:
            yield from _bar(interval, scale, top, colour)


def _bar(interval: Interval, scale: _Scale, top: float, colour: str) -> Iterator[str]:
    """Draw an interval; one that still lasts goes to the right edge, one outside of the picture is left out."""
    begin, end = interval[0], scale.end if interval[1] is None else interval[1]
    if end > scale.start and begin < scale.end:
        x = scale.x(begin)
        yield from _block(x, top + (LANE_HEIGHT - BAR_HEIGHT) / 2, max(scale.x(end) - x, 2), colour)


def _block(x: float, y: float, width: float, colour: str) -> Iterator[str]:
    """Draw what the legend explains; a light colour has an outline. Cordoned time is higher than the others."""
    if colour == CORDONED:
        yield rectangle(x, y - 3, width, BAR_HEIGHT + 6, CORDON)
        yield rectangle(x + 1, y - 2, max(width - 2, 0), BAR_HEIGHT + 4, CORDONED)
        return
    if colour in {RESTART, EARLY}:
        yield rectangle(x - 1, y - 1, width + 2, BAR_HEIGHT + 2, INK)
    yield rectangle(x, y, width, BAR_HEIGHT, colour)
    if colour == EARLY:
        yield text(x + width / 2, y + BAR_HEIGHT - 2, CROSS, anchor="middle", weight="bold")


def _legend() -> Iterator[str]:
    x, y = 8, 10
    for colour, words in LEGEND:
        width = 40 + 15 * len(words) // 2
        if x + width > WIDTH:
            x, y = 8, y + LEGEND_ROW
        yield from _block(x, y, 18, colour)
        yield text(x + 24, y + 12, words)
        x += width


def _axis(scale: _Scale, top: float, caption: str) -> Iterator[str]:
    """Draw seconds since the start."""
    yield line(MARGIN_LEFT, top, WIDTH - MARGIN_RIGHT, top, FAINT)
    for second in range(0, int(scale.end - scale.start) + 1, scale.step):
        x = scale.x(scale.start + second)
        yield line(x, top, x, top + 5)
        yield text(x, top + 19, str(second), anchor="middle")
    yield text(MARGIN_LEFT, top + 36, caption)


def picture(width: int, height: int, title: str, description: str, shapes: Iterable[str]) -> str:
    """Put shapes on a sheet of paper. A screen reader reads the title and the description."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="14" fill="{INK}">\n'
        f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>"
    )
    return "\n".join([head, rectangle(0, 0, width, height, PAPER), *shapes, "</svg>\n"])


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Draw a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def line(x: float, y: float, to_x: float, to_y: float, colour: str = INK) -> str:
    """Draw a line."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> str:
    """Write words."""
    style = f'text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
