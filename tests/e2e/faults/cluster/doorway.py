"""A door before the API server: whoever comes through it can be stopped, or ended, at any one request.

It passes requests and answers on as they are, watches piece by piece. A test says for which request somebody must
not go on, before it is passed on or once its answer is here: the two moments that tell a write that never happened
from one whose author never heard of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from devcluster.access import Access

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from devcluster.cluster import Cluster

OF_ONE_CONNECTION: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})
"""Headers that each of the two connections has of its own."""
BAD: Final = 400
DISCOVERY: Final = ""
"""What a list of versions is of."""
FORBIDDEN: Final = 403
VERBS: Final = {"DELETE": "delete", "PATCH": "patch", "POST": "create"}


class Moment(Enum):
    """When a request is looked at."""

    BEFORE = auto()
    """Nothing of it has reached the API server."""
    AFTER = auto()
    """The API server has answered, and whoever asked has not heard it."""


Stop = tuple[str, Moment]
"""A request, as ``verb resource``, and when."""


class Doorway:
    """A reverse proxy on loopback. `stops` is asked about every request, and says whether it ends there."""

    def __init__(self, cluster: Cluster) -> None:
        self.stops: Callable[[Stop], bool] = lambda _stop: False
        self.answers: Counter[tuple[str, int]] = Counter()
        """How often each request had each answer."""
        self._cluster = cluster
        self._access = Access.from_kubeconfig(cluster.kubeconfig)
        self._open: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="doorway")

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, of: Path | None = None) -> Path:
        """Give the kubeconfig of somebody, else the administrator's, that leads through this door."""
        config: dict[str, Any] = yaml.safe_load((of or self._cluster.kubeconfig).read_text())
        for each in config["clusters"]:
            each["cluster"] = {"server": f"http://127.0.0.1:{self._port}"}
        file = self._cluster.state / f"door-{self._port}-{(of or self._cluster.kubeconfig).name}"
        file.write_text(json.dumps(config))
        return file

    def refused(self, verb: str) -> int:
        """Count the requests of a verb that were forbidden."""
        refusals = ((what, count) for (what, status), count in self.answers.items() if status == FORBIDDEN)
        return sum(count for what, count in refusals if what.startswith(f"{verb} "))

    def follows(self, times: int = 1) -> bool:
        """Whether everything that was listed through it was then watched, so many times."""
        good = {what: count for (what, status), count in self.answers.items() if status < BAD}
        listed = {what.removeprefix("list ") for what in good if what.startswith("list ")} - {DISCOVERY}
        return bool(listed) and all(good.get(f"watch {each}", 0) >= times for each in listed)

    def cut(self) -> None:
        """Cut every connection, watches included."""

        def abort() -> None:
            for each in tuple(self._open):
                each.abort()

        self._loop.call_soon_threadsafe(abort)

    async def _begin(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._access.tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(application, shutdown_timeout=0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def _end(self) -> None:
        for each in tuple(self._open):
            each.abort()
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, unless it ends here."""
        what, transport = named(request), request.transport
        if transport is None or self.stops((what, Moment.BEFORE)):
            return _abort(transport)
        self._open.add(transport)
        try:
            async with self._session.request(
                request.method,
                URL(self._access.server + request.raw_path, encoded=True),
                headers=_passed_on(request.headers),
                data=await request.read(),
                timeout=aiohttp.ClientTimeout(),
            ) as answer:
                self.answers[what, answer.status] += 1
                if what.startswith("watch "):
                    return await _stream(request, answer)
                body = await answer.read()
                if self.stops((what, Moment.AFTER)):
                    return _abort(transport)
                return web.Response(status=answer.status, headers=_passed_on(answer.headers), body=body)
        except aiohttp.ClientError:
            return _abort(transport)
        finally:
            self._open.discard(transport)


def named(request: web.Request) -> str:
    """Name a request as RBAC does: ``delete pods``, ``list nodes``, ``watch leases``."""
    parts = request.path.strip("/").split("/")
    parts = parts[3 if parts[0] == "apis" else 2 :]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    verb = VERBS.get(request.method) or ("watch" if "watch" in request.query else "get" if parts[1:] else "list")
    return f"{verb} {parts[0] if parts else ''}"


def _passed_on(headers: Any) -> dict[str, str]:  # noqa: ANN401 - aiohttp's own
    return {key: value for key, value in headers.items() if key.lower() not in OF_ONE_CONNECTION}


def _abort(transport: asyncio.Transport | None) -> web.Response:
    """End a connection without a word."""
    if transport is not None:
        transport.abort()
    return web.Response(status=502)


async def _stream(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Hand on a watch as it comes, until either side ends it."""
    response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
    return response
