"""What can happen to a request on its way: a fault answers in the server's place, or lets the request continue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from tests.e2e.faults.proxy import abort

if TYPE_CHECKING:
    import aiohttp

    from tests.e2e.faults.proxy import Proxy
PAGE = "<html><head><title>Service unavailable</title></head><body><h1>Sorry</h1></body></html>"
"""What load balancers answer where no server is left."""
Fault = Callable[["Proxy", web.BaseRequest, bytes], Awaitable[web.StreamResponse | None]]
"""Returns an answer of its own, or None: then the request continues to the server."""


def answer(code: int, text: str = PAGE, kind: str = "text/html", **headers: str) -> Fault:
    """Answer in the server's place."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}

    async def broken(_proxy: Proxy, _request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        return web.Response(status=code, text=text, content_type=kind, headers=sent)

    return broken


def status(code: int, reason: str, message: str) -> Fault:
    """Refuse as an API server does."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return answer(code, json.dumps({**body, "message": message, "reason": reason, "code": code}), "application/json")


async def refuse(_proxy: Proxy, request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    """Break the connection before the server has heard anything."""
    return abort(request)


async def lose_answer(proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Let the server do what it was asked, and break the connection."""
    await (await proxy.forward(request, body)).read()
    return abort(request)


async def cut_short(proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Send the head of the answer and half of the rest; of a watch one whole event and half a chunk."""
    found = await proxy.forward(request, body)
    stream = web.StreamResponse(status=found.status, headers={"content-type": "application/json"})
    if request.query.get("watch") == "true":
        await stream.prepare(request)
        await _cut_watch(request, found, stream)
    else:
        whole = await found.read()
        stream.content_length = len(whole)
        await stream.prepare(request)
        await stream.write(whole[: len(whole) // 2])
    found.close()
    if request.transport is not None:
        request.transport.close()
    return stream


async def _cut_watch(request: web.BaseRequest, found: aiohttp.ClientResponse, stream: web.StreamResponse) -> None:
    first = True
    async for part in found.content.iter_any():
        if first:
            await stream.write(part)
            first = False
        elif isinstance(request.transport, asyncio.WriteTransport):
            request.transport.write(b"%x\r\n" % len(part) + part[: len(part) // 2])
            return


async def babble(_proxy: Proxy, request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
    """Answer something that is not HTTP."""
    if request.transport is not None:
        request.transport.write(b"\x15\x03\x01\x00\x02\x02\x16 220 mail.example ESMTP\r\n")
        request.transport.close()
    return web.Response(status=500)
