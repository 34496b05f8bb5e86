"""Lists: the views of a resource's objects, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.errors import GONE, NO_ANSWER, ApiError
from hook.objects import decoding, readers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hook.kube import retry
    from hook.kube.requests import ListOptions, Request
    from hook.objects.decoding import Json, Key, Raw, Reader

LIST_ATTEMPTS: Final = 3
"""Attempts of a list whose pages expire while it is read."""


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
        except ApiError as error:
            if error.status != GONE:
                raise
    plural = list_watch.options.resource.plural
    raise ApiError(NO_ANSWER, f"the list of {plural} expired {LIST_ATTEMPTS} times while it was read")


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
