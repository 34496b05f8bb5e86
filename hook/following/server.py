"""HTTP server for /metrics, /healthz and /readyz.

Each connection is one request of at most 8 KiB. The request and the response must each be complete within seconds. The
server always accepts a new connection, and closes the oldest one if there are too many, so that a client with many
open connections cannot lock out the kubelet's probes.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder

from hook import __version__
from hook.errors import HookError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.following.telemetry import Telemetry

REQUEST_BYTES: Final = 8192
"""Longest request line with headers, in bytes. Those of Prometheus and the kubelet have a few hundred."""
REQUEST_SECONDS: Final = 5.0
"""Timeout from connection to the end of the headers, and again for the response."""
CONNECTIONS: Final = 16
"""Most concurrent connections. Two Prometheus replicas and two probes need four."""
LARGEST_PORT: Final = 65535
TEXT: Final = "text/plain; charset=utf-8"

Answer = tuple[HTTPStatus, str, bytes]


def address(listen: str) -> tuple[str, int]:
    """Return host and port from ``host:port``. An empty host means all addresses. IPv6 addresses are in brackets."""
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > LARGEST_PORT or (":" in host) != bracketed:
        raise SettingsError(
            f"cannot listen on {listen!r}: write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080"
        )
    return host[1:-1] if bracketed else host, int(port)


class Server:
    """Server that listens from construction until it is closed. Its threads do not keep the process alive."""

    def __init__(self, telemetry: Telemetry, listen: str) -> None:
        host, port = address(listen)
        try:
            self._http = _Http(host, port, telemetry)
        except OSError as error:
            raise HookError(f"cannot listen on {listen}: {error.strerror or error}") from error
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, name="telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening. Open responses end with the process."""
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    """HTTP server with a limit on concurrent connections."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 8 * CONNECTIONS
    """Backlog, so that many connections do not block a probe."""

    def __init__(self, host: str, port: int, telemetry: Telemetry) -> None:
        self.telemetry = telemetry
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._everywhere = not host
        self.address_family = _family(host)
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Listen on IPv4 and IPv6 if no host is set, independent of the kernel's default."""
        if self._everywhere and self.address_family is socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind resolves the host's name, which may take long and is not needed.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Accept a connection, and close the oldest one if there are too many."""
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= CONNECTIONS else None
            self._open[request] = None
        if oldest is not None:
            _cut(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as the library has it
        """Close a connection and drop its record."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Ignore clients that closed the connection or were disconnected."""


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: _Http
    server_version = f"gpu-operator-post/{__version__}"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def setup(self) -> None:
        """Limit the bytes and the time of a request."""
        super().setup()
        self.rfile = io.BufferedReader(_Gate(self.connection), 1024)

    def do_GET(self) -> None:
        """Respond with a body."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Respond without a body."""
        self._answer(body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Refuse other methods with a short text. The library's error page would repeat the request."""
        self._send(HTTPStatus(code), TEXT, b"only GET is answered\n", body=True)

    def log_message(self, *_arguments: object) -> None:
        """Do not log requests: the kubelet sends a probe every ten seconds."""

    def _answer(self, *, body: bool) -> None:
        route = _ROUTES.get(urlsplit(self.path).path)
        accept = self.headers.get("accept", "")
        self._send(*(route(self.server.telemetry, accept) if route else _NOT_FOUND), body=body)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, *, body: bool) -> None:
        self.connection.settimeout(REQUEST_SECONDS)
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


class _Gate(io.RawIOBase):
    """Reader with a limit on bytes and on total time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = REQUEST_BYTES
        self._until = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any buffer
        """Read available bytes within the limits."""
        seconds = self._until - time.monotonic()
        if seconds <= 0 or not self._left:
            raise TimeoutError
        self._connection.settimeout(seconds)
        read = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= read
        return read


def _family(host: str) -> socket.AddressFamily:
    if not host:
        return socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _cut(connection: socket.socket) -> None:
    """Close a connection that another thread handles."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _metrics(telemetry: Telemetry, accept: str) -> Answer:
    encoder, kind = choose_encoder(accept)
    return HTTPStatus.OK, kind, encoder(telemetry.registry)


def _healthz(telemetry: Telemetry, _accept: str) -> Answer:
    health = telemetry.health
    return _verdict(health.dead, health.role)


def _readyz(telemetry: Telemetry, _accept: str) -> Answer:
    health = telemetry.health
    return _verdict(health.unready, health.role)


def _verdict(trouble: str, role: str) -> Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    return status, TEXT, f"{trouble or role}\n".encode()


_NOT_FOUND: Final = HTTPStatus.NOT_FOUND, TEXT, b"try /metrics, /healthz or /readyz\n"
_ROUTES: Final[dict[str, Callable[[Telemetry, str], Answer]]] = {
    "/metrics": _metrics,
    "/healthz": _healthz,
    "/readyz": _readyz,
}


def serve(telemetry: Telemetry, listen: str) -> Server:
    """Start the server."""
    return Server(telemetry, listen)
