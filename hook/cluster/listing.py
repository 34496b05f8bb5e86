"""Read all objects of a selection, page by page, each cut down to its view as it arrives."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, TypeVar

from hook.core import parse
from hook.errors import GoneError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hook.cluster import retry
    from hook.cluster.requests import Request, Selection
    from hook.core.fields import Json
    from hook.objects.views import Unreadable

    Fetch = Callable[[Request], tuple[Json, Iterator[Json]]]
    """Reads one page: its metadata and its objects."""

View = TypeVar("View")
Key = tuple[str, str]
"""Namespace and name."""


def list_views(
    fetch: Fetch,
    selection: Selection,
    read: Callable[[Json], View],
    patience: retry.Retrier,
    known: Callable[[Key], View | None] = lambda _key: None,
) -> tuple[dict[Key, View | Unreadable], str]:
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
    selection: Selection,
    read: Callable[[Json], View],
    patience: retry.Retrier,
    known: Callable[[Key], View | None],
) -> tuple[dict[Key, View | Unreadable], str]:
    views: dict[Key, View | Unreadable] = {}

    def take(request: Request) -> Json:
        """Take one page. Decoding is part of the try: an answer that is broken in its middle is asked for again."""
        meta, objects = fetch(request)
        for obj in objects:
            view = parse.readable(read, selection.resource.kind, obj)
            before = known(key := key_of(obj))
            views[key] = before if before is not None and before == view else view
        return meta

    request = selection.page()
    while True:
        meta = patience(take, request)
        if not meta.get("continue"):
            return views, str(meta.get("resourceVersion") or "")
        request = selection.page(str(meta["continue"]))


def _meta(obj: Json) -> Json:
    """Give the metadata, whatever shape it has: keys and versions must be found in malformed objects, too."""
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


def key_of(obj: Json) -> Key:
    """Name an object among those of its kind."""
    meta = _meta(obj)
    return intern(str(meta.get("namespace") or "")), str(meta.get("name") or "")


def version_of(obj: Json) -> str:
    """Give the version that an object, or a bookmark, is at; empty if it says none."""
    return str(_meta(obj).get("resourceVersion") or "")
