"""Values of charts: merge them as Helm does, look them up, and convert durations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bundler.documents import InputError, T, at, convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bundler.documents import Mapping, Value

_DURATION: Final = re.compile(r"(?=[0-9])(?:([0-9]{1,7})h)?(?:([0-9]{1,7})m)?(?:([0-9]{1,7})s)?")


def merged(*layers: Mapping) -> Mapping:
    """Lay mappings over one another, the last on top. Mappings are merged, all else is replaced; null stays null."""
    result: Mapping = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(below, dict) and isinstance(value, dict):
                result[key] = merged(below, value)
            else:
                result[key] = value
    return result


def has_null(value: Value) -> bool:
    """Return whether a value contains a null, with which values clear a default of the chart."""
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    return any(map(has_null, value)) if isinstance(value, list) else value is None


def look_up(values: Mapping, path: Sequence[str], into: type[T], name: str) -> T | None:
    """Return the value at a place; None if it is missing. Refuse a value of another type."""
    here: object = values
    place = ""
    for key in path:
        here = None if here is None else convert(here, dict, name, place).get(key)
        place = at(place, key)
    return None if here is None else convert(here, into, name, place)


def seconds(text: str) -> int:
    """Convert a duration such as 25m, 90s or 1h30m, which the chart accepts, too."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"timeout: {text[:40]!r} is not a duration: write it with units, such as 25m, 90s or 1h30m")
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest


def duration(total: int) -> str:
    """Write seconds as Helm and Flux read them, in the largest unit without a rest."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if total % size == 0)
    return f"{total // size}{unit}"
