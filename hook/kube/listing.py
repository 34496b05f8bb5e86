"""Lists of one resource: its objects page by page, or the versions of all of them.

Versions of one resource compare as numbers of any length, those of custom resources included (Kubernetes API concepts,
"Resource versions"; conformance-tested since 1.35, KEP-5504). A later version of a name is therefore later knowledge,
also where the object was deleted and created again under another UID. Versions that are no numbers prove nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec

from hook.errors import GoneError, RejectedError, UnreachableError
from hook.objects import decoding, readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hook.kube import retry
    from hook.kube.requests import ListOptions, Request
    from hook.objects.decoding import Json, Key, Raw, Reader
    from hook.objects.views import Malformed

ORDERED: Final = re.compile("[1-9][0-9]*")
"""Versions that compare as numbers."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that a cache holds of one selection at one moment."""

    views: Mapping[Key, Any]
    changes: Mapping[Key, str]
    """Versions of objects that a watch has brought."""
    listed: str
    """Of the list before that watch: as of this version, the other objects are what they are here."""
    version: str
    """Up to which the watch has delivered; empty where no watch follows."""

    def of(self, key: Key) -> str:
        """Return a version as of which an object is what it is here; empty for an object that is not here."""
        return self.changes.get(key, self.listed) if key in self.views else ""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a consistent list shows: the version of each object, and of the list."""

    objects: Mapping[Key, str]
    version: str


Version = Annotated[str, msgspec.Meta(min_length=1)]


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: Version
    namespace: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: Version
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Object] | None
    """The server writes null for none."""


_PAGE: Final = msgspec.json.Decoder(_Page)


def page(body: bytes) -> tuple[Listed, str]:
    """Return what one page of a list shows, and where the next page begins; empty at the end.

    Raise UnreachableError for an answer that broke off, and RejectedError for one that is no list of objects.
    """
    try:
        found = _PAGE.decode(body)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RejectedError(f"the API server's answer is no list of objects: {str(error)[:200]}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the API server's answer is no JSON: {str(error)[:200]}") from error
    each = (item.metadata for item in found.items or ())
    objects = {(metadata.namespace, metadata.name): metadata.resource_version for metadata in each}
    return Listed(objects, found.metadata.resource_version), found.metadata.continue_


def at_least(version: str, wanted: str) -> bool:
    """Return whether a version of a resource is as new as another one; False also where they are no numbers."""
    if not (ORDERED.fullmatch(version) and ORDERED.fullmatch(wanted)):
        return False
    return (len(version), version) >= (len(wanted), wanted)


def as_new(before: Contents, now: Contents, listed: Listed) -> bool:
    """Return whether a cache holds nothing older than a list that was asked for after the cache held `before`.

    The cache must have held that version of each listed object, or a later one: what it held and no longer holds was
    deleted since. What it holds beyond the list must be newer than the list.
    """
    if not before.version or _later(before.version, listed.version):
        # The cluster was set back, as by a restored backup: what the cache holds may be of a future that is gone.
        return False
    for key, version in listed.objects.items():
        if not at_least(now.of(key), version) and not at_least(before.of(key), version):
            return False
    return all(key in listed.objects or _later(now.of(key), listed.version) for key in now.views)


def _later(version: str, than: str) -> bool:
    return version != than and at_least(version, than)


if TYPE_CHECKING:
    Fetch = Callable[[Request], tuple[Json, Iterable[Raw]]]
    """Reads one page: its metadata and its objects."""

View = TypeVar("View")


def list_views(
    fetch: Fetch,
    selection: ListOptions,
    read: Reader[View],
    patience: retry.Retrier,
    known: Callable[[Key], View | None] = lambda _key: None,
) -> tuple[dict[Key, View | Malformed], str]:
    """Read the current state, page by page. Gives the views and the version to watch from.

    A page that expired (410) starts the list anew: half of two states is no state. A view that is known already and
    still true is given again, so that a fleet that is read twice stands in memory once.
    """
    for _attempt in range(3):
        try:
            return _list_once(fetch, selection, read, patience, known)
        except GoneError:
            continue
    raise UnreachableError(f"the list of {selection.resource.plural} expired three times while it was read")


def _list_once(
    fetch: Fetch,
    selection: ListOptions,
    read: Reader[View],
    patience: retry.Retrier,
    known: Callable[[Key], View | None],
) -> tuple[dict[Key, View | Malformed], str]:
    views: dict[Key, View | Malformed] = {}

    def take(request: Request) -> Json:
        """Take one page. Decoding is part of the try: an answer that is broken in its middle is asked for again."""
        meta, objects = fetch(request)
        for obj in objects:
            key, _version, view = readers.entry(read, selection.resource.kind, obj)
            before = known(key)
            views[key] = before if before is not None and before == view else view
        return meta

    request = selection.page()
    while True:
        meta = patience(take, request)
        if not meta.get("continue"):
            return views, str(meta.get("resourceVersion") or "")
        request = selection.page(str(meta["continue"]))


def key_of(obj: Raw) -> Key:
    """Return what tells an object, which may be malformed, from others of its kind."""
    return decoding.identity(decoding.decode(obj))[0]


def version_of(obj: Raw) -> str:
    """Return the version that an object, or a bookmark, is at; empty if it has none."""
    return decoding.identity(decoding.decode(obj))[1]
