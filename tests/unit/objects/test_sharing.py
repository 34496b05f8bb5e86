"""Values that many objects share."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hook.objects import sharing
from hook.objects.decoding import MalformedObjectError, Time, read
from hook.objects.sharing import interned, labels_under, moment


@pytest.mark.parametrize("clock", ["10:00:00Z", "10:00:00.999999Z", "10:00:00.123456789Z", "12:00:00+02:00"])
def test_times_are_whole_seconds_in_utc(clock: str) -> None:
    """A fraction would prove an order that is not known. Equal times are one value."""
    first, again = (moment(read(Time, f"2026-01-01T{clock}")) for _ in range(2))
    assert first == datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)
    assert first is again


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_utc_cannot_show_is_malformed(time: str) -> None:
    """It is well-formed, and no clock shows it in UTC."""
    with pytest.raises(MalformedObjectError, match="is out of range"):
        moment(read(Time, time))


def test_equal_values_are_in_memory_once() -> None:
    """Never one type of value for another, and never without a bound."""
    assert type(interned(1)) is int
    assert type(interned(True)) is bool  # equal to 1, and no number
    for number in range(2 * sharing.MOST_INTERNED):
        assert interned(number) == number
    assert len(sharing._INTERNED) <= sharing.MOST_INTERNED


def test_labels_under_prefixes_are_kept_and_shared() -> None:
    """In any order."""
    labels = labels_under({"a.x": "1", "b.x": "2", "c.x": "3"}, ("a.", "c."))
    assert {"a.x": "1", "c.x": "3"} == labels
    assert labels is labels_under({"c.x": "3", "a.x": "1"})
