"""Values that many objects share: equal times, labels and tuples of a fleet are in memory once."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Mapping

Shared = TypeVar("Shared", bound=Hashable)

MOST_INTERNED: Final = 8192
"""Values that are shared. A fleet has far fewer versions and labels. It may have more timestamps; then those that were
read last are the ones that occur again."""

_INTERNED: Final[dict[Any, Any]] = {}


def moment(time: datetime | None) -> datetime | None:
    """Return a time in whole seconds and UTC; None stays None."""
    return None if time is None else utc(time)


def utc(time: datetime) -> datetime:
    """Return a time in whole seconds and UTC.

    Kubelets write whole seconds. A fraction in one of two times of a second would prove an order that is unknown.
    """
    try:
        return interned(time.astimezone(UTC).replace(microsecond=0))
    except OverflowError as error:
        raise MalformedObjectError(f"{time.isoformat()} is out of range") from error


def interned(value: Shared) -> Shared:
    """Intern a value, so that equal values of many nodes share memory."""
    if len(_INTERNED) >= MOST_INTERNED:
        _INTERNED.clear()
    # The key has the type as well, because 1 and True are equal.
    shared: Shared = _INTERNED.setdefault((type(value), value), value)
    return shared


def labels_under(labels: Mapping[str, str], prefixes: tuple[str, ...] = ("",)) -> Mapping[str, str]:
    """Return the labels under these prefixes. Objects with the same ones share them."""
    kept = ((intern(key), intern(value)) for key, value in labels.items() if key.startswith(prefixes))
    return _shared_labels(tuple(sorted(kept)))


@lru_cache(maxsize=1024)
def _shared_labels(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(labels))
