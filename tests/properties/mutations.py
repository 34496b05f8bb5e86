"""Good objects with one thing wrong, at any path that they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

Object = dict[str, Any]
Path_ = tuple[str, ...]

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEBIBYTE: Final = "x" * (1 << 20)
ESCAPES: Final = "\x1b[2J\x1b]0;owned\x07\r\nlevel=INFO done\u202e\u2066\u2028\x85\x00"
"""Clears a screen, names a window, begins a line of its own, turns the direction of writing."""
TEXTS: Final = (
    "", " ", ESCAPES, MEBIBYTE, MEBIBYTE + ESCAPES, "NaN", "null", "None", "True", "False", "TRUE", "yes", "Unknown?",
    "0", "-1", "1e999", "\U000e0001", "ⅫⅣ", "../../etc", "a" * 253, "a" * 1024, "{{.}}", "%s%n", "*",
)  # fmt: skip
TIMES: Final = (
    "2026-01-01T10:00:00.999999999Z", "2026-01-01T10:01:10.5Z", "2026-01-01T12:01:10+02:00",
    "2026-01-01T10:01:10-23:59", "1970-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59", "2099-01-01T00:00:00Z", "2016-12-31T23:59:60Z", "2026-01-01T24:00:00Z", "2026-01-01",
    "2026-01-01T10:01:10", "20260101T100110Z", "2026-W01-4T10:01:10Z", "soon", "now", "1767261670", "10:01:10Z",
)  # fmt: skip
"""With fractions and offsets, long gone, to come, of a leap second, of other shapes, and none at all."""
NUMBERS: Final = (-1, -(2**31), 2**31, 2**63 - 1, 2**63, 10**40, 0.5, -0.0, "1", True)
OTHERS: Final[tuple[Any, ...]] = (None, [], {}, [None], [[]], [{}], [1], {"": None}, "x", 0, 1, True, False)
BY_TYPE: Final[dict[str, tuple[Any, ...]]] = {
    "string": TEXTS,
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": ("true", "false", 1, 0, None, "yes"),
    "array": ({}, "x", [None], [[]], [{}], [1], None, 5),
    "object": ([], "x", None, 5, {"x": []}, [{}]),
}
TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


@st.composite
def mutated(draw: st.DrawFn, one: Object) -> Object:
    """Change one place of an object."""
    path = draw(st.sampled_from(spots(one)))
    found = value_at(one, path)
    what = draw(st.sampled_from(("put", "put", "put", "drop", "twice", "half")))
    if what == "put":
        value = draw(st.sampled_from((*hostile(found), *OTHERS)) | any_json)
    else:
        value = ... if what == "drop" else _doubled_or_halved(found, what)
    changed: Object = put(one, path, value)
    return changed


def hostile(value: object) -> tuple[Any, ...]:
    """Return wrong values in the place of one: of other types, and of its own that still cannot be."""
    if isinstance(value, str) and value[4:5] == "-" and value.endswith("Z"):
        return TIMES
    return BY_TYPE.get(TYPES.get(type(value), ""), ())


def _doubled_or_halved(value: Any, what: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value twice, or half of it."""
    if isinstance(value, (list, str)):
        return value * 2 if what == "twice" else value[: len(value) // 2]
    if what == "twice":
        return [value, value]
    return dict(list(value.items())[: len(value) // 2]) if isinstance(value, dict) else None


def spots(one: Object) -> list[Path_]:
    """List the paths that an object has, each element of a list by its number."""
    return list(_spots(one, ()))


def _spots(value: Any, path: Path_) -> Iterator[Path_]:  # noqa: ANN401 - JSON
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from _spots(each, (*path, str(key)))


def value_at(one: Any, path: Path_) -> Any:  # noqa: ANN401 - JSON
    """Return the value at a path; None where there is none."""
    for key in path:
        if isinstance(one, list):
            one = one[int(key)] if key.isdigit() and int(key) < len(one) else None
        else:
            one = one.get(key) if isinstance(one, dict) else None
    return one


def put(one: Any, path: Path_, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return an object with another value at a path that it has; an ellipsis removes what is there."""
    if not path:
        return value
    key, *rest = path
    inside: Any = list(one) if isinstance(one, list) else dict(one)
    at: Any = int(key) if isinstance(one, list) else key
    if value is ... and not rest:
        del inside[at]
    else:
        inside[at] = put(inside[at], tuple(rest), value)
    return inside
