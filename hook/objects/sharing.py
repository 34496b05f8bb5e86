"""Values that many objects share: equal labels and tuples of a fleet are in memory once."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Shared = TypeVar("Shared", bound=Hashable)

MOST_SHARED: Final = 8192
"""Values that are shared. A fleet has far fewer of them."""

_SHARED: Final[dict[Any, Any]] = {}


def shared(value: Shared) -> Shared:
    """Return the value that is in memory for all that are equal to this one."""
    if len(_SHARED) >= MOST_SHARED:
        _SHARED.clear()
    found: Shared = _SHARED.setdefault(value, value)
    return found


def shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels that all objects with the same ones share."""
    return _labels(tuple(sorted((intern(key), intern(value)) for key, value in labels.items())))


@lru_cache(maxsize=1024)
def _labels(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(labels))
