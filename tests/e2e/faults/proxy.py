"""A proxy between a program and the API server, in which a test breaks what it likes.

It speaks HTTPS with the API server's own certificate, so that the program sees no difference until a rule changes an
answer. Each rule is a fault for some requests, for a number of times or always.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import ssl
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Self

import aiohttp
import yaml
from aiohttp import web

from devcluster.boot.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future
    from pathlib import Path

    from devcluster.boot.layout import State
    from tests.e2e.faults.breaking import Fault

PASSED_ON: Final = ("content-type", "retry-after", "location")
"""Headers of an answer that matter to a client; the others belong to one connection."""
HEADERS: Final = ("authorization", "accept", "content-type", "user-agent")
"""Headers of a request that matter to the server."""
VERBS: Final = "create patch delete get list watch"
METHODS: Final = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, as RBAC counts."""

    verb: str
    resource: str
    """Plural, without the group; for discovery the last part of the path."""
    target: str
    """Path and query."""
    selection: str
    """Path and selectors: the same for a list and for the watches that continue it."""
    page: int
    """1, or 2 for any further page of a list."""

    @classmethod
    def of(cls, request: web.BaseRequest) -> Asked:
        """Read a request's line."""
        parts = [part for part in request.path.split("/") if part]
        rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            rest = rest[2:]
        verb = METHODS.get(request.method, "get")
        if verb == "get" and len(rest) == 1:
            verb = "watch" if request.query.get("watch") == "true" else "list"
        selectors = [request.query.get(name, "") for name in ("labelSelector", "fieldSelector")]
        selection = " ".join(filter(None, (request.path, *selectors)))
        resource = rest[0] if rest else parts[-1]
        page = 2 if "continue" in request.query else 1
        return cls(verb, resource, request.path_qs, selection, page)


@dataclass(slots=True)
class Seen:
    """A request that came by, and what becomes of it."""

    t: float
    """By the monotonic clock, when it arrived."""
    asked: Asked
    status: int = 0
    """Of the answer; 0 while there is none, or only half of one."""
    fault: str = ""


@dataclass(slots=True)
class Rule:
    """A fault for some requests."""

    fault: Fault
    verbs: frozenset[str]
    each: int | None
    """How often for each verb and resource; None: always."""
    used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def bites(self, asked: Asked) -> bool:
        """Return whether it is this request's turn, and count it."""
        if asked.verb not in self.verbs:
            return False
        self.used[asked.verb, asked.resource] += 1
        return self.each is None or self.used[asked.verb, asked.resource] <= self.each


class Proxy:
    """One listener with rules. It has a thread and an event loop of its own; all methods are for other threads."""

    def __init__(self, state: State, name: str) -> None:
        self.seen: list[Seen] = []
        self.kubeconfig: Path = state.root / f"{name}.kubeconfig"
        (self._port,) = free_ports(1)
        self.upstream: str = self._write(state.kubeconfig, self.kubeconfig)["server"]
        self._write(state.kubeconfig, self.kubeconfig, server=self._address)
        self._server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._server_tls.load_cert_chain(state.certificate, state.certificate_key)
        self._client_tls = ssl.create_default_context(cafile=str(state.certificate))
        self._rules: list[Rule] = []
        self._open: set[asyncio.BaseTransport] = set()
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._live, name=f"proxy-{name}", daemon=True)

    # What tests do.

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Listen."""
        self._thread.start()
        self._do(self._begin())
        return self

    def stop(self) -> None:
        """End, with every connection."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def rule(self, fault: Fault, verbs: str, *, each: int | None = None) -> None:
        """Break requests of these verbs; the oldest rule that bites counts."""
        self._rules.append(Rule(fault, frozenset(verbs.split()), each))

    def refuse(self) -> None:
        """Close the port and every connection: connection refused, as from a host without a server."""
        self._do(self._shut())

    def accept(self, *, tls: bool = True) -> None:
        """Listen again; without TLS what answers is no HTTPS server."""
        self._do(self._listen(tls=tls))

    def rename(self, name: str) -> None:
        """Let clients expect another server's certificate."""
        self._write(self.kubeconfig, self.kubeconfig, **{"tls-server-name": name})

    def kubeconfig_of(self, account: Path) -> Path:
        """Return the kubeconfig of an account that leads through this proxy."""
        file = self.kubeconfig.with_name(f"{self.kubeconfig.stem}-{account.name}")
        self._write(account, file, server=self._address)
        return file

    def watches(self, plugin: str) -> bool:
        """Return whether its client has read everything once: the pods of its driver client come last."""
        watched = [one for one in self.asked("watch", "pods") if plugin in one.asked.target]
        return any((one.status, one.fault) in {(HTTPStatus.OK, ""), (0, "cut_short")} for one in watched)

    def cut(self) -> None:
        """Break every connection, watches included; new ones are accepted."""
        self._loop.call_soon_threadsafe(self.abort_all)

    def asked(self, verb: str, resource: str = "") -> list[Seen]:
        """Return the requests of a kind, oldest first."""
        return [one for one in list(self.seen) if one.asked.verb == verb and resource in {"", one.asked.resource}]

    # What faults do, in the loop.

    def abort_all(self) -> None:
        """Break every connection."""
        for transport in list(self._open):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()

    async def forward(self, request: web.BaseRequest, body: bytes) -> aiohttp.ClientResponse:
        """Send a request on to the API server."""
        headers = {name: value for name, value in request.headers.items() if name.lower() in HEADERS}
        url = self.upstream + request.path_qs
        return await self._session.request(
            request.method, url, data=body or None, headers=headers, allow_redirects=False
        )

    async def relay(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Send an answer back, as it comes."""
        headers = {name: answer.headers[name] for name in PASSED_ON if name in answer.headers}
        if request.query.get("watch") != "true":
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        async for part in answer.content.iter_any():
            await response.write(part)
        return response

    # How it works.

    @property
    def _address(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @staticmethod
    def _write(source: Path, target: Path, **changes: str) -> dict[str, str]:
        """Write a kubeconfig with another cluster; return what it says of that cluster."""
        config = yaml.safe_load(source.read_text())
        cluster: dict[str, str] = config["clusters"][0]["cluster"]
        cluster.update(changes)
        target.write_text(yaml.safe_dump(config))
        return cluster

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(START_SECONDS)

    async def _begin(self) -> None:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(ssl=self._client_tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=limits)
        server = web.Server(self._handle, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen(tls=True)

    async def _shut(self) -> None:
        for site in list(self._runner.sites):
            await site.stop()
        self.abort_all()

    async def _listen(self, *, tls: bool) -> None:
        await self._shut()
        context = self._server_tls if tls else None
        await web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=context).start()

    async def _end(self) -> None:
        self.abort_all()
        await self._runner.cleanup()
        await self._session.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        # A TLS connection is closed only after the other side has answered. One socket is the loop's own.
        while len(self._selector.get_map()) > 1:  # noqa: ASYNC110 - a selector reports no such change
            await asyncio.sleep(0.01)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, or break it."""
        seen = Seen(time.monotonic(), Asked.of(request))
        self.seen.append(seen)
        if request.transport is not None:
            self._open.add(request.transport)
        body = await request.read()
        fault = next((rule.fault for rule in list(self._rules) if rule.bites(seen.asked)), None)
        try:
            if fault is not None:
                seen.fault = getattr(fault, "__qualname__", "").partition(".")[0]
                answer = await fault(self, request, body)
                if answer is not None:
                    whole = request.transport is not None and not request.transport.is_closing()
                    seen.status = answer.status if whole else 0
                    return answer
            upstream = await self.forward(request, body)
            seen.status = upstream.status
            with contextlib.closing(upstream):
                return await self.relay(request, upstream)
        except (aiohttp.ClientError, OSError):
            # The server behind us is gone, or the client is: either way the connection breaks.
            return abort(request)


def abort(request: web.BaseRequest) -> web.Response:
    """Break a request's connection without another byte."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
