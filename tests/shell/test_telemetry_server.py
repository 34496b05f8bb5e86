"""The follower's HTTP server: what it answers, and that nobody holds it up."""

from __future__ import annotations

import http.client
import socket
import time
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devcluster.patience import TooSlowError
from hook.cluster.counters import Counters
from hook.errors import HookError, SettingsError
from hook.following.server import CONNECTIONS, REQUEST_BYTES, address, serve
from hook.following.telemetry import Telemetry
from tests.shell.follower import NOW, decision, memories, verified

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENT_SECONDS: Final = 60.0
"""For an answer: far beyond the server's own patience, on a busy machine."""


@pytest.fixture
def telemetry() -> Telemetry:
    """Give a follower that stands by."""
    return Telemetry(Counters())


@pytest.fixture
def port(telemetry: Telemetry) -> Iterator[int]:
    """Serve it on a free port."""
    with closing(serve(telemetry, "127.0.0.1:0")) as server:
        yield server.port


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
    """Ask, and give status, headers and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENT_SECONDS)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


@contextmanager
def connected(port: int, said: bytes = b"") -> Iterator[socket.socket]:
    """Connect, say something, and keep the connection open."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENT_SECONDS)) as connection:
        connection.sendall(said)
        yield connection


def rest(connection: socket.socket) -> bytes:
    """Read until the server closes; one that is cut off sends nothing or a reset."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionError:
        return received
    except TimeoutError:
        raise TooSlowError(f"the server did not close within {PATIENT_SECONDS:.0f} s") from None
    return received


def test_health(telemetry: Telemetry, port: int) -> None:
    """The two probes answer by what the follower did, with a sentence for people."""
    assert ask(port, "/readyz")[::2] == (503, "no Lease request was sent yet\n")
    telemetry.trying()
    assert ask(port, "/healthz")[::2] == ask(port, "/readyz")[::2] == (200, "standby\n")
    telemetry.leading(leading=True)
    assert ask(port, "/healthz")[::2] == (200, "leader\n")
    assert ask(port, "/readyz")[::2] == (503, "the cluster has not been read yet\n")
    telemetry.round(decision([verified()]), memories(), None, NOW)
    assert ask(port, "/readyz?verbose")[::2] == (200, "leader\n")


def test_a_loop_that_hangs() -> None:
    """Without progress both probes fail, however often they are asked."""
    times = [0.0]
    telemetry = Telemetry(Counters(), clock=lambda: times[0])
    with closing(serve(telemetry, "127.0.0.1:0")) as server:
        assert ask(server.port, "/healthz")[0] == 200
        times[0] = 300.0
        for _probe in range(3):
            assert ask(server.port, "/healthz")[0] == ask(server.port, "/readyz")[0] == 503


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        pytest.param("*/*", "text/plain", id="anybody"),
        pytest.param("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "openmetrics", id="prometheus"),
    ],
)
def test_metrics(telemetry: Telemetry, port: int, accept: str, kind: str) -> None:
    """Metrics come in the format that is asked for."""
    telemetry.leading(leading=True)
    status, headers, body = ask(port, "/metrics", accept=accept)
    assert (status, headers["content-length"]) == (200, str(len(body)))
    assert kind in headers["content-type"]
    samples = {one.name: one.value for family in text_string_to_metric_families(body) for one in family.samples}
    assert samples["gpu_operator_post_leader"] == 1


def test_nothing_else(port: int) -> None:
    """There is nothing else to be had, and no word of what it runs on."""
    for path in ("/", "/metrics/", "/debug", "/healthz/../metrics"):
        assert ask(port, path)[0] == 404, path
    status, headers, body = ask(port, "/healthz", "HEAD")
    assert (status, headers["content-length"], body) == (200, "8", "")
    assert "python" not in headers["server"].lower()
    for method in ("POST", "PUT", "DELETE", "CONNECT"):
        assert ask(port, "/metrics", method)[0] == 501, method


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"GET /metrics?" + b"a" * REQUEST_BYTES, id="endless-line"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * REQUEST_BYTES, id="endless-headers"),
        pytest.param(b"GET /healthz HTTP/1.1\r\na: " + b"b" * 10 * REQUEST_BYTES, id="endless-header"),
        pytest.param(b"\0" * REQUEST_BYTES, id="rubbish"),
    ],
)
def test_what_is_too_long(port: int, said: bytes) -> None:
    """No more than 8 KiB of a request are read; then it is answered, or the connection ends."""
    with connected(port) as connection:
        try:
            connection.sendall(said)
        except ConnectionError:
            return
        assert len(rest(connection)) < 1024
    assert ask(port, "/healthz")[0] == 200


def test_who_does_not_go_on(port: int) -> None:
    """A request that does not come to an end is not waited for, and one that drips has no more time than others."""
    unfinished = (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nhost: x\r\n")
    with ExitStack() as held:
        silent = [held.enter_context(connected(port, said)) for said in unfinished]
        _drip(held.enter_context(connected(port, b"GET /metrics HTTP/1.1\r\n")))
        assert [b"" for _one in silent] == [rest(connection) for connection in silent]


def _drip(connection: socket.socket) -> None:
    """Send a byte now and then until the server closes."""
    connection.settimeout(0.5)
    for _second in range(2 * int(PATIENT_SECONDS)):
        try:
            connection.sendall(b"a")
            if not connection.recv(1):
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    raise TooSlowError("the connection is still open")


def test_probes_beside_many_connections(port: int) -> None:
    """Whoever keeps connections open loses the oldest of them; the kubelet is answered at once."""
    with ExitStack() as held:
        connections = [held.enter_context(connected(port, b"GET ")) for _one in range(3 * CONNECTIONS)]
        started = time.monotonic()
        assert ask(port, "/healthz")[0] == 200
        assert time.monotonic() - started < PATIENT_SECONDS
        assert rest(connections[0]) == b""


def test_who_does_not_read(telemetry: Telemetry, port: int) -> None:
    """A client that asks and never reads costs a connection for a moment, and nobody else anything."""
    telemetry.leading(leading=True)
    with ExitStack() as held:
        for _one in range(CONNECTIONS):
            held.enter_context(connected(port, b"GET /metrics HTTP/1.0\r\n\r\n"))
        assert ask(port, "/metrics")[0] == 200


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9090", ("::1", 9090)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_addresses(listen: str, expected: tuple[str, int]) -> None:
    """Host and port, as everybody writes them."""
    assert address(listen) == expected


@pytest.mark.parametrize("listen", ["", "8080", ":", ":http", ":65536", ":-1", "::1:80", "[::1]", "[::1]80", ":\u0668"])
def test_no_addresses(listen: str) -> None:
    """What is no address is refused with an example."""
    with pytest.raises(SettingsError, match="write host:port, such as :8080"):
        address(listen)


def test_everywhere(telemetry: Telemetry) -> None:
    """Without a host it answers on every address, by IPv4 and, where there is IPv6, by that."""
    with closing(serve(telemetry, ":0")) as server:
        assert ask(server.port, "/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            with closing(http.client.HTTPConnection("::1", server.port, timeout=PATIENT_SECONDS)) as connection:
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200


def test_a_port_that_is_taken(telemetry: Telemetry, port: int) -> None:
    """It says so, as an error that another try may mend."""
    with pytest.raises(HookError, match=rf"cannot listen on 127.0.0.1:{port}: ") as raised:
        serve(telemetry, f"127.0.0.1:{port}")
    assert not isinstance(raised.value, SettingsError)


def test_closed(telemetry: Telemetry) -> None:
    """Once closed nobody answers."""
    server = serve(telemetry, "127.0.0.1:0")
    server.close()
    with pytest.raises(ConnectionError):
        ask(server.port, "/healthz")
