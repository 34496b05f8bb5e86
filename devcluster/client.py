"""A small asynchronous client of the Kubernetes API, for the simulator's own processes.

Objects are plain dictionaries as the API server sends them. Paths come from `path`, requests go
through `Api`. `devcluster.watching` turns list and watch into one endless stream of events.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp

from devcluster.access import Access, ApiError, Object, decode, path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from pathlib import Path
    from types import TracebackType

__all__ = [
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_PATCH",
    "Access",
    "Api",
    "ApiError",
    "Connection",
    "Object",
    "path",
    "retry",
]

T = TypeVar("T")

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

PAGE = 500
"""Objects a list page; kubectl's own figure."""

REQUEST_SECONDS = 30.0
"""Long enough for an API server on a busy machine; a watch has its own limit."""

CONNECTIONS = 32
"""Parallel requests of one process; more only queue in the API server."""


RETRY_SECONDS: Final = 0.5
"""A kubelet repeats a write that the API server did not take."""
THROTTLED, SERVER_ERRORS = 429, 500

log = logging.getLogger(__name__)


class Api:
    """An open connection pool to one API server; use it as an asynchronous context manager."""

    session: aiohttp.ClientSession

    def __init__(self, access: Access) -> None:
        self.access = access

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.access.tls, limit=0))
        self._slots = asyncio.Semaphore(CONNECTIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.session.close()

    async def request(
        self,
        method: str,
        url_path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Send one request and decode its answer; an answer of 400 or more raises `ApiError`."""
        async with (
            self._slots,
            self.session.request(
                method,
                self.access.server + url_path,
                params=params,
                data=None if body is None else json.dumps(body),
                headers=self.access.headers() | {"Content-Type": content_type},
                timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
            ) as response,
        ):
            return decode(response.status, await response.text())

    async def get(self, url_path: str, **params: str) -> Object:
        """Read one object, or one page of a collection."""
        return await self.request("GET", url_path, params=params)

    async def create(self, url_path: str, body: Object) -> Object:
        """POST an object to a collection or a subresource."""
        return await self.request("POST", url_path, body=body)

    async def replace(self, url_path: str, body: Object) -> Object:
        """PUT an object; its resourceVersion, if set, guards against lost updates."""
        return await self.request("PUT", url_path, body=body)

    async def patch(self, url_path: str, body: object, content_type: str = MERGE_PATCH) -> Object:
        """PATCH an object or its subresource; a JSON merge patch unless told otherwise."""
        return await self.request("PATCH", url_path, body=body, content_type=content_type)

    async def apply(self, url_path: str, body: Object, field_manager: str) -> Object:
        """Server-side apply, taking over contested fields."""
        return await self.request(
            "PATCH",
            url_path,
            body=body,
            params={"fieldManager": field_manager, "force": "true"},
            content_type="application/apply-patch+yaml",
        )

    async def delete(self, url_path: str, options: Object | None = None) -> Object:
        """DELETE an object, with DeleteOptions such as preconditions or a grace period."""
        return await self.request("DELETE", url_path, body=options)

    async def list_at(self, url_path: str, **selectors: str) -> tuple[list[Object], str]:
        """Read a whole collection and the resourceVersion to watch from."""
        items: list[Object] = []
        params = {"limit": str(PAGE), **selectors}
        while True:
            page = await self.get(url_path, **params)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]
            params["continue"] = token

    async def list(self, url_path: str, **selectors: str) -> list[Object]:
        """Read a whole collection, page by page (``labelSelector=``, ``fieldSelector=``)."""
        items, _ = await self.list_at(url_path, **selectors)
        return items


class Connection:
    """An open `Api` for callers in any thread and outside of an event loop: each TLS handshake costs both ends."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = Api(Access.from_kubeconfig(kubeconfig))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api", daemon=True)
        self._thread.start()
        self._wait(self._api.__aenter__())

    def run(self, task: Callable[[Api], Awaitable[T]]) -> T:
        """Run an asynchronous function with the client."""

        async def with_client() -> T:
            return await task(self._api)

        return self._wait(with_client())

    def close(self) -> None:
        """Give up what is under way, close the connections, and end the thread."""
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._api.__aexit__(None, None, None)

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def retry(write: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Repeat a request while the server cannot be reached, as kubelets do; what it refuses is raised."""
    while True:
        try:
            return await write()
        except ApiError as error:
            if error.code != THROTTLED and error.code < SERVER_ERRORS:
                raise
            log.warning("trying again: %s", error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("trying again: %r", error)
        await asyncio.sleep(RETRY_SECONDS)
