"""Read all objects of a selection, page by page, each cut down to its view as it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hook.errors import GoneError, UnreachableError
from hook.objects import decoding, readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hook.cluster import retry
    from hook.cluster.requests import Request, Selection
    from hook.objects.decoding import Json, Key, Raw, Reader
    from hook.objects.views import Unreadable

    Fetch = Callable[[Request], tuple[Json, Iterable[Raw]]]
    """Reads one page: its metadata and its objects."""

View = TypeVar("View")


def list_views(
    fetch: Fetch,
    selection: Selection,
    read: Reader[View],
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
    read: Reader[View],
    patience: retry.Retrier,
    known: Callable[[Key], View | None],
) -> tuple[dict[Key, View | Unreadable], str]:
    views: dict[Key, View | Unreadable] = {}

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
