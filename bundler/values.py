"""Values of charts: laid over one another as Helm does it, and looked into."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from bundler.documents import InputError, at, kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bundler.documents import Mapping, Value


def merged(*layers: Mapping) -> Mapping:
    """Lay mappings over one another, the last on top. Mappings merge, all else is replaced; null stays null."""
    result: Mapping = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(value, dict):
                result[key] = merged(below, value) if isinstance(below, dict) else merged(value)
            else:
                result[key] = value
    return result


def has_null(value: Value) -> bool:
    """Whether a null is anywhere in it: the way in which values clear a chart's default."""
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    return any(map(has_null, value)) if isinstance(value, list) else value is None


def nested(path: Sequence[str], value: Value) -> Mapping:
    """Put a value at a place: ``nested(["a", "b"], 1)`` is ``{"a": {"b": 1}}``."""
    for key in reversed(path):
        value = {key: value}
    assert isinstance(value, dict)  # noqa: S101 - a path has at least one key
    return value


def found(values: Mapping, path: Sequence[str], name: str) -> Value:
    """Look up a place; nothing where it, or what is around it, is not there. Something else around it is an error."""
    here: Value = values
    where = ""
    for key in path:
        if here is None:
            return None
        if not isinstance(here, dict):
            raise InputError(f"{name}: {where}: a mapping is expected, not {kind(here)}")
        here = here.get(key)
        where = at(where, key)
    return here


def text_at(values: Mapping, path: Sequence[str], name: str) -> str | None:
    """Look up a text. Anything else in its place is an error."""
    value = found(values, path, name)
    if value is not None and not isinstance(value, str):
        place = reduce(at, path, "")
        raise InputError(f"{name}: {place}: a text is expected, not {kind(value)}: quote it")
    return value


def mapping_at(values: Mapping, path: Sequence[str], name: str) -> Mapping:
    """Look up a mapping, empty where there is none. Anything else in its place is an error."""
    value = found(values, path, name)
    if value is not None and not isinstance(value, dict):
        raise InputError(f"{name}: {reduce(at, path, '')}: a mapping is expected, not {kind(value)}")
    return value or {}
