"""Health: by the progress of the controller, and what its HTTP server answers, whatever clients do."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from socketserver import BaseServer

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hook.errors import HookError, SettingsError
from hook.kube.client import Counters
from hook.run.telemetry import WAIT_SECONDS, Handler, Telemetry, address, serve
from tests.client.server import PATIENCE
from tests.fixtures.statuses import state


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseServer.serve_forever, "__defaults__", (0.01,))


@contextmanager
def served(telemetry: Telemetry, listen: str = "127.0.0.1:0") -> Iterator[int]:
    """Serve it on a free port."""
    server = serve(telemetry, listen)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def telemetry() -> Telemetry:
    """Return the telemetry of a standby."""
    return Telemetry(Counters())


def ask(
    port: int, path: str, method: str = "GET", host: str = "127.0.0.1", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """Ask, and return status, headers and body."""
    with closing(http.client.HTTPConnection(host, port, timeout=PATIENCE)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


@contextmanager
def connected(port: int, sent: bytes = b"") -> Iterator[socket.socket]:
    """Connect, send something, and keep the connection open."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as connection:
        connection.sendall(sent)
        yield connection


def test_what_the_port_answers() -> None:
    """Probes by progress, with a sentence; metrics in the format that is asked for; no other page."""
    times = [0.0]
    telemetry = Telemetry(Counters(), clock=lambda: times[0])
    with served(telemetry) as port:
        assert ask(port, "/readyz")[::2] == (503, "no Lease request was sent yet\n")
        assert ask(port, "/healthz")[::2] == (200, "standby\n")
        assert ask(port, "/healthz")[1]["content-type"] == "text/plain; charset=utf-8"
        telemetry.leading(leading=True)
        telemetry.reconciled(state())
        assert ask(port, "/readyz?verbose")[::2] == (200, "leader\n")
        for accept, kind in (("*/*", "text/plain"), ("application/openmetrics-text;version=1.0.0", "openmetrics")):
            status, headers, body = ask(port, "/metrics", accept=accept)
            assert (status, headers["content-length"], kind in headers["content-type"]) == (200, str(len(body)), True)
            families = text_string_to_metric_families(body)
            samples = {sample.name: sample.value for family in families for sample in family.samples}
            assert samples["gpu_operator_post_leader"] == 1, kind
        times[0] = 300.0  # without progress both probes fail
        assert ask(port, "/healthz")[0] == ask(port, "/readyz")[0] == 503
        for path, method, code in (("/", "GET", 404), ("/healthz/../metrics", "GET", 404), ("/metrics", "POST", 405)):
            assert ask(port, path, method)[0] == code, (path, method)


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nhost: x\r\n", b"GET /metrics HTTP/1.0\r\n\r\n"])
def test_a_client_that_hangs_holds_up_no_other_one(sent: bytes, telemetry: Telemetry) -> None:
    """Nor the end of the process, by its threads."""
    before = set(threading.enumerate())
    with served(telemetry) as port, connected(port, sent):
        assert ask(port, "/healthz")[0] == 200
        assert all(thread.daemon for thread in set(threading.enumerate()) - before)


def test_a_connection_without_a_byte_ends(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """After a while, which is not reported."""
    assert Handler.timeout == WAIT_SECONDS
    monkeypatch.setattr(Handler, "timeout", 0.05)
    with served(telemetry) as port, connected(port, b"GET /met") as connection:
        assert connection.recv(65536) == b""
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("listen", "expected"), [(":8080", ("", 8080)), ("[::1]:9090", ("::1", 9090)), ("name:65535", ("name", 65535))]
)
def test_an_address_is_host_and_port(listen: str, expected: tuple[str, int]) -> None:
    """As is usual."""
    assert address(listen) == expected


@pytest.mark.parametrize("listen", ["", "8080", ":", ":http", ":65536", ":-1", "::1:80", "[::1]", "[::1]80", ":\u0668"])
def test_what_is_no_address_is_refused(listen: str) -> None:
    """With an example."""
    with pytest.raises(SettingsError, match="write host:port, such as :8080"):
        address(listen)


@pytest.mark.parametrize(("listen", "host"), [(":0", "127.0.0.1"), (":0", "::1"), ("[::1]:0", "::1")])
def test_it_listens_on_its_address_or_on_all_of_them(listen: str, host: str, telemetry: Telemetry) -> None:
    """Of both families."""
    if not socket.has_dualstack_ipv6() and host == "::1":
        pytest.skip("this machine has no IPv6")
    with served(telemetry, listen) as port:
        assert ask(port, "/healthz", host=host)[0] == 200


def test_a_port_that_is_taken_is_no_wrong_setting(telemetry: Telemetry) -> None:
    """It may be free at the next try."""
    with served(telemetry) as port:
        with pytest.raises(HookError, match=rf"cannot listen on 127.0.0.1:{port}: ") as raised:
            serve(telemetry, f"127.0.0.1:{port}")
        assert not isinstance(raised.value, SettingsError)
