"""An HTTP server on this machine that answers as a test wants, and what most tests here need with it."""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from devcluster import patience
from hook.kube.client import READ_SECONDS, Api
from hook.kube.connection import Connection
from hook.kube.resources import NODES
from hook.kube.retry import FOREVER, Patience

JOB: Final = Patience(FOREVER)
"""Of a Job that has read everything once: it outlasts an outage until its deadline."""
PATIENCE: Final = 60.0
"""Time for something that happens at once on an idle machine."""
JSON: Final = {"content-type": "application/json"}
HTML: Final = {"content-type": "text/html"}
FORBIDDEN: Final = 403
RBAC: Final = 'pods "x" is forbidden: User "system:serviceaccount:ns:it" cannot delete resource "pods" in API group ""'
ONE: Final = ("get", NODES, "gpu-0")
"""A request, as the client has its parts."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. Without a status the connection is closed instead."""

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


def told(**fields: Any) -> Said:  # noqa: ANN401 - JSON
    """Answer with an object."""
    return Said(200, json.dumps({"kind": "List", **fields}).encode())


def listed(*objects: Mapping[str, Any], version: str = "1", **metadata: str) -> Said:
    """Answer with a list."""
    return told(items=objects, metadata={"resourceVersion": version, **metadata})


def refused(code: int, message: str = "", **headers: str) -> Said:
    """Refuse as an API server does: with 403 as RBAC does, unless the message is another one."""
    words = message or (RBAC if code == FORBIDDEN else "no")
    body = json.dumps({"kind": "Status", "message": words, "code": code})
    return Said(code, body.encode(), {**JSON, **headers})


def events(*found: tuple[str, Mapping[str, Any]]) -> Said:
    """Send the events of a watch, and end it."""
    return Said(200, b"".join(json.dumps({"type": kind, "object": each}).encode() + b"\n" for kind, each in found))


EMPTY: Final = listed()
GRANTED: Final = told(kind="Status")
SILENT: Final = Said(200, b"", {**JSON, "content-length": "9"})
"""Promises a body, and never gives it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Who sent a request, and how."""

    headers: Message
    connection: int
    """Port of the client."""
    subject: str
    """Common name in the client's certificate, or ""."""


@dataclass(slots=True)
class Server:
    """What answers, and what it was asked: method and path."""

    api: Api
    port: int
    asked: list[str] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    def count(self, part: str) -> int:
        """Count the requests whose method or path has this in it."""
        return sum(part in line for line in list(self.asked))

    @property
    def writes(self) -> list[str]:
        """Return the requests that change something."""
        return [line for line in list(self.asked) if not line.startswith("GET")]


@contextlib.contextmanager
def serving(
    answer: Said | Callable[[str], Said],
    wrote: Callable[[str, bytes], Said] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """Answer every request by `answer`, or what it returns for method and path; one with a body as `wrote` returns."""
    asked: list[str] = []
    heard: list[Heard] = []
    over = threading.Event()

    def respond(request: BaseHTTPRequestHandler, body: bytes) -> Said:
        line = f"{request.command} {request.path}"
        asked.append(line)
        heard.append(Heard(request.headers, request.client_address[1], subject_of(request.connection)))
        if wrote is not None and body:
            return wrote(line, body)
        return answer(line) if callable(answer) else answer

    server = Listening(_handler(respond, over), tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        port = int(server.server_address[1])
        yield Server(Api(Connection(f"http://127.0.0.1:{port}")), port, asked, heard)
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(
    respond: Callable[[BaseHTTPRequestHandler, bytes], Said], over: threading.Event
) -> type[BaseHTTPRequestHandler]:
    """Send what `respond` says. An answer that promises a body and gives none stays open until it is `over`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            said = respond(self, self.rfile.read(int(self.headers.get("content-length", "0"))))
            self.close_connection = True
            if said.status:
                self.send_response_only(said.status)
                headers = {"connection": "close", "content-length": str(len(said.body)), **said.headers}
                self.close_connection = headers["connection"] == "close"
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)
                self.wfile.flush()
                if not said.body and headers["content-length"] != "0":
                    over.wait()

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server calls them so

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return Handler


class Listening(ThreadingHTTPServer):
    """Keeps quiet about clients that refuse to talk."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None) -> None:
        """Listen on a port of this machine, with TLS or without."""
        super().__init__(("127.0.0.1", 0), handler)
        if tls is not None:
            # The thread of the connection shakes hands, so that a client that refuses stops no other.
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's own
        """Show only what is a fault of the test."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def subject_of(connection: object) -> str:
    """Return the common name in a client's certificate, or ""."""
    certificate = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    subject: Any = (certificate or {}).get("subject", ())
    return next((value for parts in subject for name, value in parts if name == "commonName"), "")


def until(holds: Callable[[], object], what: str) -> None:
    """Wait for something that another thread or process does."""
    patience.until(holds, what, PATIENCE, soonest=0.01)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail if this takes as long as one request to a silent server."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < READ_SECONDS
