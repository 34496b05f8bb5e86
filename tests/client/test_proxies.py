"""Proxies: who is asked through which one is as with kubectl; HTTP, HTTPS and SOCKS ones really carry requests."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from hook.errors import ApiError, SettingsError, UntrustedError
from hook.kube import client, proxies
from tests.client.access import Authority, account, connected, kubeconfig, server_side
from tests.client.server import GRANTED, ONE, serving

VARIABLES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
NAME: Final = "api.inside.example"
"""Name of a server that only the proxy can look up."""
ACCOUNT: Final = "me%40there:p%3Ass"
BASIC: Final = "proxy-authorization: Basic bWVAdGhlcmU6cDpzcw=="
"""The same as a header."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any proxy."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("server", "entries", "excluded"),
    [
        ("https://10.96.0.1:443", "", False),
        ("https://10.96.0.1", "10.96.0.1:443", True),
        ("https://10.96.0.1:6443", "10.96.0.1:443", False),
        ("https://10.96.0.1:443", "192.168.0.0/16, 10.0.0.0/8", True),
        ("https://10.96.0.1:443", "10.96.0.7/16", True),
        ("https://10.96.0.1:443", "10.96.0.0/33", False),
        ("https://10.96.0.1:443", "*", True),
        ("https://[fd00::1]:443", "fd00::1", True),
        ("https://[fd00::1]:443", "[FD00:0::1]:443", True),
        ("https://[fd00::1]:443", "[fd00::1]:444", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://[::1]:443", "", True),
        ("https://127.0.0.2:443", "", True),
        ("https://localhost:443", "", True),
        ("https://API.example.com", "EXAMPLE.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://notexample.com", "example.com", False),
        ("https://api.example.com:6443", "example.com:443", False),
        ("https://api.example.com", " , ,other.example,", False),
    ],
)
def test_who_is_not_asked_through_the_proxy(
    server: str, entries: str, excluded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY has addresses, networks, names and ports; this machine is never asked through a proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", entries)
    assert (proxies.of_environment(server) == "") is excluded


def test_which_variable_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the scheme, in capitals first, with http:// unless it says otherwise; ALL_PROXY never does."""
    monkeypatch.setenv("ALL_PROXY", "http://all.example")
    assert proxies.of_environment("https://10.0.0.1") == ""
    monkeypatch.setenv("https_proxy", "small.example:3128")
    assert proxies.of_environment("https://10.0.0.1") == "http://small.example:3128"
    assert proxies.of_environment("http://10.0.0.1") == ""
    monkeypatch.setenv("HTTPS_PROXY", "socks5://capital.example")
    assert proxies.of_environment("https://10.0.0.1") == "socks5://capital.example"
    monkeypatch.setenv("HTTP_PROXY", "https://plain.example")
    assert proxies.of_environment("http://10.0.0.1") == "https://plain.example"


@pytest.mark.parametrize("url", ["socks4://a:secret@b", "http://", "socks5://a:x", "http://a:secret@b c"])
def test_a_proxy_that_cannot_be_used_is_named(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its field or variable, and without its password."""
    with pytest.raises(SettingsError, match="proxy-url: it must ") as caught:
        connected(kubeconfig(tmp_path, "https://10.0.0.1", f"proxy-url: '{url}'"))
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(SettingsError, match="HTTPS_PROXY: it must "):
        connected(kubeconfig(tmp_path, "https://10.0.0.1"))


Greeting = Callable[[socket.socket], bytes]
"""Reads what a client wants of a proxy, answers, and returns it."""


def http(peer: socket.socket) -> bytes:
    """Open a tunnel for a CONNECT."""
    said = b""
    while b"\r\n\r\n" not in said:
        said += peer.recv(4096)
    peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    return said


def socks(peer: socket.socket) -> bytes:
    """Open a tunnel for a request of SOCKS 5 (RFC 1928), without an account or with one (RFC 1929)."""
    methods = peer.recv(2 + 255)[2:]
    peer.sendall(b"\x05\x02" if b"\x02" in methods else b"\x05\x00")
    account = b""
    if b"\x02" in methods:
        account = peer.recv(512)
        peer.sendall(b"\x01\x00")
    said = peer.recv(512)
    peer.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    return account + said


@contextlib.contextmanager
def proxying(greet: Greeting, target: int, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Lead every connection to a port of this machine. Yield the proxy's own port, and what clients wanted."""
    wanted: list[bytes] = []
    ends: list[socket.socket] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while True:
            try:
                peer = listening.accept()[0]
            except OSError:
                return
            ends.append(peer)
            with contextlib.suppress(OSError):
                peer = tls.wrap_socket(peer, server_side=True) if tls else peer
                wanted.append(greet(peer))
                server = socket.create_connection(("127.0.0.1", target))
                ends.extend((peer, server))
                for pair in ((peer, server), (server, peer)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1], wanted
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for each in ends:
            each.close()


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h", "SOCKS5"])
def test_requests_go_through_a_proxy(
    scheme: str, tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks up the server's name, gets the account in its URL, and the server's certificate is verified as ever."""
    greet = http if scheme == "http" else socks
    trusted = f"certificate-authority: {authority.certificate}"
    with (
        serving(GRANTED, tls=server_side(authority.sign(f"DNS:{NAME}"))) as server,
        proxying(greet, server.port) as (port, wanted),
    ):
        proxy = f"{scheme}://{ACCOUNT}@127.0.0.1:{port}"
        by_field = connected(kubeconfig(tmp_path, f"https://{NAME}", f"{trusted}, proxy-url: '{proxy}'"))
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        by_variable = connected(kubeconfig(tmp_path, f"https://{NAME}", trusted))
        for api in (by_field, by_variable):
            api.send(*ONE)
            said = wanted.pop()
            assert NAME.encode() in said
            assert (BASIC.encode() if scheme == "http" else b"\x08me@there\x04p:ss") in said
        with pytest.raises(UntrustedError, match="Hostname mismatch"):
            connected(kubeconfig(tmp_path, "https://other.example", trusted)).send(*ONE)
        assert len(server.asked) == 2


def test_a_pod_uses_a_proxy(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of the pod name it, unless NO_PROXY has the API server."""
    with (
        serving(GRANTED, tls=server_side(authority.sign("IP:10.255.255.1"))) as server,
        proxying(socks, server.port) as (port, wanted),
    ):
        folder = account(tmp_path, authority.certificate, 443, monkeypatch)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.255.255.1")
        monkeypatch.setenv("HTTPS_PROXY", f"socks5://127.0.0.1:{port}")
        client.connect("", "", str(folder)).send(*ONE)
        assert len(wanted) == 1


def test_a_proxy_may_speak_tls(tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its certificate is verified by the system's authorities, as strictly as that of an API server."""
    theirs = Authority(tmp_path, {"keyUsage": ""})
    field = f"certificate-authority: {authority.certificate}"
    with (
        serving(GRANTED, tls=server_side(authority.sign(f"DNS:{NAME}"))) as server,
        proxying(http, server.port, server_side(theirs.sign())) as (port, wanted),
    ):
        cluster = f"{field}, proxy-url: 'https://127.0.0.1:{port}'"
        with pytest.raises(UntrustedError, match="the certificate of the proxy is refused: "):
            connected(kubeconfig(tmp_path, f"https://{NAME}", cluster)).send(*ONE)
        monkeypatch.setenv("SSL_CERT_FILE", str(theirs.certificate))
        connected(kubeconfig(tmp_path, f"https://{NAME}", cluster)).send(*ONE)
        assert len(wanted) == 1


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
def test_a_proxy_that_is_down_is_an_outage(scheme: str, tmp_path: Path) -> None:
    """Another try may help. The proxy is named, without its password."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        cluster = f"proxy-url: '{scheme}://me:secret@127.0.0.1:{taken.getsockname()[1]}'"
        with pytest.raises(ApiError, match=f"{NAME} through the proxy 127.0.0.1: [^@]*refused$"):
            connected(kubeconfig(tmp_path, f"https://{NAME}", cluster)).send(*ONE)


def test_plain_requests_keep_each_header(tmp_path: Path) -> None:
    """A proxy gets a request without TLS itself. Two groups stay two groups."""
    with serving(GRANTED) as proxy:
        fields = f"proxy-url: 'http://127.0.0.1:{proxy.port}'"
        connected(kubeconfig(tmp_path, f"http://{NAME}", fields, "as: me, as-groups: [a, b]")).send(*ONE)
        assert proxy.heard[0].headers.get_all("impersonate-group") == ["a", "b"]
        assert (proxy.asked, proxy.heard[0].headers["host"]) == ([f"GET http://{NAME}/api/v1/nodes/gpu-0"], NAME)
