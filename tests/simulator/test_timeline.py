"""The picture of a migration: well-formed, and what matters is where it should be."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from devcluster.timeline import RELOAD, RESTART, STALE, Mark, Panel, draw
from devcluster.truth import Lane

SERVED = Lane("gpu-0", reloads=[(10, 20)], stale=[(18, 22)], restarts=[(20, 23)])
FORGOTTEN = Lane("gpu-1", reloads=[(10, 20)], stale=[(18, None)], restarts=[])


def bars(svg: str, colour: str) -> list[tuple[float, float]]:
    """Return the left edges and widths of a colour's bars, the legend's aside."""
    found = [each for each in ET.fromstring(svg).iter() if each.get("fill") == colour]  # noqa: S314 - our own text
    return [(float(each.get("x", "")), float(each.get("width", ""))) for each in found[1:]]


def drawn(*lanes: Lane, start: float = 0, end: float = 100) -> str:
    """Draw one panel with a mark."""
    return draw([Panel("a <title>", list(lanes), [Mark(30, "the end")])], start, end, "seconds since then")


def test_each_interval_is_a_bar() -> None:
    """In proportion to time; what is still stale goes to the edge; what ended before is left out; all is named."""
    svg = drawn(SERVED)
    ((_, reload),), ((stale_left, stale),), ((restart_left, _),) = (bars(svg, one) for one in (RELOAD, STALE, RESTART))
    assert abs(reload / stale - 10 / 4) < 0.1
    assert restart_left > stale_left
    ((left, width),), ((other_left, other_width),) = (bars(drawn(FORGOTTEN, end=end), STALE) for end in (100, 200))
    assert abs((left + width) - (other_left + other_width)) < 0.2
    assert bars(drawn(SERVED, start=50), RELOAD) == []
    texts = [each.text for each in ET.fromstring(drawn(SERVED, FORGOTTEN)).iter() if each.text]  # noqa: S314
    assert {"gpu-0", "gpu-1", "a <title>", "the end", "100", "driver reloads", "seconds since then"} <= set(texts)
