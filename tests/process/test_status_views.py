"""Further outputs of the command status: a page of HTML, and a table that is shown again when the fleet changes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster import binaries
from hook import __version__
from tests.client.fixtured import Shown, showing
from tests.client.server import events, refused, serving, until
from tests.fixtures.cluster import cluster, stale
from tests.process.program import ENOUGH_SECONDS, ROOT, documented, run, start, write_kubeconfig

EVIL: Final = "<script>alert(1)</script>"
INTERRUPTED: Final = 130
EXPIRED: Final = events(("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}))
"""Answers a watch so that the informer lists again."""


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_outputs_are_as_documented(tmp_path: Path) -> None:
    """The page has a square and a row for each node, the stale one first, and loads nothing; no text is an element."""
    found = cluster("a", "b").put("plugin-pod", *stale("b").of("plugin-pod"), *cluster("a").of("plugin-pod"))
    found.change("driver-pod", {"metadata": {"name": EVIL}}, "driver-a")
    with showing(found) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        words = ["status", f"--kubeconfig={file}"]
        outputs = [[*words, f"--output={each}"] for each in ("html", "json")]
        dry = ["run", *words[1:], "--dry-run", "--log-format=json"]
        commands = [*outputs, dry, [*words, "--watch", "--exit-code"]]
        page, as_json, ran, watched = (run(tmp_path, *each) for each in commands)
    assert page.code == 0, page.said
    assert re.findall('<a href="([^"]*)"', page.out) == ["#b", "#a"]
    assert re.findall('<tr id="([^"]*)"', page.out) == ["b", "a"]
    assert not re.findall("<(?:script|img|link|iframe)", page.out)
    assert page.out.count("<svg") == 2
    assert [page.out.count(word) for word in ("PluginStale<", "verified 1")] == [1, 1]
    assert [node["node"] for node in documented("status", as_json.out)["nodes"]] == ["a", "b"]
    lines = [documented("log", line) for line in ran.out.splitlines()]
    assert [len(line["report"]["nodes"]) for line in lines if "report" in line] == [2], ran.said
    assert (watched.code, "--watch has no end" in watched.err) == (2, True)


def test_a_file_gets_a_table_whenever_the_fleet_changes(tmp_path: Path) -> None:
    """Views that are equal are shown once. A file also shows that the API server refuses; an interrupt ends it."""
    shown, log = Shown(stale("a")), tmp_path / "log"
    with serving(shown) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        program = start(log, "status", f"--kubeconfig={file}", "--watch")
        try:
            looks: list[str] = []
            shown.instead = lambda line: looks.append(line) if "/leases?" in line and "labelSelector" in line else None
            until(lambda: len(looks) > 3, "it looks again")
            assert log.read_text().count("NODE ") == 1, log.read_text()
            assert "UTC, 0 of 1 nodes verified, about 40s left\n" in log.read_text()
            shown.found, shown.version = cluster("a"), shown.version + 1
            shown.instead = lambda line: EXPIRED if "watch=" in line else None
            until(lambda: "Verified" in log.read_text(), "the plugin is fresh")
            shown.instead = lambda _line: refused(403)
            until(lambda: "WARNING cannot read" in log.read_text(), "the refusal is shown")
        finally:
            program.signal(signal.SIGINT)
            code = program.ended().code
    assert (code, "\x1b" in log.read_text()) == (INTERRUPTED, False), log.read_text()


@pytest.mark.parametrize("command", ["status", "plan"])
def test_an_interrupt_ends_a_command_that_waits(command: str, tmp_path: Path) -> None:
    """At once, with the exit code that a shell reports, and without another word."""
    with serving(refused(500)) as server:
        file = write_kubeconfig(tmp_path / "kubeconfig", server.api.host)
        program = start(tmp_path / "log", command, f"--kubeconfig={file}")
        until(lambda: server.asked, "it asks")
        program.signal(signal.SIGINT)
        assert program.ended().code == INTERRUPTED
    assert "Aborted" not in (tmp_path / "log").read_text()


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
    assert "0 of 1 nodes verified" in view[0]
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
