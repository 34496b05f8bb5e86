"""Answers that come a byte at a time: each bound is one for the whole answer, not for the pause between two bytes."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest
from kubernetes import client

from hook.config import Settings
from hook.errors import ClusterError, GoneError, UnauthorizedError, UnreachableError
from hook.kube import requests, retry
from hook.kube.cache import Cache
from hook.kube.client import Api
from hook.kube.connection import by_library
from hook.kube.requests import NODES, ListOptions, Request
from hook.objects.drivers import GPU_OPERATOR
from tests.client.leases import until
from tests.client.server import JSON, METADATA, Said, serving
from tests.client.test_losing_contact import EMPTY
from tests.fixtures.objects import obj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BETWEEN_SECONDS: Final = 0.05
"""Between two bytes: far below each bound here, so that no single wait is ever too long."""
BOUND_SECONDS: Final = 1.0
FAR_SECONDS: Final = 40.0
"""By when a bounded answer is given up, however busy the machine is. Each one here would last for minutes."""
BODY: Final = json.dumps({"kind": "Status", "message": "x" * 1500, "code": 500}).encode()
ONE: Final = Request("get", NODES, name="gpu-0")
DELETE: Final = requests.delete_pod("dra", "p", "uid", "7")
EVENT: Final = b'{"type": "ADDED", "object": {"metadata": {"name": "gpu-0", "resourceVersion": "7"}}}\n'


def head(*more: str, status: int = 200) -> bytes:
    """Begin an answer."""
    lines = (f"HTTP/1.1 {status} X", "content-type: application/json", *more)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def chunk(content: bytes, extension: bytes = b"") -> bytes:
    """Write a chunk as HTTP has it."""
    return f"{len(content):x}".encode() + extension + b"\r\n" + content + b"\r\n"


@contextlib.contextmanager
def sending(answer: Callable[[str], tuple[bytes, bytes]]) -> Iterator[Api]:
    """Answer each request on a socket of its own: the first part at once, the second byte by byte."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    peers: list[socket.socket] = []

    def talk(peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            at_once, trickled = answer(_asked(peer))
            while at_once or trickled:
                peer.sendall(at_once)
                for number in range(len(trickled)):
                    if over.wait(BETWEEN_SECONDS):
                        return
                    peer.sendall(trickled[number : number + 1])
                # Only what says how long it is leaves the connection open for another one.
                another = _asked(peer) if b"content-length" in at_once else ""
                at_once, trickled = answer(another) if another else (b"", b"")

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _address = listener.accept()
                peers.append(peer)
                threads.append(threading.Thread(target=talk, args=(peer,)))
                threads[-1].start()

    threads.append(threading.Thread(target=accept))
    threads[0].start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield Api(by_library(configuration))
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        threads[0].join()
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RD)
        for thread in threads:
            thread.join()


def _asked(peer: socket.socket) -> str:
    """Read a request with its body; return its first line, and whether it asks for metadata alone."""
    stream = peer.makefile("rb")
    line, length = stream.readline().decode(), 0
    while field := stream.readline().strip():
        name, _colon, value = field.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
        line += METADATA if b"as=PartialObjectMetadataList" in value else ""
    stream.read(length)
    return line


ANSWERS: Final = {
    "body": (head(f"content-length: {len(BODY)}"), BODY),
    "body-without-a-length": (head(), BODY),
    "chunk": (head("transfer-encoding: chunked") + f"{len(BODY):x}\r\n".encode(), BODY),
    "chunks": (head("transfer-encoding: chunked"), b"".join(chunk(BODY[n : n + 1]) for n in range(250))),
    "length-of-a-chunk": (head("transfer-encoding: chunked"), b"0" * 1500),
    "extension-of-a-chunk": (head("transfer-encoding: chunked"), chunk(BODY, b";" + b"a" * 1500)),
    "trailer": (head("transfer-encoding: chunked") + chunk(BODY) + b"0\r\n", b"a: " + b"a" * 1500),
    "compressed": (head("content-encoding: gzip"), gzip.compress(BODY, 0)),
    "refusal": (head(f"content-length: {len(BODY)}", status=500), BODY),
    "refusal-in-chunks": (head("transfer-encoding: chunked", status=403) + b"2000\r\n", BODY),
    "first-line": (b"", b"HTTP/1.1 200 " + b"O" * 1500),
    "header": (b"HTTP/1.1 200 OK\r\n", b"a: " + b"a" * 1500),
    "interim-answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 60),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("request_", [ONE, DELETE], ids=["read", "write"])
def test_an_answer_has_its_time_as_a_whole(request_: Request, answer: tuple[bytes, bytes]) -> None:
    """Wherever it trickles: a write that continues could collide with another one."""
    with sending(lambda _line: answer) as api:
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            api.send(request_, BOUND_SECONDS)
        assert BOUND_SECONDS <= time.monotonic() - began < FAR_SECONDS


def test_a_list_has_its_time_as_a_whole() -> None:
    """A page, too."""
    with sending(lambda _line: ANSWERS["body"]) as api, pytest.raises(UnreachableError):
        api.list_page(ListOptions(NODES).page(), BOUND_SECONDS)


def test_an_answer_that_is_complete_in_time_is_taken() -> None:
    """However slowly it comes; and the connection is good for the next one, with its own time."""
    body = b'{"kind": "Node"}'
    with sending(lambda _line: (head(f"content-length: {len(body)}"), body)) as api:
        assert api.send(ONE, FAR_SECONDS) == {"kind": "Node"}
        assert api.send(ONE, FAR_SECONDS) == {"kind": "Node"}


def test_a_watch_lasts_as_long_as_it_brings_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no answer that is complete at some moment: only silence that was not agreed on ends it."""
    monkeypatch.setattr("hook.kube.client.WATCH_SLACK_SECONDS", 1)
    with sending(lambda _line: (head(), EVENT)) as api:
        response = api.open_watch(ListOptions(NODES).watch("1", 1), 1)
        assert ["ADDED"] == [kind for kind, _obj in api.events(response, NODES)]


def test_a_watch_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server ends each one by itself; one that sends blanks without end would blind us."""
    monkeypatch.setattr("hook.kube.client.READ_SECONDS", 0.5)
    monkeypatch.setattr("hook.kube.client.WATCH_SLACK_SECONDS", FAR_SECONDS)
    with sending(lambda _line: (head(), b"\n" * 1500)) as api:
        response = api.open_watch(ListOptions(NODES).watch("1", 1), 1)
        began = time.monotonic()
        with pytest.raises(GoneError):
            list(api.events(response, NODES))
        assert time.monotonic() - began < FAR_SECONDS


def test_a_refusal_of_a_watch_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its body says nothing that is worth waiting for."""
    monkeypatch.setattr("hook.kube.client.READ_SECONDS", 0.5)
    monkeypatch.setattr("hook.kube.client.WATCH_SLACK_SECONDS", FAR_SECONDS)
    with sending(lambda _line: ANSWERS["refusal"]) as api:
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            api.open_watch(ListOptions(NODES).watch("1", 1), 1)
        assert time.monotonic() - began < FAR_SECONDS


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "objects"])
def test_a_second_read_has_its_time_as_a_whole(*, metadata: bool) -> None:
    """Several kinds, pages and tries, and the wait for watches: all of them together have the seconds that are left."""
    slow = threading.Event()
    policy = obj("policy", {"metadata": {"resourceVersion": "120"}})

    def answer(line: str) -> tuple[bytes, bytes]:
        if "watch=true" in line:
            return head(), b"\n" * 1500
        if slow.is_set() and (METADATA in line) is metadata:
            return head(), b" " * 60
        # The watches show nothing of what the list of metadata shows.
        items = [policy] if slow.is_set() else []
        page = {"kind": "List", "items": items, "metadata": {"resourceVersion": "120" if slow.is_set() else "100"}}
        return head() + json.dumps(page).encode(), b""

    with sending(answer) as api:
        cache = Cache(api, [GPU_OPERATOR], Settings(), retry.starting(FAR_SECONDS))
        cache.watch_policies()
        until(lambda: cache.synced, "all is read")
        slow.set()
        began = time.monotonic()
        with pytest.raises(ClusterError):
            cache.read_consistently(BOUND_SECONDS)
        took = time.monotonic() - began
        cache.stop()
    assert took < FAR_SECONDS


def test_a_second_read_tries_nothing_again_when_the_time_is_up() -> None:
    """The patience for credentials, half a minute, ends with the time that is left."""
    refuses = threading.Event()

    def answer(line: str) -> Said:
        return Said(401, b"", JSON) if refuses.is_set() else Said(200) if "watch=true" in line else EMPTY

    with serving(answer) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(FAR_SECONDS))
        cache.watch_policies()
        until(lambda: cache.synced, "all is read")
        cache.stop()
        until(lambda: not any(one._thread.is_alive() for one in cache._informers.values()), "no watch continues")
        refuses.set()
        before = len(server.asked)
        with pytest.raises(UnauthorizedError):
            cache.read_consistently(0.5)
        # As many tries as begin within half a second.
        assert len(server.asked) - before <= 6


def test_nothing_is_sent_over_a_connection_that_came_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves slowly, or to several addresses, takes longer than one connection may."""
    resolve = socket.getaddrinfo

    def slowly(*arguments: object, **named: object) -> object:
        time.sleep(2 * BOUND_SECONDS)  # this is the fault
        return resolve(*arguments, **named)  # type: ignore[arg-type]

    asked: list[str] = []

    def answer(line: str) -> tuple[bytes, bytes]:
        asked.append(line)
        return ANSWERS["body"]

    with sending(answer) as api:
        monkeypatch.setattr(socket, "getaddrinfo", slowly)
        with pytest.raises(UnreachableError):
            api.send(DELETE, BOUND_SECONDS)
    assert not "".join(asked)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_is_no_trouble_with_credentials(seconds: float) -> None:
    """Nothing is asked then, and it is not tried again for as long as a token takes to rotate."""
    with serving(lambda _line: EMPTY) as server:
        with pytest.raises(UnreachableError):
            server.api.send(ONE, seconds)
        assert server.asked == []
