"""Further outputs of the command status: a page of HTML, and a table that is shown again when the fleet changes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from devcluster import binaries
from devcluster.patience import TooSlowError
from hook import __version__
from tests.client.fixtured import Shown, showing
from tests.client.server import events, refused, serving
from tests.fixtures.cluster import cluster, stale
from tests.process.program import ENOUGH_SECONDS, ROOT, run_each, start_logged, write_kubeconfig

EVIL: Final = "<script>alert(1)</script>"
INTERRUPTED: Final = 130
EXPIRED: Final = events(("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}))
"""Answers a watch so that the informer lists again."""


class Elements(HTMLParser):
    """The elements of a page, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))

    def of(self, *tags: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element of these kinds."""
        return [attributes for tag, attributes in self.found if tag in tags]


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def within_patience(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + ENOUGH_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TooSlowError("the condition does not hold")
        time.sleep(0.05)


def test_the_page_is_complete_by_itself(tmp_path: Path) -> None:
    """It has a square and a row for each node, the stale one first. It loads nothing; no text becomes an element."""
    found = cluster("a", "b").put("plugin-pod", *stale("b").of("plugin-pod"), *cluster("a").of("plugin-pod"))
    found.change("driver-pod", {"metadata": {"name": EVIL}}, "driver-a")
    with showing(found) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        words = ["status", f"--kubeconfig={file}"]
        page, watched = run_each(tmp_path, [[*words, "--output=html"], [*words, "--watch", "--exit-code"]])
    assert page.code == 0, page.said
    elements = Elements(page.out)
    assert [each["href"] for each in elements.of("a")] == ["#b", "#a"]
    assert [each["id"] for each in elements.of("tr") if "id" in each] == ["b", "a"]
    assert not elements.of("script", "img", "link", "iframe")
    assert len(elements.of("svg")) == 2
    assert "PluginStale" in page.out
    assert (watched.code, "--watch has no end" in watched.err) == (2, True)


def test_a_file_gets_a_table_whenever_the_fleet_changes(tmp_path: Path) -> None:
    """Views that are equal are shown once. A file also shows that the API server refuses; an interrupt ends it."""
    shown, log = Shown(stale("a")), tmp_path / "log"
    with serving(shown) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        program = start_logged(log, "status", f"--kubeconfig={file}", "--watch")
        try:
            looks: list[str] = []
            shown.instead = lambda line: looks.append(line) if "/leases?" in line and "labelSelector" in line else None
            within_patience(lambda: len(looks) > 3)
            assert log.read_text().count("NODE ") == 1, log.read_text()
            shown.found, shown.version = cluster("a"), shown.version + 1
            shown.instead = lambda line: EXPIRED if "watch=" in line else None
            within_patience(lambda: "Verified" in log.read_text())
            shown.instead = lambda _line: refused(403)
            within_patience(lambda: "WARNING cannot read" in log.read_text())
        finally:
            program.send_signal(signal.SIGINT)
            code = program.wait(ENOUGH_SECONDS)
    assert (code, "\x1b" in log.read_text()) == (INTERRUPTED, False), log.read_text()


def test_a_terminal_shows_one_view(tmp_path: Path) -> None:
    """Each view erases the one before, and fits into the terminal."""
    with showing(stale("a")) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        master, terminal = pty.openpty()
        environment = {**os.environ, "COLUMNS": "40", "LINES": "6"}
        command = [sys.executable, "-m", "hook", "status", f"--kubeconfig={file}", "--watch"]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=terminal) as program:
            shown = ""
            while shown.count("\x1b[2J") < 2:
                shown += os.read(master, 4096).decode()
            program.send_signal(signal.SIGINT)
            assert program.wait(ENOUGH_SECONDS) == INTERRUPTED
    view = shown.split("\x1b[2J")[1].split("\x1b[H")[0].splitlines()
    assert len(view) <= 6
    assert "Ctrl-C" in view[0]
    assert "Stale" in "".join(view)
    assert all(len(line) <= 40 for line in view)


def test_kubectl_finds_the_program_as_a_plugin(tmp_path: Path) -> None:
    """The package has a command whose name kubectl looks for, with an underscore for each dash of the words."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (name,) = (name for name in scripts if name.startswith("kubectl-"))
    assert scripts[name] == scripts["gpu-operator-post"]
    command = tmp_path / name
    command.write_text(f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m hook "$@"\n')
    command.chmod(0o755)
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [str(kubectl), "gpu-operator-post", "--version"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=ENOUGH_SECONDS)
    assert __version__ in done.stdout
