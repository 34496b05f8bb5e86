"""Views: values that hold what is used of an API object, each field with its place in the object.

A view is one flat Struct, because a fleet has thousands of them. The places of its fields say what is decoded: nested
Structs with these fields and no others, which are gone once the view is made. Everything else of an object is skipped.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - a NamedTuple's annotation
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_type_hints

import msgspec

from hook.objects.decoding import Name, Reader, Text, Value

if TYPE_CHECKING:
    from collections.abc import Sequence


class View(Value, frozen=True):
    """A value of an API object."""


Shown = TypeVar("Shown", bound=View)


class At(NamedTuple):
    """A place in an API object."""

    path: tuple[str, ...]
    shape: Any = None
    """Type of what stands there; None for that of the field."""
    default: Any = msgspec.NODEFAULT
    """Value of an object that has nothing there."""


class Made(NamedTuple):
    """A value that a function makes of what stands in some places."""

    function: Callable[..., Any]
    places: Sequence[At]


def at(*path: str) -> At:
    """Return the place of a field, which has the type and the default of the field."""
    return At(path)


def made(function: Callable[..., Any], *places: At) -> Made:
    """Return how a field is made of what stands in some places."""
    return Made(function, places)


READERS: Final[dict[type[View], Reader[Any]]] = {}
KEY: Final = (At(("metadata", "namespace"), Text, ""), At(("metadata", "name"), Name))
"""What the decoded form of every kind has."""


def reader(view: type[Shown]) -> Reader[Shown]:
    """Return the reader of a kind of objects: always the same one."""
    return READERS.get(view) or READERS.setdefault(view, _new_reader(view))


def _new_reader(view: type[Shown]) -> Reader[Shown]:
    hints = get_type_hints(view, include_extras=True)
    places = list(KEY)
    makers: list[Callable[[object], Any]] = []
    for field in msgspec.structs.fields(view):
        said = getattr(hints[field.name], "__metadata__", ())
        found = next((each for each in said if isinstance(each, At | Made)), None)
        if isinstance(found, At):
            found = At(found.path, hints[field.name], field.default)
        places += found.places if isinstance(found, Made) else [found] if found is not None else []
        makers.append(_maker(found, field.default))

    def build(decoded: object) -> Shown:
        return view(*[maker(decoded) for maker in makers])

    return Reader(_shape(view.__name__, places), build)


def _maker(source: At | Made | None, default: object) -> Callable[[object], Any]:
    """Return a function that makes the value of a field of a decoded object."""
    if source is None:
        return lambda _decoded: default
    if isinstance(source, At):
        return attrgetter(_attributes(source))
    function, values = source.function, attrgetter(*map(_attributes, source.places))
    if len(source.places) == 1:
        return lambda decoded: function(values(decoded))
    return lambda decoded: function(*values(decoded))


def _shape(name: str, places: Sequence[At]) -> type[msgspec.Struct]:
    """Return a Struct that has the places, in nested Structs. One that may be empty may be absent."""
    inside: dict[str, list[At]] = {}
    for place in places:
        inside.setdefault(place.path[0], []).append(place._replace(path=place.path[1:]))
    fields: list[tuple[str, Any, Any]] = []
    for key, found in inside.items():
        # The same place may be named twice, and the view's own one, which is stricter, comes after the key's.
        place = found[-1]
        if len({bool(each.path) for each in found}) > 1:
            raise TypeError(f"{name}: a place under {key} is inside another place")
        shape, default = place.shape, place.default
        if place.path:
            shape = _shape(key, found)
            required = any(field.required for field in msgspec.structs.fields(shape))
            default = msgspec.NODEFAULT if required else shape()
        fields.append((_attribute(key), shape, msgspec.field(name=key, default=default)))
    return msgspec.defstruct(name, fields, frozen=True, gc=False, kw_only=True)


def _attributes(place: At) -> str:
    return ".".join(map(_attribute, place.path))


def _attribute(key: str) -> str:
    """Return the name of the attribute for a key, which may have any characters."""
    return "".join(character if character.isalnum() else f"_{ord(character)}_" for character in key)
