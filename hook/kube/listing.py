"""Lists: the views of a resource's objects, or the versions of all of them, to compare a cache with.

Versions of one resource compare as numbers of any length, those of custom resources included (Kubernetes API concepts,
"Resource versions"; conformance-tested since 1.35, KEP-5504). So a later version under a name is a later state, also if
the object was deleted and created again with another UID. Versions that are not numbers prove nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hook.errors import GoneError, RejectedError, UnreachableError
from hook.objects import decoding, readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hook.kube import retry
    from hook.kube.requests import ListOptions, Request
    from hook.objects.decoding import Json, Key, Raw, Reader

LIST_ATTEMPTS: Final = 3
"""Attempts of a list whose pages expire while it is read."""
ORDERED: Final = re.compile("[1-9][0-9]*")
"""Versions that compare as numbers."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything that an informer holds at one moment."""

    views: Mapping[Key, Any]
    changes: Mapping[Key, str]
    """Versions of the objects that the watch has delivered."""
    listed: str
    """Version of the list before that watch. All other objects are as they were at this version."""
    version: str
    """Version up to which the watch has delivered; empty without a watch."""

    def of(self, key: Key) -> str:
        """Return the latest version at which an object is known to be as it is here; empty if it is not here."""
        return self.changes.get(key, self.listed) if key in self.views else ""


@dataclass(frozen=True, slots=True)
class Listed:
    """Versions of a consistent list: of each object, and of the list."""

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
    """Return the versions of one page of a list, and the token of the next page; empty at the end.

    Raise UnreachableError for a response that broke off, and RejectedError for one that is not a list of objects.
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
    """Return whether a version of a resource is as new as another one; False if one is not a number."""
    if not (ORDERED.fullmatch(version) and ORDERED.fullmatch(wanted)):
        return False
    return (len(version), version) >= (len(wanted), wanted)


def as_new(before: Contents, now: Contents, listed: Listed) -> bool:
    """Return whether a cache holds nothing older than a list that was requested after the cache held `before`.

    The cache must hold that version of each listed object or a later one, or have held it before: then the object was
    deleted since. An object that is not in the list must be newer than the list.
    """
    if not before.version or _later(before.version, listed.version):
        # The cluster was restored from a backup: the cache may hold states that no longer exist.
        return False
    for key, version in listed.objects.items():
        if not at_least(now.of(key), version) and not at_least(before.of(key), version):
            return False
    return all(key in listed.objects or _later(now.of(key), listed.version) for key in now.views)


def _later(version: str, than: str) -> bool:
    return version != than and at_least(version, than)


@dataclass(frozen=True, slots=True)
class ListWatch:
    """Objects to list and watch, and how they become views."""

    options: ListOptions
    read: Reader[Any]


if TYPE_CHECKING:
    Fetch = Callable[[Request], tuple[Json, Iterable[Raw]]]
    """Reads one page: its metadata and its objects."""
    Views = dict[Key, Any]
    """By key: a view, or a Malformed. Objects without a view are left out."""


def list_views(
    fetch: Fetch,
    list_watch: ListWatch,
    retrier: retry.Retrier,
    cached: Callable[[Key], Any | None] = lambda _key: None,
) -> tuple[Views, str]:
    """List the current state, page by page. Return the views and the version to watch from.

    If a page has expired (410), start again, because pages of two lists are not consistent. A cached view that is
    equal is used again, so that a fleet that is listed twice is in memory once.
    """
    for _attempt in range(LIST_ATTEMPTS):
        try:
            return _list_once(fetch, list_watch, retrier, cached)
        except GoneError:
            continue
    plural = list_watch.options.resource.plural
    raise UnreachableError(f"the list of {plural} expired {LIST_ATTEMPTS} times while it was read")


def _list_once(
    fetch: Fetch, list_watch: ListWatch, retrier: retry.Retrier, cached: Callable[[Key], Any | None]
) -> tuple[Views, str]:
    options, views = list_watch.options, {}

    def add_page(request: Request) -> Json:
        """Add the views of one page. Decoding is part of the attempt, so a response that broke off is retried."""
        metadata, objects = fetch(request)
        for obj in objects:
            key, _version, view = readers.entry(list_watch.read, options.resource.kind, obj)
            if view is not None:
                before = cached(key)
                views[key] = before if before == view else view
        return metadata

    continue_from = ""
    while True:
        metadata = retrier(add_page, options.page(continue_from))
        continue_from = str(metadata.get("continue") or "")
        if not continue_from:
            return views, str(metadata.get("resourceVersion") or "")


def version_of(obj: Raw) -> str:
    """Return the version of an object or a bookmark; empty if it has none."""
    return decoding.identity(decoding.decode(obj))[1]
