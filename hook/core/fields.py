"""Read fields of plain dicts with their types, or say which field is wrong.

An API server that validates gives well-shaped objects; CRDs without a schema, proxies and bugs do
not. A wrong field must never read as ready, fresh or absent, so it raises with its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

Json = Mapping[str, Any]

_EMPTY: Final[Json] = {}


class MalformedObjectError(ValueError):
    """An object's field has a type or value that its kind does not allow."""


def _walk(obj: Json, path: tuple[str, ...]) -> object:
    here: object = obj
    for key in path:
        if here is None:
            return None
        if not isinstance(here, dict):
            raise MalformedObjectError(f"{'.'.join(path)}: {key} is inside {type(here).__name__}, not an object")
        here = here.get(key)
    return here


def mapping(obj: Json, *path: str) -> Json:
    """Give the object at ``path``; empty if absent or null."""
    found = _walk(obj, path)
    if found is None:
        return _EMPTY
    if not isinstance(found, dict):
        raise MalformedObjectError(f"{'.'.join(path)}: expected an object, got {type(found).__name__}")
    return found


def items(obj: Json, *path: str) -> Sequence[Json]:
    """Give the list of objects at ``path``; empty if absent or null."""
    found = _walk(obj, path)
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise MalformedObjectError(f"{'.'.join(path)}: expected a list of objects")
    return found


def text(obj: Json, *path: str) -> str:
    """Give the string at ``path``; empty if absent or null."""
    found = _walk(obj, path)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise MalformedObjectError(f"{'.'.join(path)}: expected text, got {type(found).__name__}")
    return found


def required(obj: Json, *path: str) -> str:
    """Give the string at ``path``, which must not be empty."""
    found = text(obj, *path)
    if not found:
        raise MalformedObjectError(f"{'.'.join(path)}: missing")
    return found


def number(obj: Json, *path: str) -> int:
    """Give the whole number at ``path``; 0 if absent, as API defaults have it."""
    found = _walk(obj, path)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool):
        raise MalformedObjectError(f"{'.'.join(path)}: expected a whole number, got {type(found).__name__}")
    return found


def flag(obj: Json, *path: str, default: bool) -> bool:
    """Give the boolean at ``path``, or the kind's default."""
    found = _walk(obj, path)
    if found is None:
        return default
    if not isinstance(found, bool):
        raise MalformedObjectError(f"{'.'.join(path)}: expected true or false, got {type(found).__name__}")
    return found


def when(obj: Json, *path: str) -> datetime | None:
    """Give the RFC 3339 time at ``path``; None if absent. A time without a zone is refused."""
    found = text(obj, *path)
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(found)
    except ValueError as error:
        raise MalformedObjectError(f"{'.'.join(path)}: {found[:40]!r} is no time") from error
    if moment.tzinfo is None:
        raise MalformedObjectError(f"{'.'.join(path)}: {found[:40]!r} has no time zone")
    return moment
