"""A collection as the API server has it, kept up to date by a watch."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError
from devcluster.watching import follow

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.client import Api

Object = dict[str, Any]

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5


class Mirror:
    """Objects by UID. `on_change` sees each object before and after; None stands for absent."""

    def __init__(
        self, url_path: str, on_change: Callable[[Object | None, Object | None], None], **selectors: str
    ) -> None:
        self.url_path = url_path
        self.synced = asyncio.Event()
        self._on_change = on_change
        self._selectors = selectors
        self._objects: dict[str, Object] = {}

    @property
    def objects(self) -> list[Object]:
        """Everything that is there now."""
        return list(self._objects.values())

    async def follow(self, api: Api) -> None:
        """Watch without an end. Right after an installation the permission or the kind may not be there yet."""
        while True:
            try:
                await self._follow_once(api)
            except ApiError as error:
                log.warning("watching %s: %s", self.url_path, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_once(self, api: Api) -> None:
        async for event in follow(api, self.url_path, **self._selectors):
            if event.kind == "SYNCED":
                self.synced.set()
            elif event.kind == "DELETED":
                before = self._objects.pop(event.object["metadata"]["uid"], None)
                self._on_change(before, None)
            else:
                self.put(event.object)

    def put(self, seen: Object) -> None:
        """Take over an object from the watch, or from the answer to our own write, which may be newer."""
        uid = seen["metadata"]["uid"]
        before = self._objects.get(uid)
        if before is None or _version(before) < _version(seen):
            self._objects[uid] = seen
            self._on_change(before, seen)


def _version(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])
