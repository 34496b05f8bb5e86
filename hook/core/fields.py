"""Read fields of plain dicts with their types, or say which field is wrong.

An API server that validates gives well-shaped objects; CRDs without a schema, proxies and bugs do
not. A wrong field must never read as ready, fresh or absent, so it raises with its path.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

Json = Mapping[str, Any]
Value = TypeVar("Value", bound=Hashable)

LONGEST_TEXT: Final = 1024
"""Above every name, label, image and version that can work; a mebibyte in their place would end up in patterns,
in log lines and in the memory of a small container."""
LARGEST_NUMBER: Final = 2**63 - 1
"""Kubernetes counts in 64 bits at most."""

LONGEST_SMALL_NUMBER: Final = 9
"""Digits; more GPUs no node has, and Python refuses to read numbers of thousands."""

MOST_SHARED: Final = 8192
"""Values that are kept to be given again. A fleet has fewer versions, labels and taints by far; moments it may have
more of, and then those that were read last are the ones that come again."""

_EMPTY: Final[Json] = {}
_SHARED: Final[dict[Any, Any]] = {}


class MalformedObjectError(ValueError):
    """An object's field has a type or value that its kind does not allow."""


def shared(value: Value) -> Value:
    """Give an equal value that is there already: what five thousand nodes say alike stands in memory once."""
    if len(_SHARED) >= MOST_SHARED:
        _SHARED.clear()
    # By type as well: 1 and True are equal, and no two kinds of values may be taken for each other.
    found: Value = _SHARED.setdefault((type(value), value), value)
    return found


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
    found = prose(obj, *path)
    if len(found) > LONGEST_TEXT:
        raise MalformedObjectError(f"{'.'.join(path)}: {len(found)} characters, no more than {LONGEST_TEXT} make sense")
    return found


def prose(obj: Json, *path: str) -> str:
    """Give the string at ``path`` that only people read, of whatever length; empty if absent or null."""
    found = _walk(obj, path)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise MalformedObjectError(f"{'.'.join(path)}: expected text, got {type(found).__name__}")
    if not found.isascii() and any("\ud800" <= one <= "\udfff" for one in found):
        # JSON can write one, UTF-8 cannot: neither a request nor a log line could hold it.
        raise MalformedObjectError(f"{'.'.join(path)}: holds half of a character")
    return found


def required(obj: Json, *path: str) -> str:
    """Give the string at ``path``, which must not be empty."""
    found = text(obj, *path)
    if not found:
        raise MalformedObjectError(f"{'.'.join(path)}: missing")
    return found


def number(obj: Json, *path: str) -> int:
    """Give the whole number at ``path``; 0 if absent, as API defaults have it. A count is never negative."""
    found = _walk(obj, path)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool):
        raise MalformedObjectError(f"{'.'.join(path)}: expected a whole number, got {type(found).__name__}")
    if not 0 <= found <= LARGEST_NUMBER:
        raise MalformedObjectError(f"{'.'.join(path)}: out of range")
    return found


def counted(obj: Json, *path: str) -> int:
    """Give the whole number at ``path``, which the API server always writes, zero or not."""
    if _walk(obj, path) is None:
        raise MalformedObjectError(f"{'.'.join(path)}: missing")
    return number(obj, *path)


def flag(obj: Json, *path: str, default: bool) -> bool:
    """Give the boolean at ``path``, or the kind's default."""
    found = _walk(obj, path)
    if found is None:
        return default
    if not isinstance(found, bool):
        raise MalformedObjectError(f"{'.'.join(path)}: expected true or false, got {type(found).__name__}")
    return found


def when(obj: Json, *path: str) -> datetime | None:
    """Give the RFC 3339 time at ``path``, in whole seconds and UTC; None if absent. A time without a zone is refused.

    Kubelets tell whole seconds. A fraction on one of two times of a second would prove an order that nobody knows.
    """
    found = text(obj, *path)
    if not found:
        return None
    try:
        moment = datetime.fromisoformat(found)
    except ValueError as error:
        raise MalformedObjectError(f"{'.'.join(path)}: {found[:40]!r} is no time") from error
    if moment.tzinfo is None:
        raise MalformedObjectError(f"{'.'.join(path)}: {found[:40]!r} has no time zone")
    try:
        return shared(moment.astimezone(UTC).replace(microsecond=0))
    except OverflowError as error:
        raise MalformedObjectError(f"{'.'.join(path)}: {found[:40]!r} is no time that clocks show") from error


def small_number(value: object) -> int | None:
    """Read text that is a plain number of at most nine digits; None for anything else."""
    plain = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= LONGEST_SMALL_NUMBER
    return int(str(value)) if plain else None
