"""The controller's HTTP server: what it answers, and that no client that hangs holds it up."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devcluster.patience import TooSlowError
from hook.errors import HookError, SettingsError
from hook.kube.client import Counters
from hook.run.health import _Handler, address, serve
from hook.run.metrics import Telemetry
from hook.run.status import ControllerState
from tests.client.controller import NOW, decision, memories, verified

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENT_SECONDS: Final = 60.0
"""For an answer: far beyond the server's own patience, on a busy machine."""


@pytest.fixture
def telemetry() -> Telemetry:
    """Give a follower that stands by."""
    return Telemetry(Counters())


@contextmanager
def served(telemetry: Telemetry, listen: str = "127.0.0.1:0") -> Iterator[int]:
    """Serve it on a free port."""
    server = serve(telemetry.health, telemetry.registry, listen)
    try:
        yield server.port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def port(telemetry: Telemetry) -> Iterator[int]:
    """Serve it on a free port."""
    with served(telemetry) as port:
        yield port


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
    telemetry.reconciled(ControllerState(decision([verified()]), memories(), NOW))
    assert ask(port, "/readyz?verbose")[::2] == (200, "leader\n")


def test_a_loop_that_hangs() -> None:
    """Without progress both probes fail, however often they are asked."""
    times = [0.0]
    telemetry = Telemetry(Counters(), clock=lambda: times[0])
    with served(telemetry) as port:
        assert ask(port, "/healthz")[0] == 200
        times[0] = 300.0
        for _probe in range(3):
            assert ask(port, "/healthz")[0] == ask(port, "/readyz")[0] == 503


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


@pytest.mark.parametrize("unfinished", [b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nhost: x\r\n"])
def test_a_request_that_does_not_end(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, unfinished: bytes) -> None:
    """Others are answered meanwhile, and after a while without a byte the connection ends."""
    with served(telemetry) as port, connected(port, unfinished):
        assert ask(port, "/healthz")[0] == 200
    monkeypatch.setattr(_Handler, "timeout", 0.1)
    with served(telemetry) as port, connected(port, unfinished) as connection:
        assert rest(connection) == b""


def test_a_client_that_does_not_read(telemetry: Telemetry, port: int) -> None:
    """It costs one thread for a moment, and others nothing."""
    telemetry.leading(leading=True)
    with connected(port, b"GET /metrics HTTP/1.0\r\n\r\n"):
        assert ask(port, "/metrics")[0] == 200


def test_a_client_that_goes_away_is_not_reported(telemetry: Telemetry, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither what asks nor what breaks off is worth a line."""
    with served(telemetry) as port:
        with connected(port, b"GET /metrics HTTP/1.0\r\n") as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ask(port, "/healthz")[0] == 200
    assert capfd.readouterr() == ("", "")


def test_its_threads_do_not_keep_the_process_alive(telemetry: Telemetry) -> None:
    """Neither the one that listens nor one that answers a client that hangs."""
    before = set(threading.enumerate())
    with served(telemetry) as port, connected(port, b"GET "):
        assert ask(port, "/healthz")[0] == 200
        begun = set(threading.enumerate()) - before
        assert begun
        assert all(thread.daemon for thread in begun)


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
    with served(telemetry, ":0") as port:
        assert ask(port, "/healthz")[0] == 200
        if socket.has_dualstack_ipv6():
            with closing(http.client.HTTPConnection("::1", port, timeout=PATIENT_SECONDS)) as connection:
                connection.request("GET", "/healthz")
                assert connection.getresponse().status == 200


def test_a_port_that_is_taken(telemetry: Telemetry, port: int) -> None:
    """It says so, as an error that another try may mend."""
    with pytest.raises(HookError, match=rf"cannot listen on 127.0.0.1:{port}: ") as raised:
        serve(telemetry.health, telemetry.registry, f"127.0.0.1:{port}")
    assert not isinstance(raised.value, SettingsError)
