"""Good objects with one thing wrong: at a path that they have, or at one that their schema has."""

from __future__ import annotations

from copy import deepcopy
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
NUMBERS: Final = (
    -1, -(2**31), 2**31, 2**63 - 1, 2**63, 10**40, 0.5, -0.0, "1", True,
)  # fmt: skip
OTHERS: Final[tuple[Any, ...]] = (None, [], {}, [None], [[]], [{}], [1], {"": None}, "x", 0, 1, True, False)
BY_TYPE: Final[dict[str, tuple[Any, ...]]] = {
    "string": TEXTS,
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": ("true", "false", 1, 0, None, "yes"),
    "array": ({}, "x", [None], [[]], [{}], [1], None, 5),
    "object": ([], "x", None, 5, {"x": []}, [{}]),
}


def hostile(place: Place) -> st.SearchStrategy[Any]:
    """Give values that may not stand at a place, or only just may."""
    own = TIMES if place.format == "date-time" else BY_TYPE.get(place.type, OTHERS)
    return st.sampled_from((*own, *OTHERS)) | any_json


@st.composite
def mutated(draw: st.DrawFn, one: Object) -> Object:
    """Change one place of an object."""
    found = deepcopy(one)
    own = list(_own(found, ()))
    by_schema = places(str(found.get("kind", "")))
    # Half of the changes at what is there, which is what decisions rest on; half at what might be.
    at_what_is_there = draw(st.booleans())
    place = draw(st.sampled_from(own if at_what_is_there or not by_schema else by_schema))
    what = draw(st.sampled_from(("put", "put", "put", "drop", "twice", "half")))
    value = draw(hostile(place)) if what == "put" else None
    _change(draw, found, place.path, what, value)
    return found


def spots(one: Object) -> list[Path_]:
    """List the paths that an object has, each element of a list by its number."""
    return list(_spots(one, ()))


def _spots(value: Any, path: Path_) -> Iterator[Path_]:  # noqa: ANN401 - JSON is any of it
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from _spots(each, (*path, str(key)))


def put(one: Object, path: Path_, value: Any) -> Object:  # noqa: ANN401 - JSON
    """Give the object with a value put somewhere, and what is missing on the way; an ellipsis takes away."""
    changed: Object = _with(one, path, value)
    return changed


def _with(here: Any, path: Path_, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Copy what is on the way, and share the rest."""
    if not path:
        return value
    key, *rest = path
    inside: Any = list(here) if isinstance(here, list) else dict(here) if isinstance(here, dict) else {}
    at: Any = key
    if isinstance(inside, list) or key == END:
        inside = inside or [{}]
        at = int(key) if key.isdigit() else 0
    elif key == ANY:
        at = next(iter(inside), "x")
    if value is ... and not rest:
        del inside[at]
        return inside
    before = inside[at] if isinstance(inside, list) else inside.get(at)
    inside[at] = _with(before, tuple(rest), value)
    return inside


def _own(value: Any, path: Path_) -> Iterator[Place]:  # noqa: ANN401 - JSON is any of it
    """List the places that an object has, with what their values look like."""
    if path:
        yield Place(path, _type(value), format="date-time" if _is_time(value) else "")
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _own(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from _own(each, (*path, END))


def _type(value: object) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return kinds.get(type(value), "any")


def _is_time(value: object) -> bool:
    return isinstance(value, str) and value[4:5] == "-" and value.endswith("Z")


def _change(draw: st.DrawFn, here: Any, path: Path_, what: str, value: object) -> None:  # noqa: ANN401 - JSON
    """Walk to a place, making what is missing on the way, and change it."""
    key, *rest = path
    if isinstance(here, list):
        here += [] if here else [{}]
        at: Any = draw(st.integers(0, len(here) - 1))
    elif isinstance(here, dict):
        at = draw(st.sampled_from(sorted(here) or ["x"])) if key == ANY else key
        here.setdefault(at, [] if rest and rest[0] == END else {})
    else:
        return
    if rest:
        _change(draw, here[at], tuple(rest), what, value)
    elif what == "drop":
        here.pop(at)
    else:
        here[at] = value if what == "put" else _bent(here[at], what)


def _bent(value: Any, what: str) -> Any:  # noqa: ANN401 - JSON
    """Say it twice, or only half of it."""
    if isinstance(value, list):
        return value * 2 if what == "twice" else value[: len(value) // 2]
    if isinstance(value, str):
        return value * 2 if what == "twice" else value[: len(value) // 2]
    if isinstance(value, dict):
        return [value, value] if what == "twice" else dict(list(value.items())[: len(value) // 2])
    return [value, value] if what == "twice" else None
