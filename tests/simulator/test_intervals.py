"""Arithmetic with intervals of time."""

from __future__ import annotations

import pytest

from devcluster.intervals import Interval, seconds, when, without


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        pytest.param([], [], id="never observed"),
        pytest.param([(1, False), (2, False)], [], id="never held"),
        pytest.param([(1, True), (2, True), (5, False), (6, False)], [(1, 5)], id="observed again meanwhile"),
        pytest.param([(1, True), (5, False), (7, True)], [(1, 5), (7, None)], id="holds again, and does not end"),
        pytest.param([(1, True), (1, False)], [], id="ends at once"),
        pytest.param([(1, True), (5, False), (5, True), (9, False)], [(1, 5), (5, 9)], id="begins where it ended"),
    ],
)
def test_when_a_condition_held(observations: list[tuple[float, bool]], expected: list[Interval]) -> None:
    """It begins with the first observation that has it, and ends with the first one after that which has it not."""
    assert when(observations) == expected


@pytest.mark.parametrize(
    ("excluded", "expected"),
    [
        pytest.param([], [(10, 20), (30, None)], id="nothing"),
        pytest.param([(0, 10), (20, 30)], [(10, 20), (30, None)], id="what ends where it begins, begins where it ends"),
        pytest.param([(5, 12)], [(12, 20), (30, None)], id="its beginning"),
        pytest.param([(18, 40)], [(10, 18), (40, None)], id="the end of one and the beginning of the next"),
        pytest.param([(12, 15)], [(10, 12), (15, 20), (30, None)], id="its middle"),
        pytest.param([(10, 20)], [(30, None)], id="exactly one"),
        pytest.param([(10, None)], [], id="from its beginning on, without an end"),
        pytest.param([(40, None)], [(10, 20), (30, 40)], id="what never ends ends"),
        pytest.param([(11, 14), (13, 16)], [(10, 11), (16, 20), (30, None)], id="two that overlap"),
    ],
)
def test_what_remains_without_others(excluded: list[Interval], expected: list[Interval]) -> None:
    """The parts that no other interval covers remain; none of them is empty."""
    assert without([(10, 20), (30, None)], excluded) == expected


@pytest.mark.parametrize(
    ("since", "until", "expected"), [(0, 100, 80), (15, 32, 7), (20, 30, 0), (50, 40, 0), (0, 5, 0)]
)
def test_how_long_intervals_are(since: float, until: float, expected: float) -> None:
    """Only what lies between two moments counts; an interval that lasts counts until the second one."""
    assert seconds([(10, 20), (30, None)], since, until) == expected
