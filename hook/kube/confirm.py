"""Consistent read of the cluster, before a run reports success.

A list of metadata shows the current version of each object. If a cache holds all these versions, it is as good as a
list of whole objects. If it does not, its watch has a few seconds to deliver them. After that, the objects are listed
in full (docs/dev/decisions/0013-metadata-confirms-an-end.md).
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
    from hook.kube.informer import Informer
    from hook.kube.listing import Contents, Listed
    from hook.kube.requests import ListOptions, Request
    from hook.objects.decoding import Key

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

DELIVERY_SECONDS: Final = 3.0
"""Time for all watches together to deliver, which takes milliseconds. Half of the remaining time is kept for lists."""
POLL_SECONDS: Final = 0.05
"""Between two comparisons with a cache that a watch may complete."""


class ConsistentRead:
    """Reads the objects of one informer after the other, within `seconds` for all of them, retries included.

    Raises the ClusterError that prevented it.
    """

    def __init__(self, api: Api, seconds: float) -> None:
        self._api, self._seconds = api, seconds
        self._end = time.monotonic() + seconds
        self._retrier = retry.retrying(retry.WRITE, time.sleep, self._end)
        self._delivery_left = DELIVERY_SECONDS

    def of(self, informer: Informer) -> tuple[tuple[Any, ...], bool]:
        """Return the views of an informer's objects as of this call or later, and whether the kind is unknown."""
        list_watch, before = informer.list_watch, informer.contents()
        listed = self._metadata(list_watch.options)
        now = self._await_delivery(informer, before, listed) if listed is not None else None
        if now is not None:
            return tuple(now.views.values()), False
        log.debug("listing %s again", list_watch.options.resource.plural)
        try:
            views, _version = list_views(
                lambda request: self._send(self._api.list_page, request),
                list_watch,
                self._retrier,
                informer.view,
            )
        except NotFoundError:
            return (), True
        return tuple(views.values()), False

    def _metadata(self, options: ListOptions) -> Listed | None:
        """List the metadata, page by page. Return None if only a full list can show the state."""
        objects: dict[Key, str] = {}
        request = options.metadata_page()
        try:
            while True:
                page, continue_from = self._retrier(self._send, self._api.list_versions, request)
                objects.update(page.objects)
                if not continue_from:
                    return listing.Listed(objects, page.version)
                request = options.metadata_page(continue_from)
        except (GoneError, NotFoundError, RejectedError) as error:
            log.debug("cannot list the metadata of %s: %s", options.resource.plural, error)
            return None

    def _await_delivery(self, informer: Informer, before: Contents, listed: Listed) -> Contents | None:
        """Return the contents once they are as new as a list, or None if the watch does not deliver them in time."""
        until = (time.monotonic() + self._end) / 2
        while not listing.as_new(before, now := informer.contents(), listed):
            if self._delivery_left <= 0 or time.monotonic() >= until:
                return None
            time.sleep(POLL_SECONDS)
            self._delivery_left -= POLL_SECONDS
        return now

    def _send(self, send: Callable[[Request, float], Answer], request: Request) -> Answer:
        """Send a request within the time that is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise UnreachableError(f"a consistent read takes longer than {self._seconds:.0f} s")
        return send(request, min(READ_SECONDS, left))
