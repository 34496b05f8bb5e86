"""The program with one thing done in another way, so that what it saves can be measured.

Each variant changes one name of the program's own modules before it starts; everything else is the program as it is.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.cluster import confirming, decoding, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hook.core.fields import Json

    Page = tuple[Json, Iterator[Json]]

AS_IT_IS: Final = "as it is"
PAGES: Final = (25, 100, 250, 500)
"""Objects a page, beside the program's own."""
_PAGE: Final = decoding.page


def _json_page(body: bytes, *, whole: bool) -> Page:
    """Decode a page at once with the standard library."""
    return _split(json.loads(body), whole=whole)


def _msgspec_page(body: bytes, *, whole: bool) -> Page:
    """Decode a page at once with msgspec."""
    return _split(msgspec.json.decode(body), whole=whole)


def _each_object(body: bytes, *, whole: bool) -> Page:  # noqa: ARG001 - as the program calls it
    """Decode object by object, as the program does, but every field of it."""
    return _PAGE(body, whole=True)


def _split(found: dict[str, Any], *, whole: bool) -> Page:  # noqa: ARG001 - as the program calls it
    return found["metadata"], iter(found["items"])


DECODERS: Final[dict[str, Callable[..., Page]]] = {
    "json, a page at once": _json_page,
    "msgspec, a page at once": _msgspec_page,
    "msgspec, object by object, every field": _each_object,
}
"""How a list's page may be decoded, beside the program's own way."""
TWICE: Final = "every kind listed twice"
"""Where no list of metadata shows that the first list is still true (docs/decisions/0013)."""
LIBRARY: Final = "the client library loaded besides"
NAMES: Final = (AS_IT_IS, *(f"pages of {size}" for size in PAGES), *DECODERS, TWICE, LIBRARY)


def change(name: str) -> None:
    """Make this process' program another one."""
    if name in DECODERS:
        vars(decoding)["page"] = DECODERS[name]
    elif name == TWICE:
        vars(confirming)["_metadata"] = lambda *_given: None
    elif name == LIBRARY:
        import_module("kubernetes.client")
    elif name != AS_IT_IS:
        vars(requests)["PAGE_SIZE"] = int(name.rpartition(" ")[2])
