"""Decode answers of the API server object by object, and objects into Structs.

A list is split into the text of its objects, and each object is decoded separately when it is read. So a malformed
object does not affect the rest of its page, and the objects of a page are never in memory together.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from hook.errors import NO_ANSWER, UNREADABLE, ApiError

Json = Mapping[str, Any]
Raw = bytes | msgspec.Raw
"""The text of an object."""
Key = tuple[str, str]
"""Namespace and name."""
Shape = TypeVar("Shape")
Kept_co = TypeVar("Kept_co", covariant=True)
Other = TypeVar("Other")

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

LONGEST_TEXT: Final = 1024
"""Characters. No valid name, label, image or version is longer. A mebibyte instead of one would get into patterns, log
lines and the memory of a small container."""
LONGEST_EXCERPT: Final = 1024
"""Characters of a message that are kept, which is as much as an Event can hold."""
LONGEST_PROBLEM: Final = 300
"""Characters of a decoder's message, which names a type and a path."""

Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""Never negative; Kubernetes counts in 64 bits at most."""
Labels = Mapping[str, Text]

_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}
_PREPARING: Final = threading.Lock()


class MalformedObjectError(ValueError):
    """An object's field has a type or value that its kind does not allow."""


class Value(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """An object of the API server or a part of one, without the fields that are not read.

    It holds other values, never itself, so the garbage collector need not visit it.
    """


_AS_WRITTEN_BY_GO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
"""All times of API objects, other than the micro times of Leases. The general way takes four times as long."""


class Time(datetime):
    """A time of the API, in whole seconds and UTC. The equal ones of an object are in memory once.

    Kubelets write whole seconds. A fraction in one of two times of a second would prove an order that is unknown.
    """

    __slots__ = ()

    @classmethod
    @lru_cache(maxsize=512)
    def of(cls, text: str) -> Time:
        """Read a time. Raises ValueError."""
        if _AS_WRITTEN_BY_GO.fullmatch(text):
            return cls.fromisoformat(text)
        try:
            time: datetime = msgspec.convert(text, Annotated[datetime, msgspec.Meta(tz=True)])
            return cls(*time.astimezone(UTC).timetuple()[:6], tzinfo=UTC)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        except OverflowError as error:
            raise ValueError(f"{text} is out of range") from error


class Excerpt(str):
    """A message, of which the beginning is kept."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Excerpt:
        """Return the beginning."""
        return cls(text[:LONGEST_EXCERPT])


class Malformed(Value, frozen=True):
    """An object that does not match its kind. It never counts as ready or fresh."""

    kind: str
    namespace: str
    name: str
    node: str
    """The node of a malformed pod; empty if unknown."""
    problem: str


class Page(Value, frozen=True):
    """A page of a list."""

    items: list[msgspec.Raw]
    metadata: dict[str, Any] = {}


class Event(Value, frozen=True):
    """One line of a watch."""

    object: msgspec.Raw
    type: str = ""


class _Versioned(Value, frozen=True):
    class Metadata(Value, frozen=True):
        resource_version: Text = ""

    metadata: Metadata = Metadata()


@dataclass(frozen=True, slots=True, eq=False)
class Reader(Generic[Kept_co]):
    """Reads the objects of one kind: decodes the fields that are read, and makes of them what is kept."""

    shape: type[Any]
    make: Callable[[Any], Kept_co]

    def __call__(self, source: Raw | Json) -> Kept_co:
        """Return the value of an object. Raises MalformedObjectError."""
        return self.make(read(self.shape, source))

    def keeping(self, keep: Callable[[Kept_co], Other]) -> Reader[Other]:
        """Return a reader that keeps what the function returns; an object for which it is None is left out."""
        return Reader(self.shape, lambda decoded: keep(self.make(decoded)))


def entry(reader: Reader[Any], kind: str, body: Raw) -> tuple[Key, Any]:
    """Return the key and the value of an object; a malformed one is `Malformed`.

    Raises ApiError if the text is not an object.
    """
    try:
        decoded = read(reader.shape, body)
        metadata = decoded.metadata
        return (intern(metadata.namespace), metadata.name), reader.make(decoded)
    except MalformedObjectError as error:
        loose = decode(body)
        key = intern(_text(loose, "metadata", "namespace")), _text(loose, "metadata", "name")
        return key, Malformed(kind, *key, _text(loose, "spec", "nodeName"), str(error))


def read(shape: type[Shape], source: object) -> Shape:
    """Read the text of an object, or its plain values. Raises MalformedObjectError for every kind of mistake."""
    decoder = _decoder(shape)
    try:
        if isinstance(source, bytes | msgspec.Raw):
            return decoder.decode(source)
        return msgspec.convert(source, shape, dec_hook=_of_text)
    except (ValueError, OverflowError, RecursionError) as error:
        raise MalformedObjectError(str(error)[:LONGEST_PROBLEM]) from error


def answer(shape: type[Shape], body: Raw) -> Shape:
    """Decode an answer of the API server. Raises ApiError if it cannot come from one."""
    decoder = _decoder(shape)
    try:
        return decoder.decode(body)
    except RecursionError as error:
        # The next answer would be the same. The list cannot be split, so the object that causes this is unknown.
        raise ApiError(UNREADABLE, "the API server's answer is nested too deeply to be read") from error
    except ValueError as error:
        problem = str(error)[:LONGEST_PROBLEM]
        raise ApiError(NO_ANSWER, f"the API server's answer cannot be read: {problem}") from error


def _decoder(shape: type[Shape]) -> msgspec.json.Decoder[Shape]:
    """Return the decoder of a shape, built once.

    msgspec describes a type when it is used first, and this is not thread-safe: informers that decode their first
    objects at the same moment would crash the interpreter. So only one thread builds a decoder at a time.
    """
    found = _DECODERS.get(shape)
    if found is None:
        with _PREPARING:
            found = _DECODERS.setdefault(shape, msgspec.json.Decoder(shape, dec_hook=_of_text))
    return found


def _of_text(kind: type[Any], value: object) -> Any:  # noqa: ANN401 - of that kind
    """Read a `Time` or an `Excerpt`. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")  # noqa: TRY004 - as msgspec
    return kind.of(value)


def decode(body: Raw) -> dict[str, Any]:
    """Decode an object with all its fields. Raises ApiError if the text is not an object."""
    return answer(dict[str, Any], body)


def version(body: Raw) -> str:
    """Return the resourceVersion of an object; empty if it cannot be read."""
    try:
        return str(read(_Versioned, body).metadata.resource_version)
    except MalformedObjectError:
        return ""


def section(values: Json, name: str) -> Json:
    """Return a section of an object that may be malformed, such as its metadata; empty if it is no JSON object."""
    part = values.get(name)
    return part if isinstance(part, dict) else {}


def _text(values: Json, name: str, field: str) -> str:
    """Return a field of a section of an object that may be malformed; empty if it is no text or too long."""
    value = section(values, name).get(field)
    return value if isinstance(value, str) and len(value) <= LONGEST_TEXT else ""
