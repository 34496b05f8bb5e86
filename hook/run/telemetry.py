"""What the controller shows on its port: metrics for Prometheus, and answers to the probes of the kubelet."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter as Tally
from dataclasses import dataclass
from http import HTTPStatus
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from hook.decide.reasons import Reason
from hook.decide.result import TERMINAL, NodeState
from hook.errors import HookError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client.core import Metric

    from hook.decide.result import Decision, NodeStatus
    from hook.decide.workloads import Affected
    from hook.kube.client import Counters
    from hook.kube.events import ObjectReference
    from hook.kube.informer import OutOfSync
    from hook.run.restarts import RestartResult


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Result of one reconcile of the leader. Metrics, log, Events and the status object derive from it."""

    decision: Decision
    now: datetime
    """Time of the reconcile."""
    affected: Affected
    """Pods that may hold files of an old driver."""
    lost: OutOfSync | None = None
    """Why the cache is out of sync."""
    restarted: int = 0
    """Plugins that this leader has restarted."""
    oldest_taint: datetime | None = None
    """When the oldest device taint rule of the release was created."""


# Health.

ALIVE_SECONDS: Final = 120.0
"""Time without progress after which the process hangs. The longest step without progress takes about 25 s: 15 s for
restarts (their retries end with the Lease), 2 s to write the status object, and 5 s of waiting."""
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
        self.leading = False
        self._reconciled = False
        """Whether this leader has finished a reconcile."""
        self.lost: OutOfSync | None = None
        """Why the cache is out of sync."""

    def lead(self, *, leading: bool) -> None:
        """Start again as leader or as standby."""
        self._reconciled, self.lost = False, None
        self._moved, self.leading = self._clock(), leading

    def try_for_the_lease(self, trouble: str = "") -> None:
        """Record a Lease request. It is progress of a standby, but proves nothing about a leader's reconcile loop."""
        self._trouble = trouble
        if not trouble:
            self._answered = self._clock()
        if not self.leading:
            self._moved = self._clock()

    def wait(self, lost: OutOfSync | None) -> None:
        """Record progress while the cache is not synced."""
        self._moved, self.lost = self._clock(), lost

    def reconciled(self, lost: OutOfSync | None) -> None:
        """Record a finished reconcile."""
        self._reconciled = True
        self.wait(lost)

    @property
    def dead(self) -> str:
        """Return why the process should be restarted, or ""."""
        idle = self._clock() - self._moved
        what = "reconcile was finished" if self.leading else "Lease request was sent"
        return f"no {what} for {idle:.0f} s" if idle > ALIVE_SECONDS else ""

    @property
    def unready(self) -> str:
        """Return why a leader does not act, or a standby could not take over; or ""."""
        lost = self.lost
        if self.dead or not self.leading:
            return self.dead or self._out_of_reach
        if lost is not None and lost.seconds > UNREADY_SECONDS:
            return str(lost)
        return "" if self._reconciled else "the cluster has not been read yet"

    @property
    def _out_of_reach(self) -> str:
        """Return why a standby could not take over, or ""."""
        if self._clock() - self._answered <= UNREADY_SECONDS:
            return ""
        return f"the Lease is not available: {self._trouble}" if self._trouble else "no Lease request was sent yet"

    @property
    def role(self) -> str:
        """Return the role of the replica: leader or standby."""
        return "leader" if self.leading else "standby"


# Metrics.

PREFIX: Final = "gpu_operator_post"
RESTARTED: Final = "restarted"
REFUSED: Final = "refused"
FAILED: Final = "failed"
RESULTS: Final = (RESTARTED, REFUSED, FAILED)
"""Results of a restart."""
LEAST_ADVANCED: Final = tuple(NodeState(name) for name in (
    "Failed", "Stale", "Waiting", "Restarting", "Verifying", "Verified", "Excluded",
))  # fmt: skip
"""Severity order: the worst status of a node is the one that counts."""

Key = tuple[str, str]
"""Node, plugin."""


def by_node(statuses: Iterable[NodeStatus]) -> dict[tuple[str, str], int]:
    """Return the number of nodes by state and reason. Each node counts once, by its worst status."""
    worst: dict[str, NodeStatus] = {}
    for status in statuses:
        key = status.node
        if key not in worst or LEAST_ADVANCED.index(status.state) < LEAST_ADVANCED.index(worst[key].state):
            worst[key] = status
    return Tally((str(status.state), str(status.reason)) for status in worst.values())


def stale_since(before: Mapping[Key, datetime], statuses: Iterable[NodeStatus], now: datetime) -> dict[Key, datetime]:
    """Return since when each plugin is stale. It is stale until its successor is verified, whatever comes before."""
    unverified = [status for status in statuses if status.state not in TERMINAL]
    pending = {(status.node, status.plugin) for status in unverified}
    # While a driver reloads, its node has one status, which names no plugin.
    since = {key: began for key, began in before.items() if key in pending or (key[0], "") in pending}
    for status in unverified:
        if status.stale is not None or status.reason is Reason.TAINT_NOT_TOLERATED:
            key = status.node, status.plugin
            ready = status.stale.driver_ready if status.stale is not None else None
            since[key] = min(since.get(key, now), ready or now)
    return since


class Telemetry(Collector):
    """Records what the controller does, and shows it at each scrape. Safe to use from several threads."""

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._lock = threading.Lock()
        self.health = Health(clock)
        """What /healthz and /readyz show."""
        self._state: ControllerState | None = None
        """State after the last reconcile of this leader."""
        self._stale_since: dict[Key, datetime] = {}
        self._restarts: Tally[tuple[str, str]] = Tally()
        """Restarts by plugin and result."""
        self._last_reconcile = 0.0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def leading(self, leading: bool) -> None:
        """Record that the Lease was acquired or lost. A standby has no metrics of the fleet."""
        with self._lock:
            self.health.lead(leading=leading)
            self._state, self._stale_since = None, {}

    def reconciled(self, state: ControllerState) -> None:
        """Record a finished reconcile."""
        statuses = state.decision.statuses
        with self._lock:
            self._state, self._last_reconcile = state, time.time()
            self._stale_since = stale_since(self._stale_since, statuses, state.now)
            # Prometheus does not see the first increment of a counter that starts with it.
            for plugin in {status.plugin for status in statuses} - {""}:
                for result in RESULTS:
                    self._restarts.setdefault((plugin, result), 0)
        self.health.reconciled(state.lost)

    def executed(self, result: RestartResult, plugin: ObjectReference | None) -> None:
        """Record a restart and its result. The DaemonSet of the plugin may be gone already."""
        outcome = REFUSED if result.refused else FAILED if result.trouble else RESTARTED
        with self._lock:
            self._restarts[str(plugin or ""), outcome] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Label values that no longer exist are gone with the next scrape."""
        with self._lock:
            state, since, restarts = self._state, min(self._stale_since.values(), default=None), dict(self._restarts)
            leading, reconciled, lost = self.health.leading, self._last_reconcile, self.health.lost
        yield _gauge("leader", "1 while this replica holds the Lease and acts, else 0", float(leading))
        yield _gauge("last_reconcile_timestamp_seconds", "Time of the last finished reconcile", reconciled)
        out_of_sync = "Seconds for which the cache has been out of sync; 0 while in sync"
        yield _gauge("cache_out_of_sync_seconds", out_of_sync, lost.seconds if lost is not None else 0.0)
        nodes = GaugeMetricFamily(f"{PREFIX}_nodes", "Nodes by state and reason", labels=["state", "reason"])
        for labels, count in by_node(state.decision.statuses if state is not None else ()).items():
            nodes.add_metric(labels, count)
        yield nodes
        oldest = "Time since which the plugin that has waited longest is stale; absent if none is"
        yield _gauge("oldest_stale_timestamp_seconds", oldest, since.timestamp() if since is not None else None)
        affected = "Pods that may hold files of an old driver; absent while unknown"
        yield _gauge("affected_pods", affected, _known(state.affected if state is not None else None))
        taint = state.oldest_taint if state is not None else None
        created = "Time at which the oldest device taint rule of the release was created; absent without rules"
        yield _gauge("oldest_device_taint_timestamp_seconds", created, taint.timestamp() if taint is not None else None)
        yield _counter("restarts", "Restarts of stale plugins", ("plugin", "result"), restarts)
        yield _counter("api_errors", "Requests that failed", ("code", "verb", "resource"), self._counters.errors)


def _known(affected: Affected | None) -> int | None:
    """Return the number of affected pods; None while it is not known, because 0 would resolve an alert."""
    return None if affected is None or affected.unknown else len(affected.pods)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    """Return a gauge without labels, and without a sample if there is no value."""
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counter(name: str, text: str, labels: tuple[str, ...], counts: Mapping[Any, int]) -> Metric:
    """Return a counter; each key of `counts` has the values of all labels."""
    family = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


# The server.

WAIT_SECONDS: Final = 5.0
"""Timeout for the next bytes of a request, and for a client that does not read its response."""
LARGEST_PORT: Final = 65535


def address(listen: str) -> tuple[str, int]:
    """Return host and port from ``host:port``. An empty host means all addresses. IPv6 addresses are in brackets."""
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > LARGEST_PORT or (":" in host) != bracketed:
        raise SettingsError(
            f"cannot listen on {listen!r}: write host:port, such as :8080, 127.0.0.1:8080 or [::1]:8080"
        )
    return host[1:-1] if bracketed else host, int(port)


def serve(telemetry: Telemetry, listen: str) -> Server:
    """Start the server. Its threads do not keep the process alive. Raises HookError."""
    where = address(listen)
    try:
        server = Server(where)
    except OSError as error:
        raise HookError(f"cannot listen on {listen}: {error.strerror or error}") from error
    server.set_app(application(telemetry))
    threading.Thread(target=server.serve_forever, name="telemetry", daemon=True).start()
    return server


def application(telemetry: Telemetry) -> WSGIApplication:
    """Return what answers requests: the metrics by the library, and the probes."""
    metrics, health = make_wsgi_app(telemetry.registry), telemetry.health

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start_response)
            return found
        if path in ("/healthz", "/readyz"):
            trouble = health.dead if path == "/healthz" else health.unready
            status, text = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK, trouble or health.role
        else:
            status, text = HTTPStatus.NOT_FOUND, "try /metrics, /healthz or /readyz"
        start_response(f"{status} {status.phrase}", [("content-type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return answer


class Handler(WSGIRequestHandler):
    """Handler of one request."""

    timeout = WAIT_SECONDS

    def log_message(self, *_arguments: object) -> None:
        """Do not log requests: the kubelet sends a probe every ten seconds."""


class Server(ThreadingWSGIServer):
    """Server that listens on one address, or on all addresses of both IP families."""

    def __init__(self, where: tuple[str, int]) -> None:
        host, _port = where
        self._everywhere = not host and socket.has_dualstack_ipv6()
        if self._everywhere or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__(where, Handler)

    def server_bind(self) -> None:
        """Listen on IPv4 and IPv6 if no host is set, independent of the kernel's default."""
        if self._everywhere:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind resolves the host's name, which may take long and is not needed.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        """Ignore clients that disconnect; the library prints a traceback for each."""
