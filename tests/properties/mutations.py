"""Good objects with one thing wrong: at a path that they have, or at one that their schema has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from tests.fixtures.damage import json as any_json
from tests.properties.schemas import ANY, END, Path_, Place, places

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]

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
    """Change one place of an object: half of the time one that it has, which is what decisions rest on."""
    by_schema = places(str(one.get("kind", "")))
    if draw(st.booleans()) or not by_schema:
        path = draw(st.sampled_from(spots(one)))
        place = _place(path, value_at(one, path))
    else:
        place = draw(st.sampled_from(by_schema))
        path = _in_an_object(draw, one, place.path)
    what = draw(st.sampled_from(("put", "put", "put", "drop", "twice", "half")))
    if what == "put":
        own = TIMES if place.format == "date-time" else BY_TYPE.get(place.type, OTHERS)
        value = draw(st.sampled_from((*own, *OTHERS)) | any_json)
    else:
        value = ... if what == "drop" else _bent(value_at(one, path), what)
    changed: Object = put(one, path, value)
    return changed


def _place(path: Path_, value: object) -> Place:
    is_time = isinstance(value, str) and value[4:5] == "-" and value.endswith("Z")
    return Place(path, TYPES.get(type(value), "any"), format="date-time" if is_time else "")


def _in_an_object(draw: st.DrawFn, one: Object, path: Path_) -> Path_:
    """Choose an element of each list, and a key of each map, on a path of a schema."""
    chosen: list[str] = []
    for key in path:
        here = value_at(one, tuple(chosen))
        if key == END and isinstance(here, list) and here:
            chosen.append(str(draw(st.integers(0, len(here) - 1))))
        else:
            chosen.append(
                draw(st.sampled_from(sorted(here))) if key == ANY and isinstance(here, dict) and here else key
            )
    return tuple(chosen)


def _bent(value: Any, what: str) -> Any:  # noqa: ANN401 - JSON
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
    """Return an object with a value at a path, and what is missing on the way; an ellipsis removes what is there."""
    if not path:
        return value
    key, *rest = path
    inside: Any = list(one) if isinstance(one, list) else dict(one) if isinstance(one, dict) else {}
    at: Any = key
    if isinstance(inside, list) or key == END:
        inside = inside or [{}]
        at = int(key) if key.isdigit() else 0
    elif key == ANY:
        at = next(iter(inside), "x")
    if value is ... and not rest:
        if isinstance(inside, list) or at in inside:
            del inside[at]
        return inside
    before = inside[at] if isinstance(inside, list) else inside.get(at)
    inside[at] = put(before, tuple(rest), value)
    return inside
