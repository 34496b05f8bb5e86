"""Something that answers HTTP on this machine, as a test wants it: what no real API server would say on demand."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from kubernetes import client

from hook.kube.client import Api
from hook.kube.connection import by_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html"}
METADATA = " metadata"
"""Ends the line of a request for metadata alone."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer. Without a status the connection is closed instead."""

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)


@dataclass(slots=True)
class Server:
    """What answers, and what it was asked: method and path, and whether for metadata alone."""

    api: Api
    asked: list[str] = field(default_factory=list)

    def count(self, part: str) -> int:
        """Count the requests whose method or path has this in it."""
        return sum(part in one for one in list(self.asked))


@contextlib.contextmanager
def serving(
    answer: Callable[[str], Said],
    linger: threading.Event | None = None,
    wrote: Callable[[str, bytes], Said] | None = None,
) -> Iterator[Server]:
    """Answer every request as the function says, which gets method and path; one with a body as `wrote` says.

    What promises more than it gives stays open until `linger` is set.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            partial = METADATA if "as=PartialObjectMetadataList" in self.headers["accept"] else ""
            line = f"{self.command} {self.path}{partial}"
            asked.append(line)
            said = wrote(line, body) if wrote is not None and body else answer(line)
            self.close_connection = True
            if said.status:
                self.send_response_only(said.status)
                headers = {"connection": "close", "content-length": str(len(said.body)), **said.headers}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body)
                self.wfile.flush()
                if linger is not None and headers["content-length"] != str(len(said.body)):
                    linger.wait()

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server calls them so

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    configuration = client.Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Server(Api(by_library(configuration)), asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
