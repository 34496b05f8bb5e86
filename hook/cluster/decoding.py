"""Decode answers of the API server object by object, and leave out what nobody reads.

Most of an object of a real cluster is bookkeeping. A list is split into the text of its objects first, and each
is decoded only when it is read: a page never stands in memory as objects, and what is left out costs no more than
the bytes it came in. What has the shape that its kind promises is split in one pass over its bytes, which halves the
time; anything else is taken apart step by step, so that one odd object spoils no other.
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
PLAIN: Final = ("kind", "revision")
"""What readers want beside the sections."""


class _Page(msgspec.Struct):
    """A page of a list, as long as it has the shape of one."""

    items: list[msgspec.Raw]
    metadata: dict[str, Any]


class _InShape(msgspec.Struct):
    """An object whose sections are objects. Fields that no reader wants have no place in it."""

    metadata: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    spec: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    status: dict[str, msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET
    kind: Any = msgspec.UNSET
    revision: Any = msgspec.UNSET
    """Of a ControllerRevision, whose ``data`` is a whole DaemonSet."""


_ANYTHING: Final = msgspec.json.Decoder()
_PARTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_PAGE: Final = msgspec.json.Decoder(_Page)
_IN_SHAPE: Final = msgspec.json.Decoder(_InShape)
_ODD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""For whatever reason: the way step by step finds out, and says it."""


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
    try:
        found = _PAGE.decode(body)
    except _ODD:
        return _odd_page(body, whole=whole)
    return found.metadata, (_object(raw, whole=whole) for raw in found.items)


def _odd_page(body: bytes, *, whole: bool) -> tuple[Json, Iterator[Json]]:
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
    return str(kind), _object(parts["object"], whole=whole or kind == "ERROR")


def _object(raw: msgspec.Raw, *, whole: bool) -> Json:
    if whole:
        return decode(raw)
    try:
        found = _IN_SHAPE.decode(raw)
    except _ODD:
        return _odd_object(raw)
    return {
        name: {key: _decoded(_ANYTHING, part) for key, part in parts.items() if key not in UNREAD[name]}
        for name in UNREAD
        if (parts := getattr(found, name)) is not msgspec.UNSET
    } | {name: part for name in PLAIN if (part := getattr(found, name)) is not msgspec.UNSET}


def _odd_object(raw: msgspec.Raw) -> Json:
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
