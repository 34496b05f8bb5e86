"""Decode answers of the API server object by object, and objects into Structs.

A list is split into the text of its objects, and each object is decoded by itself, when it is read: a malformed object
does not spoil its page, and a page never stands in memory as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from sys import intern
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from hook.errors import RejectedError, UnreachableError

Json = Mapping[str, Any]
Raw = bytes | msgspec.Raw
"""The text of an object."""
Key = tuple[str, str]
"""Namespace and name."""
Shape = TypeVar("Shape")
View_co = TypeVar("View_co", covariant=True)
Value = TypeVar("Value", bound=Hashable)

LONGEST_TEXT: Final = 1024
"""Characters, above every name, label, image and version that can work; a mebibyte in their place would end up in
patterns, in log lines and in the memory of a small container."""
LONGEST_PROBLEM: Final = 300
"""Characters of a decoder's message, which names a type and a path."""
MOST_INTERNED: Final = 8192
"""Values that are kept to be used again. A fleet has far fewer versions and labels; it may have more moments, and then
those that were read last are the ones that come again."""

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Never negative; Kubernetes counts in 64 bits at most."""
Time = Annotated[datetime, msgspec.Meta(tz=True)]
Labels = dict[str, Text]

_INTERNED: Final[dict[Any, Any]] = {}


class MalformedObjectError(ValueError):
    """An object's field has a type or value that its kind does not allow."""


class Part(msgspec.Struct, rename="camel", gc=False):
    """A JSON object. Fields that have no name here are skipped."""


class Page(Part):
    """A page of a list."""

    items: list[msgspec.Raw]
    metadata: dict[str, Any] = {}


class Event(Part):
    """One line of a watch."""

    object: msgspec.Raw
    type: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Reader(Generic[View_co]):
    """How objects of one kind become views. Call it with an object; it raises MalformedObjectError."""

    shape: type[Any]
    build: Callable[[Any], View_co]

    def __call__(self, source: Raw | Json) -> View_co:
        """Return the view of an object."""
        return self.build(read(self.shape, source))


def reads(shape: type[Shape]) -> Callable[[Callable[[Shape], View_co]], Reader[View_co]]:
    """Make the function that builds a view a reader of objects of this shape."""
    return lambda build: Reader(shape, build)


def read(shape: type[Shape], source: object) -> Shape:
    """Read the text of an object, or its plain values. Raises MalformedObjectError, whatever is wrong."""
    try:
        if isinstance(source, bytes | msgspec.Raw):
            return msgspec.json.decode(source, type=shape)
        return msgspec.convert(source, shape)
    except (ValueError, OverflowError, RecursionError) as error:
        raise MalformedObjectError(str(error)[:LONGEST_PROBLEM]) from error


def answer(shape: type[Shape], body: Raw) -> Shape:
    """Decode an answer that only an API server gives. Raises UnreachableError if it is another one."""
    try:
        return msgspec.json.decode(body, type=shape)
    except RecursionError as error:
        # The next answer would be the same; which object is to blame is not known, since the list cannot be split.
        raise RejectedError("the API server's answer is nested too deeply to be read") from error
    except ValueError as error:
        raise UnreachableError(f"the API server's answer cannot be read: {str(error)[:LONGEST_PROBLEM]}") from error


def decode(body: Raw) -> dict[str, Any]:
    """Decode an object with all its fields. Raises UnreachableError if the text is not an object."""
    return answer(dict[str, Any], body)


def section(found: Json, name: str) -> Json:
    """Return the metadata or the spec of an object that may be malformed; empty if it is no object itself."""
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def identity(found: Json) -> tuple[Key, str]:
    """Return what tells an object, which may be malformed, from others of its kind, and its version."""
    metadata = section(found, "metadata")
    namespace, name, version = (str(metadata.get(field) or "") for field in ("namespace", "name", "resourceVersion"))
    return (intern(namespace), name), version


def moment(time: datetime | None) -> datetime | None:
    """Return a time as views have it; None where there is none."""
    return None if time is None else utc(time)


def utc(time: datetime) -> datetime:
    """Return a time in whole seconds and UTC.

    Kubelets write whole seconds. A fraction on one of two times of a second would prove an order that is not known.
    """
    try:
        return interned(time.astimezone(UTC).replace(microsecond=0))
    except OverflowError as error:
        raise MalformedObjectError(f"{time.isoformat()} is no time that clocks show") from error


def interned(value: Value) -> Value:
    """Return an equal value that is there already, so that equal values of 5,000 nodes stand in memory once."""
    if len(_INTERNED) >= MOST_INTERNED:
        _INTERNED.clear()
    # By type as well: 1 and True are equal, and values of different types must not replace each other.
    found: Value = _INTERNED.setdefault((type(value), value), value)
    return found
