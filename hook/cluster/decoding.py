"""Decode answers of the API server object by object, and leave out what nobody reads.

Most of an object of a real cluster is bookkeeping. A list is split into the text of its objects first, and each
is decoded only when it is read: a page never stands in memory as objects, and what is left out costs no more than
the bytes it came in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.errors import RejectedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hook.core.fields import Json

UNREAD: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset({"managedFields"}),
    "spec": frozenset({"volumes"}),
    "status": frozenset({"images"}),
}
"""By section of an object: fields that are large and that no reader wants. A test compares views with and without."""

_ANYTHING: Final = msgspec.json.Decoder()
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


def decode(body: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode one whole object. Raises UnreachableError if it is none."""
    decoded = _decoded(_ANYTHING, body)
    if not isinstance(decoded, dict):
        raise UnreachableError("the API server's answer is no object")
    return decoded


def page(body: bytes, *, whole: bool) -> tuple[Json, Iterator[Json]]:
    """Split one page of a list: its metadata, and its objects, each decoded when it is taken.

    Raises UnreachableError, also while objects are taken, if it is no list of objects.
    """
    parts = _parts(body)
    if "items" not in parts:
        raise UnreachableError("the API server's list has no items")
    meta = decode(parts["metadata"]) if "metadata" in parts else {}
    try:
        raws = _decoded(_LIST, parts["items"])
    except msgspec.ValidationError:
        raise UnreachableError("the API server's list has no items") from None
    return meta, (_object(raw, whole=whole) for raw in raws)


def event(line: bytes, *, whole: bool) -> tuple[str, Json]:
    """Decode one line of a watch: what happened, and to which object. Raises UnreachableError if it is no event."""
    parts = _parts(line)
    if "object" not in parts:
        raise UnreachableError("a watch sent an event without an object")
    kind = _decoded(_ANYTHING, parts["type"]) if "type" in parts else ""
    return str(kind), _object(parts["object"], whole=whole)


def _object(raw: msgspec.Raw, *, whole: bool) -> Json:
    if whole:
        return decode(raw)
    parts = _parts(raw)
    return {name: _section(part, UNREAD.get(name)) for name, part in parts.items()}


def _section(raw: msgspec.Raw, unread: frozenset[str] | None) -> Any:  # noqa: ANN401 - JSON
    """Decode one section; what has another shape than its kind promises is the readers' to refuse."""
    if unread is None or bytes(memoryview(raw)[:1]) != b"{":
        return _decoded(_ANYTHING, raw)
    parts = _parts(raw)
    return {name: _decoded(_ANYTHING, part) for name, part in parts.items() if name not in unread}


def _parts(raw: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        parts: dict[str, msgspec.Raw] = _decoded(_PARTS, raw)
    except msgspec.ValidationError as error:
        raise UnreachableError("the API server's answer holds something that is no object") from error
    return parts


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes | msgspec.Raw) -> Any:  # noqa: ANN401 - JSON
    """Decode, or say what is wrong with the text. A ValidationError is left to those who want a certain shape."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        if decoder is not _ANYTHING:
            raise
        raise UnreachableError("the API server's answer holds a number that is out of range") from None
    except RecursionError as error:
        # Trying again would give the same; which object it is cannot be told, since the list cannot be split.
        raise RejectedError("the API server's answer is nested too deeply to be read") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the API server's answer is no JSON: {str(error)[:200]}") from error
