"""Consistent read of the cluster, before a run ends: every kind is listed a second time, because a watch may be behind.

A view that is equal to the one in the cache is not kept twice
(docs/dev/decisions/0013-a-second-list-confirms-an-end.md).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hook.errors import NO_ANSWER, NOT_FOUND, ApiError
from hook.kube import retry
from hook.kube.client import READ_SECONDS
from hook.kube.listing import list_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hook.kube.client import Api
    from hook.kube.informer import Informer
    from hook.kube.requests import Request
    from hook.objects.decoding import Json, Raw


class ConsistentRead:
    """Lists the objects of one informer after the other, within `seconds` for all of them, retries included.

    Raises the ApiError that prevented it.
    """

    def __init__(self, api: Api, seconds: float) -> None:
        self._api, self._seconds = api, seconds
        self._end = time.monotonic() + seconds
        self._retrier = retry.retrying(retry.WRITE, time.sleep, self._end)

    def of(self, informer: Informer) -> tuple[tuple[Any, ...], bool]:
        """Return the views of an informer's objects as of this call or later, and whether the kind is unknown."""
        try:
            views, _version = list_views(self._fetch, informer.list_watch, self._retrier, informer.view)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return (), True
        return tuple(views.values()), False

    def _fetch(self, request: Request) -> tuple[Json, Sequence[Raw]]:
        """Read one page within the time that is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise ApiError(NO_ANSWER, f"a consistent read takes longer than {self._seconds:.0f} s")
        return self._api.list_page(request, min(READ_SECONDS, left))
