"""Second, consistent read of the cluster, before a run reports success.

A list of metadata shows at which version each object is now. A cache that holds all of that is as good as a list of
whole objects; one that does not hold it yet has a moment for its watch to deliver. What is still not held then is
listed in full (docs/decisions/0013-metadata-confirms-an-end.md).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from hook.errors import GoneError, NotFoundError, RejectedError, UnreachableError
from hook.kube import listing, retry
from hook.kube.client import READ_SECONDS
from hook.kube.listing import list_views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.kube.client import Api
    from hook.kube.informer import Found, Reflector, Source
    from hook.kube.listing import Contents, Listed
    from hook.kube.requests import Request, Selection
    from hook.objects.decoding import Key

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

DELIVERY_SECONDS: Final = 3.0
"""A watch that works delivers within milliseconds; half of the time left is kept for lists, however short it is."""
LOOK_SECONDS: Final = 0.05
"""Between two looks at caches that a watch may complete."""


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A cache that must be shown to be as new as a list of metadata."""

    reflector: Reflector
    before: Contents
    """What it held before the list was asked for."""
    listed: Listed

    def resolved(self) -> Contents | None:
        """Return what the cache holds, if that is as new as the list."""
        now = self.reflector.contents()
        return now if listing.as_new(self.before, now, self.listed) else None


def read_again(api: Api, reflectors: Mapping[Source, Reflector], seconds: float) -> Found:
    """Return what is there now, consistently for each source, and nothing older than this call.

    All of it takes at most `seconds`, with tries, pages and waiting. Raise the ClusterError that kept it from being
    complete by then.
    """
    end = time.monotonic() + seconds
    bounded = _Bounded(end, seconds)
    found: Found = {}
    doubts: dict[Source, _Doubt] = {}
    for source, reflector in reflectors.items():
        before = reflector.contents()
        if (listed := _metadata(api, source.selection, bounded)) is not None:
            doubts[source] = _Doubt(reflector, before, listed)
            _settle(doubts, found)
    _await_watches(doubts, found, end)
    for source, reflector in reflectors.items():
        if source not in found:
            found[source] = _objects(api, source, reflector, bounded)
    return found


class _Bounded:
    """Ask with what is left of one time for everything."""

    def __init__(self, end: float, seconds: float) -> None:
        self._end, self._seconds = end, seconds
        self.retrier = retry.retrying(retry.WRITING, time.sleep, end)

    def __call__(self, ask: Callable[[Request, float], Answer], request: Request) -> Answer:
        """Ask once."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise UnreachableError(f"a second read takes longer than {self._seconds:.0f} s")
        return ask(request, min(READ_SECONDS, left))


def _metadata(api: Api, selection: Selection, bounded: _Bounded) -> Listed | None:
    """List the metadata of a selection, page by page; None where only a full list can tell."""
    objects: dict[Key, str] = {}
    request = selection.metadata_page()
    try:
        while True:
            page, continue_from = bounded.retrier(bounded, api.list_versions, request)
            objects.update(page.objects)
            if not continue_from:
                return listing.Listed(objects, page.version)
            request = selection.metadata_page(continue_from)
    except (GoneError, NotFoundError, RejectedError) as error:
        log.debug("cannot list the metadata of %s: %s", selection.resource.plural, error)
        return None


def _settle(doubts: dict[Source, _Doubt], found: Found) -> None:
    """Move what is no longer in doubt to what is found."""
    for source, doubt in list(doubts.items()):
        contents = doubt.resolved()
        if contents is not None:
            found[source] = tuple(contents.views.values()), False
            del doubts[source]


def _await_watches(doubts: dict[Source, _Doubt], found: Found, end: float) -> None:
    """Wait a moment for watches to deliver what the lists show."""
    now = time.monotonic()
    until = min(now + DELIVERY_SECONDS, (now + end) / 2)
    while doubts and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        _settle(doubts, found)


def _objects(api: Api, source: Source, reflector: Reflector, bounded: _Bounded) -> tuple[tuple[object, ...], bool]:
    """List whole objects."""
    log.debug("listing %s again", source.selection.resource.plural)
    try:
        views, _version = list_views(
            lambda request: bounded(api.list_page, request),
            source.selection,
            source.read,
            bounded.retrier,
            reflector.view,
        )
    except NotFoundError:
        return (), True
    return tuple(views.values()), False
