"""Reading fields of plain JSON: the right type, the default where absent, or a refusal that names the path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from hook.core import fields
from hook.core.fields import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY: dict[str, Any] = {}
UTC_TIME = datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)


def flag_by_default_true(obj: fields.Json, *path: str) -> bool:
    """Read a flag that is true where absent."""
    return fields.flag(obj, *path, default=True)


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        pytest.param(fields.mapping, {"a": 1}, {"a": 1}, id="mapping"),
        pytest.param(fields.items, [{"a": 1}], [{"a": 1}], id="items"),
        pytest.param(fields.text, "x", "x", id="text"),
        pytest.param(fields.required, "x", "x", id="required"),
        pytest.param(fields.number, 3, 3, id="number"),
        pytest.param(flag_by_default_true, False, False, id="flag"),
        pytest.param(fields.when, "2026-01-01T10:00:00Z", UTC_TIME, id="when"),
        pytest.param(fields.when, "2026-01-01T10:00:00.999999Z", UTC_TIME, id="when-micro-time"),
        pytest.param(fields.when, "2026-01-01T10:00:00.123456789Z", UTC_TIME, id="when-nano-time"),
        pytest.param(fields.number, fields.LARGEST_NUMBER, fields.LARGEST_NUMBER, id="number-largest"),
        pytest.param(fields.counted, 0, 0, id="counted-zero"),
        pytest.param(fields.text, "é" * fields.LONGEST_TEXT, "é" * fields.LONGEST_TEXT, id="text-longest"),
        pytest.param(fields.prose, "x" * 2**20, "x" * 2**20, id="prose-of-any-length"),
        pytest.param(fields.when, "2026-01-01T12:00:00+02:00",
                     UTC_TIME.astimezone(timezone(timedelta(hours=2))), id="when-other-zone"),
        pytest.param(fields.when, "", None, id="when-empty"),
    ],
)  # fmt: skip
def test_a_field_of_the_right_type_is_given(read: Callable[..., object], value: object, expected: object) -> None:
    """Whatever the kind promises is read as it is."""
    assert expected == read({"here": {"there": value}}, "here", "there")


@pytest.mark.parametrize("obj", [pytest.param({}, id="absent"), pytest.param({"here": None}, id="null"),
                                 pytest.param({"here": {"there": None}}, id="null-leaf")])  # fmt: skip
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        pytest.param(fields.mapping, EMPTY, id="mapping"),
        pytest.param(fields.items, (), id="items"),
        pytest.param(fields.text, "", id="text"),
        pytest.param(fields.number, 0, id="number"),
        pytest.param(flag_by_default_true, True, id="flag"),
        pytest.param(fields.when, None, id="when"),
    ],
)
def test_an_absent_field_has_a_default(read: Callable[..., object], obj: fields.Json, expected: object) -> None:
    """Absent and null are the same, on the way to the field as well."""
    assert expected == read(obj, "here", "there")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        pytest.param(fields.mapping, "x", id="mapping-text"),
        pytest.param(fields.mapping, [], id="mapping-list"),
        pytest.param(fields.items, {"a": 1}, id="items-object"),
        pytest.param(fields.items, [{"a": 1}, "x"], id="items-of-text"),
        pytest.param(fields.items, "x", id="items-text"),
        pytest.param(fields.text, 3, id="text-number"),
        pytest.param(fields.text, False, id="text-boolean"),
        pytest.param(fields.required, None, id="required-absent"),
        pytest.param(fields.required, "", id="required-empty"),
        pytest.param(fields.required, ["x"], id="required-list"),
        pytest.param(fields.text, "x" * (fields.LONGEST_TEXT + 1), id="text-too-long"),
        pytest.param(fields.text, "half \ud800", id="text-half-a-character"),
        pytest.param(fields.number, -1, id="number-negative"),
        pytest.param(fields.number, 2**63, id="number-too-large"),
        pytest.param(fields.counted, None, id="counted-absent"),
        pytest.param(fields.when, "0001-01-01T00:00:00+23:59", id="when-before-all-times"),
        pytest.param(fields.when, "9999-12-31T23:59:59-23:59", id="when-after-all-times"),
        pytest.param(fields.when, "2016-12-31T23:59:60Z", id="when-leap-second"),
        pytest.param(fields.number, "3", id="number-text"),
        pytest.param(fields.number, 3.5, id="number-fraction"),
        pytest.param(fields.number, True, id="number-boolean"),
        pytest.param(flag_by_default_true, "false", id="flag-text"),
        pytest.param(flag_by_default_true, 0, id="flag-number"),
        pytest.param(fields.when, 1767261600, id="when-number"),
        pytest.param(fields.when, "yesterday", id="when-no-time"),
        pytest.param(fields.when, "2026-01-01T10:00:00", id="when-without-zone"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_by_its_path(read: Callable[..., object], value: object) -> None:
    """A wrong type is never taken for a default; the message says where it is."""
    with pytest.raises(MalformedObjectError, match=r"^here\.there: "):
        read({"here": {"there": value}}, "here", "there")


@pytest.mark.parametrize("read", [fields.mapping, fields.items, fields.text, fields.number, fields.when])
@pytest.mark.parametrize("obj", [pytest.param({"here": "x"}, id="text"), pytest.param({"here": [1]}, id="list"),
                                 pytest.param(7, id="no-object-at-all")])  # fmt: skip
def test_a_path_through_something_else_is_refused(read: Callable[..., object], obj: Any) -> None:  # noqa: ANN401
    """What cannot hold the field is malformed, not empty."""
    with pytest.raises(MalformedObjectError, match="not an object"):
        read(obj, "here", "there")


def test_equal_values_stand_in_memory_once() -> None:
    """However many objects say them; never one kind of value for another, and never without a bound."""
    first, again = (fields.when({"at": "2026-01-01T10:00:07Z"}, "at") for _ in range(2))
    assert first is again
    assert type(fields.shared(1)) is int
    assert type(fields.shared(True)) is bool  # equal to 1, and no number
    for number in range(2 * fields.MOST_SHARED):
        assert fields.shared(number) == number
    assert len(fields._SHARED) <= fields.MOST_SHARED
