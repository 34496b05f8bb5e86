"""The program in the image ``test/probe``: carries out the words of its command line, one by one."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def say(text: str) -> None:
    """Write a line to the log at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def call(method: str, url_path: str, body: str | None = None) -> None:
    """Make a request the way a program in a pod does, and say how it was answered."""
    account = Path(os.environ["DEVCLUSTER_SERVICE_ACCOUNT_DIR"])
    host, port = (os.environ[f"KUBERNETES_SERVICE_{name}"] for name in ("HOST", "PORT"))
    tls = ssl.create_default_context(cafile=account / "ca.crt")
    headers = {
        "Authorization": f"Bearer {(account / 'token').read_text()}",
        "Content-Type": "application/json",
    }
    connection = HTTPSConnection(host, int(port), context=tls)
    connection.request(method, url_path, body, headers)
    say(f"{method} {connection.getresponse().status}")


def environment(names: str) -> None:
    """Print the values of some variables."""
    say(json.dumps({name: os.environ.get(name) for name in names.split(",")}))


def message(text: str) -> None:
    """Write the termination message."""
    Path(os.environ["DEVCLUSTER_TERMINATION_LOG"]).write_text(text)


def on_sigterm(code: str) -> None:
    """Answer SIGTERM with an exit code; without one, not at all."""
    signal.signal(signal.SIGTERM, (lambda *_: sys.exit(int(code))) if code else signal.SIG_IGN)


def fail_once(code: str) -> None:
    """Fail in the pod's first container only."""
    marker = Path(os.environ["TMPDIR"]) / "failed-before"
    if not marker.exists():
        marker.touch()
        sys.exit(int(code))


def await_file(name: str) -> None:
    """Wait for a file in the pod's folder."""
    while not (Path(os.environ["TMPDIR"]) / name).exists():
        time.sleep(0.05)


class Answers(BaseHTTPRequestHandler):
    """Answers 200 for each path that there is a file of in the pod's folder, and 503 for all others."""

    def do_GET(self) -> None:
        """Look for the file."""
        found = (Path(os.environ["TMPDIR"]) / self.path.strip("/")).exists()
        self.send_response(200 if found else 503)
        self.end_headers()


def serve(address: str) -> None:
    """Answer HTTP until the end."""
    host, _, port = address.rpartition(":")
    ThreadingHTTPServer((host, int(port)), Answers).serve_forever()


ACTIONS: dict[str, Callable[[str], object]] = {
    "print": say,
    "environment": environment,
    "message": message,
    "await": await_file,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "on-sigterm": on_sigterm,
    "child": lambda seconds: say(str(subprocess.Popen(["sleep", seconds]).pid)),
    "get": lambda url_path: call("GET", url_path),
    "post": lambda words: call("POST", *words.split(" ", 1)),
    "fail-once": fail_once,
    "serve": serve,
    "exit": lambda code: sys.exit(int(code)),
}

for word in sys.argv[1:]:
    action, _, value = word.partition("=")
    ACTIONS[action](value)
