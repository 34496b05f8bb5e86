"""Intervals of time: when something held, what of that remains without something else, and how long it was.

An interval is half-open: its end does not belong to it. Intervals of one list are in order and do not overlap. Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Interval = tuple[float, float | None]
"""From when to when; None while it lasts."""


def when(observations: Iterable[tuple[float, bool]]) -> list[Interval]:
    """Return when a condition held, from each moment at which it was observed and what it was then."""
    found: list[Interval] = []
    since: float | None = None
    for moment, holds in observations:
        if holds and since is None:
            since = moment
        elif not holds and since is not None:
            found += [(since, moment)] if moment > since else []
            since = None
    return found if since is None else [*found, (since, None)]


def without(intervals: Iterable[Interval], excluded: Iterable[Interval]) -> list[Interval]:
    """Return what remains of intervals outside of others, which may overlap each other."""
    left = list(intervals)
    for hole in excluded:
        left = [part for interval in left for part in _outside(interval, hole)]
    return left


def seconds(intervals: Iterable[Interval], since: float, until: float) -> float:
    """Return how long the intervals are together, of what lies between two moments."""
    return sum(max(0.0, min(until, _end(interval)) - max(since, interval[0])) for interval in intervals)


def _outside(interval: Interval, hole: Interval) -> list[Interval]:
    """Return the parts of an interval before and after a hole; parts without a length are none."""
    start, end = interval
    if hole[0] >= _end(interval) or _end(hole) <= start:
        return [interval]
    before: list[Interval] = [(start, hole[0])] if hole[0] > start else []
    after: list[Interval] = [(hole[1], end)] if hole[1] is not None and hole[1] < _end(interval) else []
    return before + after


def _end(interval: Interval) -> float:
    return math.inf if interval[1] is None else interval[1]
