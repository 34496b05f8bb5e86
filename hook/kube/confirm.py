"""Second, consistent read of the cluster, before a run reports success.

A list of metadata shows at which version each object is now. A cache that holds all of that is as good as a list of
whole objects; one that does not hold it yet has a moment for its watch to deliver. What is still not held then is
listed in full (docs/dev/decisions/0013-metadata-confirms-an-end.md).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hook.errors import GoneError, NotFoundError, RejectedError, UnreachableError
from hook.kube import listing, retry
from hook.kube.client import READ_SECONDS
from hook.kube.listing import list_views

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.kube.client import Api
    from hook.kube.informer import Informer, Source
    from hook.kube.listing import Contents, Listed
    from hook.kube.requests import ListOptions, Request
    from hook.objects.decoding import Key

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

DELIVERY_SECONDS: Final = 3.0
"""For all watches together; one that works delivers within milliseconds. Half of the time left is kept for lists."""
LOOK_SECONDS: Final = 0.05
"""Between two looks at a cache that a watch may complete."""


class SecondRead:
    """Reads source after source; all of it takes at most `seconds`, with tries, pages and waiting.

    Raises the ClusterError that kept a source from being complete by then.
    """

    def __init__(self, api: Api, seconds: float) -> None:
        self._api, self._seconds = api, seconds
        self._end = time.monotonic() + seconds
        self._retrier = retry.retrying(retry.WRITING, time.sleep, self._end)
        self._patience = DELIVERY_SECONDS

    def of(self, source: Source, informer: Informer) -> tuple[tuple[Any, ...], bool]:
        """Return what is there now, nothing older than this call, and whether the API server does not know the kind."""
        before = informer.contents()
        listed = self._metadata(source.selection)
        now = self._caught_up(informer, before, listed) if listed is not None else None
        if now is not None:
            return tuple(now.views.values()), False
        log.debug("listing %s again", source.selection.resource.plural)
        try:
            views, _version = list_views(
                lambda request: self._ask(self._api.list_page, request),
                source.selection,
                source.read,
                self._retrier,
                informer.view,
            )
        except NotFoundError:
            return (), True
        return tuple(views.values()), False

    def _metadata(self, selection: ListOptions) -> Listed | None:
        """List the metadata of a selection, page by page; None where only a full list can tell."""
        objects: dict[Key, str] = {}
        request = selection.metadata_page()
        try:
            while True:
                page, continue_from = self._retrier(self._ask, self._api.list_versions, request)
                objects.update(page.objects)
                if not continue_from:
                    return listing.Listed(objects, page.version)
                request = selection.metadata_page(continue_from)
        except (GoneError, NotFoundError, RejectedError) as error:
            log.debug("cannot list the metadata of %s: %s", selection.resource.plural, error)
            return None

    def _caught_up(self, informer: Informer, before: Contents, listed: Listed) -> Contents | None:
        """Return what a cache holds once that is as new as a list; None if its watch does not deliver in time."""
        until = (time.monotonic() + self._end) / 2
        while not listing.as_new(before, now := informer.contents(), listed):
            if self._patience <= 0 or time.monotonic() >= until:
                return None
            time.sleep(LOOK_SECONDS)
            self._patience -= LOOK_SECONDS
        return now

    def _ask(self, ask: Callable[[Request, float], Answer], request: Request) -> Answer:
        """Ask with what is left of the time."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise UnreachableError(f"a second read takes longer than {self._seconds:.0f} s")
        return ask(request, min(READ_SECONDS, left))
