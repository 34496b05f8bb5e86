"""What the program itself answers on its port, from its first moment to its last."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devcluster.patience import TooSlowError
from devcluster.ports import free_ports
from devcluster.settings import separated
from tests.client.controller import exposition
from tests.client.server import Said, serving
from tests.process.program import ENOUGH_SECONDS, ROOT, run, start_logged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LISTENING: Final = re.compile(r"metrics and health on http://127\.0\.0\.1:(\d+)")
STOPPED: Final = 143
AMONG: Final = """
import os
import sys
from hook.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def held_by_another(line: str) -> Said:
    """Show a Lease that somebody else renews; nothing else is to be had."""
    if "/leases/" not in line:
        return Said(404, json.dumps({"kind": "Status", "code": 404, "message": "no"}).encode())
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}
    return Said(200, json.dumps({"kind": "Lease", "metadata": {"resourceVersion": "1"}, "spec": spec}).encode())


def kubeconfig(folder: Path, server: str) -> Path:
    """Write how to reach an API server without credentials."""
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


@contextmanager
def following(folder: Path, server: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a follower."""
    log = folder / "log"
    process = start_logged(
        log, "controller", "--listen=127.0.0.1:0", "--lease-namespace=gpu-operator",
        f"--kubeconfig={kubeconfig(folder, server)}",
    )  # fmt: skip
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool], log: Path) -> None:
    """Wait for something that the process does."""
    end = time.monotonic() + ENOUGH_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TooSlowError(f"the follower did not come so far:\n{log.read_text()}")
        time.sleep(0.1)


def listens(log: Path) -> int:
    """Wait for its port."""
    until(lambda: LISTENING.search(log.read_text()) is not None, log)
    found = LISTENING.search(log.read_text())
    assert found is not None
    return int(found[1])


def ask(port: int, path: str) -> str:
    """Ask, and take nothing but a good answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=ENOUGH_SECONDS) as answer:
        return str(answer.read().decode())


def samples(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Give what /metrics shows, by name and labels."""
    families = text_string_to_metric_families(ask(port, "/metrics"))
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def families(text: str) -> set[str]:
    """Give the names of metrics, those without a sample, too."""
    return {family.name for family in text_string_to_metric_families(text)}


def test_one_that_stands_by(tmp_path: Path) -> None:
    """It is alive and ready while it waits for the Lease, shows every metric that alerts ask for, and ends."""
    with serving(held_by_another) as server, following(tmp_path, server.api.host) as (process, log):
        port = listens(log)
        until(lambda: server.count("/leases/") >= 2, log)
        assert ask(port, "/healthz") == ask(port, "/readyz") == "standby\n"
        assert families(ask(port, "/metrics")) == families(exposition())
        assert samples(port)["gpu_operator_post_leader", frozenset()] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENOUGH_SECONDS) == STOPPED, log.read_text()


def test_without_an_api_server(tmp_path: Path) -> None:
    """Nobody answers: that is no reason to start it again, but it is counted."""
    (nowhere,) = free_ports(1)
    labels = {"kind": "Unreachable", "verb": "get", "resource": "leases.coordination.k8s.io"}
    failed = ("gpu_operator_post_api_errors_total", frozenset(labels.items()))
    with following(tmp_path, f"http://127.0.0.1:{nowhere}") as (process, log):
        port = listens(log)
        until(lambda: samples(port).get(failed, 0) >= 2, log)
        assert ask(port, "/healthz") == "standby\n"
        assert process.poll() is None


@pytest.mark.parametrize(
    ("listen", "code", "says"),
    [("127.0.0.1:{taken}", 1, "cannot listen on 127.0.0.1:"), ("8080", 2, "write host:port, such as :8080")],
)
def test_a_port_that_cannot_be(tmp_path: Path, listen: str, code: int, says: str) -> None:
    """One that is taken may be free at the next try, one that is none never will be."""
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        wanted = listen.format(taken=other.getsockname()[1])
        config = kubeconfig(tmp_path, "http://127.0.0.1:1")
        done = run("controller", f"--listen={wanted}", f"--kubeconfig={config}")
    assert (done.code, done.said.count("Traceback")) == (code, 0), done.said
    assert says in done.said


def test_a_job_carries_none_of_it(tmp_path: Path) -> None:
    """A run that ends loads neither metrics nor an election: they would cost it memory and time."""
    (nowhere,) = free_ports(1)
    config = kubeconfig(tmp_path, f"http://127.0.0.1:{nowhere}")
    words = ["run", f"--kubeconfig={config}", "--timeout=20s", "advanced.apiPatience=1s", "--job-name="]
    arguments, settings = separated(words)
    done = subprocess.run(
        [sys.executable, "-c", AMONG, *arguments],
        cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, timeout=ENOUGH_SECONDS, check=True,
    )  # fmt: skip
    code, *modules = done.stdout.splitlines()[-1].split()
    assert code == "1", done.stdout
    assert "urllib3" in modules
    assert "prometheus_client" not in modules
