"""Connection to the API server: address, credentials, and limits on the time of a response.

The libraries only limit each wait for the socket. A server that sends single bytes never exceeds that limit.

In a pod, this needs a few files and two environment variables. For all other ways (contexts, client certificates,
plugins, proxies) there is the client library. Its import costs 18 MiB and half of the time to the first request, so
this module imports it only if a kubeconfig or a proxy needs it.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import math
import os
import socket
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from hook.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kubernetes.client import Configuration

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


CONNECTIONS: Final = 64
"""Connections that the pool keeps open: two per watch while a run confirms its end, some for lists and writes."""
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
"""Environment variables that the kubelet sets in every pod."""
TOKEN_SECONDS: Final = 60.0
"""Time for which a token is used before its file is read again. The kubelet replaces it at 80 % of its life."""
KEEP_ALIVE: Final = (
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 9))
        if hasattr(socket, name)
    ),
)
"""Socket options as of client-go, and of the client library with ``keep_alive``."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Connection to one API server, with credentials."""

    host: str
    """Address with scheme."""
    pool: urllib3.PoolManager
    authorization: Callable[[], str]
    """Returns the Authorization header, or "". Raises OSError or ValueError."""


def connect(kubeconfig: str, context: str, service_account_dir: str) -> Connection:
    """Connect by kubeconfig if one is set or there is no ServiceAccount token, else as the ServiceAccount."""
    folder = Path(service_account_dir)
    if kubeconfig or context or not (folder / "token").is_file():
        return _by_kubeconfig(kubeconfig, context)
    try:
        return _in_cluster(folder)
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot use the ServiceAccount in {folder}: {_one_line(error)}") from error


def by_library(configuration: Configuration) -> Connection:
    """Connect with the transport of the client library."""
    from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415 - see above
    from kubernetes.config import ConfigException  # noqa: PLC0415

    configuration.keep_alive = True
    configuration.connection_pool_maxsize = CONNECTIONS

    def authorization() -> str:
        try:
            return configuration.get_api_key_with_prefix("BearerToken", alias="authorization") or ""
        except ConfigException as error:
            raise ValueError(str(error)) from error

    pool = bounded(RESTClientObject(configuration).pool_manager)
    return Connection(str(configuration.host), pool, authorization)


def _in_cluster(folder: Path) -> Connection:
    host, port = os.environ.get(HOST, ""), os.environ.get(PORT, "")
    if not host or not port:
        raise ValueError(f"{HOST} and {PORT} are not set")
    authority = folder / "ca.crt"
    if not authority.read_bytes():
        raise ValueError(f"{authority} is empty")
    token = Token(folder / "token")
    token()
    if {"https", "all"} & getproxies().keys():
        return _in_cluster_by_library(folder)
    pool = urllib3.PoolManager(
        maxsize=CONNECTIONS,
        cert_reqs="CERT_REQUIRED",
        ca_certs=str(authority),
        socket_options=KEEP_ALIVE,
    )
    return Connection(f"https://{_bracketed(host)}:{port}", bounded(pool), token)


def _in_cluster_by_library(folder: Path) -> Connection:
    """Connect as the client library would by the same files."""
    from kubernetes.client import Configuration  # noqa: PLC0415 - see above
    from kubernetes.config import ConfigException  # noqa: PLC0415
    from kubernetes.config.incluster_config import InClusterConfigLoader  # noqa: PLC0415

    configuration = Configuration()
    try:
        InClusterConfigLoader(token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt")).load_and_set(
            configuration
        )
    except ConfigException as error:
        raise ValueError(str(error)) from error
    return by_library(configuration)


def _by_kubeconfig(kubeconfig: str, context: str) -> Connection:
    import yaml  # noqa: PLC0415 - see above
    from kubernetes import config  # noqa: PLC0415
    from kubernetes.client import Configuration  # noqa: PLC0415

    configuration = Configuration()
    try:
        config.load_kube_config(kubeconfig or None, context or None, configuration)
        return by_library(configuration)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, AttributeError) as error:
        where = kubeconfig or "the default kubeconfig or ServiceAccount"
        raise SettingsError(f"cannot use {where}: {_one_line(error)}") from error


class Token:
    """Token in a file that the kubelet replaces from time to time."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._header = ""
        self._until = 0.0

    def __call__(self) -> str:
        """Return the header. Raises OSError if the file cannot be read, ValueError if it is empty."""
        if time.monotonic() >= self._until:
            token = self._file.read_text(encoding="ascii").strip()
            if not token:
                raise ValueError(f"{self._file} is empty")
            self._header = f"bearer {token}"
            self._until = time.monotonic() + TOKEN_SECONDS
        return self._header


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host  # noqa: PLR2004 - IPv6
    except ValueError:
        return host


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
