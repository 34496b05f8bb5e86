"""Transport: pools of connections, through a proxy or not, that limit the time of a whole response.

The libraries only limit each wait for the socket. A server that sends single bytes never exceeds that limit.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import time
from base64 import b64encode
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from hook.kube import tls

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

_END: Final[ContextVar[float]] = ContextVar("end", default=math.inf)
"""Deadline of the response to the request that this thread sends, by the monotonic clock."""


@contextmanager
def by(end: float) -> Iterator[None]:
    """Set the deadline for responses to requests that are sent inside the context, by the monotonic clock.

    It also applies if the response is read later. It needs a pool of this module.
    """
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


class _Reader(io.RawIOBase):
    """Bytes of one response. No wait for more of them exceeds the response's deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, end: float) -> None:
        self._raw, self._sock, self._end = raw, sock, end

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - a writable buffer, which 3.11 cannot name
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the response was not complete in time")
        wait = self._sock.gettimeout()
        if wait is None or left < wait:
            self._sock.settimeout(left if left < math.inf else None)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """Response whose status, headers and body are read through a `_Reader`."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - http.client's own
        super().__init__(sock, *arguments, **named)
        self.fp: io.BufferedReader = io.BufferedReader(_Reader(self.fp.detach(), sock, _END.get()))


class _Connection(HTTPConnection):
    response_class = _Answer

    def connect(self) -> None:
        super().connect()
        _refuse_if_late(self)


class _SecureConnection(HTTPSConnection):
    response_class = _Answer

    def connect(self) -> None:
        super().connect()
        _refuse_if_late(self)


def _refuse_if_late(connection: HTTPConnection) -> None:
    """Raise TimeoutError if connecting took too long: with several addresses, each one has the full timeout."""
    if time.monotonic() >= _END.get():
        connection.close()
        raise TimeoutError("connecting took too long")


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


CONNECTIONS: Final = 64
"""Connections that the pool keeps open: two per watch while a run confirms its end, some for lists and writes."""
KEEP_ALIVE: Final = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9))
        if hasattr(socket, name)
    ),
)
"""Socket options as of client-go."""


def pool(context: ssl.SSLContext | None = None, server_name: str = "", proxy: str = "") -> urllib3.PoolManager:
    """Return a pool that connects through a proxy, if one is given, and that enforces the deadlines of responses."""
    options: dict[str, Any] = {"maxsize": CONNECTIONS, "socket_options": KEEP_ALIVE, "ssl_context": context}
    options["server_hostname"] = server_name or None
    if proxy.startswith("socks"):
        return _through_socks(proxy, options)
    made = urllib3.PoolManager(**options)
    if proxy:
        to_proxy = tls.context(tls.Trust()) if proxy.startswith("https:") else None
        made = _Through(proxy, proxy_headers=_authorization(proxy), proxy_ssl_context=to_proxy, **options)
    made.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return made


class _Through(urllib3.ProxyManager):
    """Pool that connects through a proxy. The base class would join headers of the same name for plain HTTP."""

    urlopen = urllib3.PoolManager.urlopen


def _authorization(proxy: str) -> dict[str, str]:
    """Return the header for the account in a proxy's URL, if there is one."""
    url = urlsplit(proxy)
    if url.username is None:
        return {}
    account = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(account.encode()).decode()}"}


def _through_socks(proxy: str, options: dict[str, Any]) -> urllib3.PoolManager:
    """Return a pool that connects through a SOCKS proxy, which looks up the host's name as with Go."""
    from urllib3.contrib import socks  # noqa: PLC0415 - no other connection needs it

    class Plain(_Connection, socks.SOCKSConnection):
        pass

    class Secure(_SecureConnection, socks.SOCKSHTTPSConnection):
        pass

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    made = socks.SOCKSProxyManager(f"socks5h:{proxy.partition(':')[2]}", **options)
    made.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return made
