"""Limit the time of a whole response, from connecting to its last byte.

The libraries only limit each wait for the socket. A server that sends single bytes never exceeds that limit.
"""

from __future__ import annotations

import http.client
import io
import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_END: Final[ContextVar[float]] = ContextVar("end", default=math.inf)
"""Deadline of the response to the request that this thread sends, by the monotonic clock."""


@contextmanager
def by(end: float) -> Iterator[None]:
    """Set the deadline for responses to requests that are sent inside the context, by the monotonic clock.

    It also applies if the response is read later. It needs a `bounded` pool.
    """
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def bounded(pool: urllib3.PoolManager) -> urllib3.PoolManager:
    """Return a pool, which must have no connections yet, that enforces deadlines of responses."""
    pool.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return pool


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
