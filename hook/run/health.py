"""Liveness and readiness of the controller, and the HTTP server for probes and metrics."""

from __future__ import annotations

import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.exposition import choose_encoder

from hook import __version__
from hook.errors import HookError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from hook.kube.informer import OutOfSync
    from hook.run.status import ControllerState

ALIVE_SECONDS: Final = 120.0
"""Time without progress after which the process hangs. The longest step without progress takes about 45 s: 5 s for the
discovery of ResourceSlices, 15 s for restarts (their retries end with the Lease), 20 s to write the status against
conflicts, and 5 s of waiting."""
UNREADY_SECONDS: Final = 60.0
"""Time out of sync after which the controller is not ready. A control plane restarts within a minute."""


class Health:
    """Progress of the controller. ``dead`` and ``unready`` are empty, or return why.

    The reconcile loop and the thread that renews the Lease write, and threads of the server read. Each attribute is
    replaced as a whole, so no lock is needed: an answer may be one step behind.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._moved = clock()
        self._answered, self._trouble = float("-inf"), ""
        """When a Lease request last succeeded, and why the last one failed."""
        self._leading = False
        self._state: ControllerState | None = None
        """State after the last reconcile of this leader."""
        self.lost: OutOfSync | None = None
        """Why the cache is out of sync."""

    def lead(self, *, leading: bool) -> None:
        """Start again as leader or as standby."""
        self._state, self.lost = None, None
        self._moved, self._leading = self._clock(), leading

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Record a Lease request. It is progress of a standby, but proves nothing about a leader's reconcile loop."""
        self._trouble = trouble
        if not trouble:
            self._answered = self._clock()
        if not self._leading:
            self._moved = self._clock()

    def wait(self, lost: OutOfSync | None) -> None:
        """Record progress while the cache is not synced."""
        self._moved, self.lost = self._clock(), lost

    def reconciled(self, state: ControllerState) -> None:
        """Record a finished reconcile."""
        self._state, self.lost = state, state.lost
        self._moved = self._clock()

    @property
    def dead(self) -> str:
        """Return why the process should be restarted, or ""."""
        idle = self._clock() - self._moved
        what = "reconcile was finished" if self._leading else "Lease request was sent"
        return f"no {what} for {idle:.0f} s" if idle > ALIVE_SECONDS else ""

    @property
    def unready(self) -> str:
        """Return why a leader does not act, or a standby could not take over; or ""."""
        lost, state = self.lost, self._state
        if self.dead or not self._leading:
            return self.dead or self._out_of_reach
        if lost is not None and lost.seconds > UNREADY_SECONDS:
            return str(lost)
        return "the cluster has not been read yet" if state is None else ""

    @property
    def _out_of_reach(self) -> str:
        """Return why a standby could not take over, or ""."""
        if self._clock() - self._answered <= UNREADY_SECONDS:
            return ""
        return f"the Lease is not available: {self._trouble}" if self._trouble else "no Lease request was sent yet"

    @property
    def role(self) -> str:
        """Return the role of the replica: leader or standby."""
        return "leader" if self._leading else "standby"


WAIT_SECONDS: Final = 5.0
"""Timeout for the next bytes of a request, and for a client that does not read its response."""
LARGEST_PORT: Final = 65535
TEXT: Final = "text/plain; charset=utf-8"


def address(listen: str) -> tuple[str, int]:
    """Return host and port from ``host:port``. An empty host means all addresses. IPv6 addresses are in brackets."""
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > LARGEST_PORT or (":" in host) != bracketed:
        raise SettingsError(
            f"cannot listen on {listen!r}: write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080"
        )
    return host[1:-1] if bracketed else host, int(port)


def serve(health: Health, registry: CollectorRegistry, listen: str) -> Server:
    """Start the server. Its threads do not keep the process alive. Raises HookError."""
    host, port = address(listen)
    try:
        server = Server(health, registry, (host, port))
    except OSError as error:
        raise HookError(f"cannot listen on {listen}: {error.strerror or error}") from error
    threading.Thread(target=server.serve_forever, name="telemetry", daemon=True).start()
    return server


class Server(ThreadingHTTPServer):
    """Server that listens on one address, or on all addresses of both IP families."""

    def __init__(self, health: Health, registry: CollectorRegistry, where: tuple[str, int]) -> None:
        self.health, self.registry = health, registry
        host, _port = where
        self._everywhere = not host and socket.has_dualstack_ipv6()
        if self._everywhere or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__(where, _Handler)

    @property
    def port(self) -> int:
        """Return the port; with 0, the free one that was found."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Listen on IPv4 and IPv6 if no host is set, independent of the kernel's default."""
        if self._everywhere:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind resolves the host's name, which may take long and is not needed.
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Ignore clients that disconnect; the library prints a traceback for each."""


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    server: Server
    server_version = f"gpu-operator-post/{__version__}"
    sys_version = ""
    timeout = WAIT_SECONDS

    def do_GET(self) -> None:
        """Respond, to HEAD without a body."""
        status, kind, content = self._answer()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        """Respond without a body."""
        self.do_GET()

    def log_message(self, *_arguments: object) -> None:
        """Do not log requests: the kubelet sends a probe every ten seconds."""

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        path, health = self.path.partition("?")[0], self.server.health
        if path == "/metrics":
            encoder, kind = choose_encoder(self.headers.get("accept", ""))
            return HTTPStatus.OK, kind, encoder(self.server.registry)
        if path == "/healthz":
            return _probed(health.dead, health.role)
        if path == "/readyz":
            return _probed(health.unready, health.role)
        return HTTPStatus.NOT_FOUND, TEXT, b"try /metrics, /healthz or /readyz\n"


def _probed(trouble: str, role: str) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
    return status, TEXT, f"{trouble or role}\n".encode()
