"""What can happen to a request on its way: each fault answers in the server's place, or lets it pass."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from tests.e2e.faults.api.proxy import HEADERS, abort

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    import aiohttp

    from tests.e2e.faults.api.proxy import Proxy

LOOK_SECONDS = 0.05
"""Between two looks at something that another thread does."""
PAGE = "<html><head><title>Service unavailable</title></head><body><h1>Sorry</h1></body></html>"
"""What load balancers say where there is nobody to ask."""


class Fault(Protocol):
    """Gives an answer of its own, or None: then the request goes on to the server."""

    async def __call__(self, proxy: Proxy, request: web.BaseRequest, body: bytes, /) -> web.StreamResponse | None:
        """Break a request."""


@dataclass(frozen=True)
class Answer:
    """Something answers in the server's place."""

    status: int
    text: str = PAGE
    kind: str = "text/html"
    headers: dict[str, str] = field(default_factory=dict)

    async def __call__(self, _proxy: Proxy, _request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        """Answer."""
        return web.Response(status=self.status, text=self.text, content_type=self.kind, headers=self.headers)


def status(code: int, reason: str, message: str, **headers: str) -> Answer:
    """Refuse as an API server does."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    text = json.dumps({**body, "message": message, "reason": reason, "code": code})
    return Answer(code, text, "application/json", {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True)
class Refuse:
    """The connection breaks before the server has heard anything."""

    async def __call__(self, _proxy: Proxy, request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        """Break it."""
        return abort(request)


@dataclass(frozen=True)
class LoseAnswer:
    """The server does what it was asked, and nobody hears of it."""

    then: Callable[[], None] | None = None
    """What else happens at this moment."""

    async def __call__(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Forward it, then break it."""
        answer = await proxy.forward(request, body)
        await answer.read()
        if self.then:
            await asyncio.to_thread(self.then)
        return abort(request)


@dataclass(frozen=True)
class Before:
    """Something happens before the server hears of the request, which then goes on."""

    then: Callable[[], None]

    async def __call__(self, _proxy: Proxy, _request: web.BaseRequest, _body: bytes) -> None:
        """Let it happen."""
        await asyncio.to_thread(self.then)


@dataclass(frozen=True)
class WholeObjects:
    """Something in between takes away what a request says about the answer that it wants."""

    async def __call__(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Forward it without."""
        wanted = tuple(name for name in HEADERS if name != "accept")
        return await proxy.relay(request, await proxy.forward(request, body, wanted))


@dataclass(frozen=True)
class Blocker:
    """The request stays where it is until an event, with its connection open."""

    until: threading.Event

    async def __call__(self, _proxy: Proxy, _request: web.BaseRequest, _body: bytes) -> None:
        """Wait."""
        while not self.until.is_set():  # noqa: ASYNC110 - the event belongs to another thread
            await asyncio.sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class CutShort:
    """The connection breaks in the middle of the answer: of a watch, within a chunk after the first whole event."""

    async def __call__(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        """Send the head of the answer and half of what comes next."""
        answer = await proxy.forward(request, body)
        stream = web.StreamResponse(status=answer.status, headers={"content-type": "application/json"})
        if request.query.get("watch") == "true":
            await self._cut_watch(request, answer, stream)
        else:
            whole = await answer.read()
            stream.content_length = len(whole)
            await stream.prepare(request)
            await stream.write(whole[: len(whole) // 2])
        answer.close()
        if request.transport is not None:
            request.transport.close()
        return stream

    async def _cut_watch(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse, stream: web.StreamResponse
    ) -> None:
        """Let the first part pass; of the next one promise a whole chunk, and give half of it."""
        await stream.prepare(request)
        first = True
        async for part in answer.content.iter_any():
            if first:
                await stream.write(part)
                first = False
            elif isinstance(request.transport, asyncio.WriteTransport):
                request.transport.write(b"%x\r\n" % len(part) + part[: len(part) // 2])
                return


@dataclass(frozen=True)
class Babble:
    """What answers does not speak HTTP."""

    async def __call__(self, _proxy: Proxy, request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        """Send something and close."""
        if request.transport is not None:
            request.transport.write(b"\x15\x03\x01\x00\x02\x02\x16 220 mail.example ESMTP\r\n")
            request.transport.close()
        return web.Response(status=500)
