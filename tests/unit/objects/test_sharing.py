"""Values that many objects share."""

from __future__ import annotations

from hook.objects import sharing
from hook.objects.sharing import shared, shared_labels


def test_equal_values_are_in_memory_once() -> None:
    """Never without a bound."""
    assert shared(tuple(range(2))) is shared(tuple(range(2)))
    for number in range(2 * sharing.MOST_SHARED):
        assert shared((number,)) == (number,)
    assert len(sharing._SHARED) <= sharing.MOST_SHARED


def test_equal_labels_are_in_memory_once() -> None:
    """In any order."""
    labels = shared_labels({"a.x": "1", "c.x": "3"})
    assert {"a.x": "1", "c.x": "3"} == labels
    assert labels is shared_labels({"c.x": "3", "a.x": "1"})
