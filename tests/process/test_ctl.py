"""``kubectl gpu-operator-post``: its page of HTML, the table that it shows again, its flags and its help."""

from __future__ import annotations

import json
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

from ctl.plan.harm import PASSTHROUGH
from ctl.watch import _fitting
from devcluster.build import binaries
from hook import __version__
from tests.client.server import events, refused, serving, until
from tests.client.shown import Shown, showing
from tests.fixtures.cluster import cluster, stale
from tests.fixtures.objects import merged
from tests.fixtures.planning import OLD
from tests.fixtures.workloads import claim
from tests.process.program import CTL, ENOUGH_SECONDS, ROOT, documented, reaching, run, start

EVIL: Final = "<script>alert(1)</script>"
INTERRUPTED: Final = 130
EXPIRED: Final = events(("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"}))
"""Answers a watch so that the informer lists again."""


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_page_has_a_row_for_each_node(tmp_path: Path) -> None:
    """And a square, the stale node first. The page loads nothing, and no text of the cluster becomes an element."""
    found = cluster("a", "b").put("plugin-pod", *stale("b").of("plugin-pod"), *cluster("a").of("plugin-pod"))
    found.change("driver-pod", {"metadata": {"name": EVIL}}, "driver-a")
    with showing(found) as server:
        flag = reaching(tmp_path, server.api.host)
        page = run(tmp_path, "report", flag, program=CTL)
    assert page.code == 0, page.said
    assert re.findall('<a href="([^"]*)"', page.out) == ["#b", "#a"]
    assert re.findall('<tr id="([^"]*)"', page.out) == ["b", "a"]
    assert not re.findall("<(?:script|img|link|iframe)", page.out)
    assert page.out.count("<svg") == 2
    assert "<h1>GPU nodes: 1 with a stale plugin</h1>" in page.out
    assert "All times are UTC." in page.out


def test_the_image_and_the_laptop_show_the_same(tmp_path: Path) -> None:
    """The command ``status`` of both programs prints the documented JSON, and so does the log of a dry run."""
    with showing(cluster("a", "b")) as server:
        flag = reaching(tmp_path, server.api.host)
        here = run(tmp_path, "status", flag, "--output=json", program=CTL)
        there = run(tmp_path, "status", flag, "--output=json")
        ran = run(tmp_path, "run", flag, "--dry-run", "--log-format=json")
    assert [node["node"] for node in documented("status", here.out)["nodes"]] == ["a", "b"]
    assert here.out == there.out
    lines = [documented("log", line) for line in ran.out.splitlines()]
    assert [len(line["report"]["nodes"]) for line in lines if "report" in line] == [2], ran.said


CONTAINER: Final = {"name": "gpus", "env": [{"name": "FEATURE_GATES", "value": f"{PASSTHROUGH}=true"}]}
GATED: Final = cluster("gpu-0").change(
    "daemonset", {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}, "dra-driver-nvidia-gpu-kubelet-plugin"
)
PASSED_THROUGH: Final = merged(
    claim("vm"), {"status": {"allocation": {"devices": {"results": [{"pool": "gpu-0", "device": "gpu-vfio-1"}]}}}}
)


def test_claims_for_passthrough_are_read_where_a_plugin_supports_it(tmp_path: Path) -> None:
    """The plan and the page name the claim and its node, before a restart of the plugin loses the GPU."""
    with showing(GATED, lambda: [PASSED_THROUGH]) as server:
        flag = reaching(tmp_path, server.api.host)
        planned = run(tmp_path, "plan", flag, "--output=json", program=CTL)
        page = run(tmp_path, "report", flag, program=CTL)
    assert planned.code == 0, planned.said
    (pool,) = json.loads(planned.out)["pools"]
    (found,) = (each for each in pool["obstacles"] if each["obstacle"] == "RestartLosesGpus")
    assert (found["severity"], "team/vm on gpu-0" in found["message"]) == ("harms", True)
    assert "HARMS RestartLosesGpus" in page.out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("plan --target-window=2", "--target-window"),
        ("plan --target-window=0s", "longer than 0s"),
        ("plan --target-window=soon", "--target-window"),
        ("plan --output=yaml", "--output"),
        ("plan --stack=disk", "--stack"),
        ("plan --timeout=1h", "--timeout"),
        ("plan --kubeconfig=/nonexistent", "/nonexistent"),
        ("plan -n Not_A_Name", "at `$.plugin.namespace`"),
        ("status --watch --exit-code", "--watch has no end"),
        ("status --watch --output=json", "--watch has no end"),
    ],
)
def test_wrong_flags_are_named(words: str, named: str, tmp_path: Path) -> None:
    """Exit 2 and a sentence, before any request."""
    done = run(tmp_path, *words.split(), program=CTL)
    assert (done.code, named in done.err, "Traceback" in done.said) == (2, True, False), done.said


def test_each_help_has_an_example_and_nothing_is_cut(tmp_path: Path) -> None:
    """The list of commands shows whole sentences; each command shows how to call it, apart from what the chart sets."""
    commands = run(tmp_path, "--help", program=CTL).out.partition("Commands:")[2]
    assert "status   Show the state of each node.\n" in commands
    assert "..." not in commands
    for command in ("status", "report", "plan"):
        shown = run(tmp_path, command, "-h", program=CTL).out
        assert f"Usage: kubectl gpu-operator-post {command} [OPTIONS]" in shown
        assert f"Examples:\n    kubectl gpu-operator-post {command}" in shown, command
        assert "-n, --namespace" in shown
    for program, command in (("hook", "run"), ("hook", "controller"), ("hook", "status"), ("bundler", "bundle")):
        done = subprocess.run(
            [sys.executable, "-m", program, command, "-h"], capture_output=True, text=True, check=True
        )
        assert re.search(rf"Examples:\n    gpu-operator-post\S* {command}", done.stdout), command
        listed = subprocess.run([sys.executable, "-m", program, "-h"], capture_output=True, text=True, check=True)
        assert "..." not in listed.stdout.partition("Commands:")[2], program
        for_people, _, by_the_chart = done.stdout.partition("Set by the chart:")
        assert ("--termination-log" in for_people, "--kubeconfig" in by_the_chart) == (False, False), command


def test_a_file_gets_a_table_whenever_the_fleet_changes(tmp_path: Path) -> None:
    """Views that are equal are shown once. A file also shows that the API server refuses; an interrupt ends it."""
    shown, log = Shown(cluster("a").change("driver-pod", OLD)), tmp_path / "log"
    with serving(shown) as server:
        flag = reaching(tmp_path, server.api.host)
        program = start(log, "status", flag, "--watch", program=CTL)
        try:
            looks: list[str] = []
            shown.instead = lambda line: looks.append(line) if "/leases?" in line and "labelSelector" in line else None
            until(lambda: len(looks) > 2, "it looks again")
            assert log.read_text().count("NODE ") == 1, log.read_text()
            assert "UTC, 0 of 1 nodes verified, about 2m left\n" in log.read_text()
            shown.found, shown.version = cluster("a"), shown.version + 1
            shown.instead = lambda line: EXPIRED if "watch=" in line else None
            until(lambda: "Verified" in log.read_text(), "the node is verified")
            shown.instead = lambda _line: refused(403)
            until(lambda: "WARNING cannot read" in log.read_text(), "the refusal is shown")
        finally:
            program.signal(signal.SIGINT)
            code = program.ended().code
    assert (code, "\x1b" in log.read_text()) == (INTERRUPTED, False), log.read_text()


@pytest.mark.parametrize("command", ["status", "report", "plan"])
def test_an_interrupt_ends_a_command_that_waits(command: str, tmp_path: Path) -> None:
    """At once, with the exit code that a shell reports, and without another word."""
    with serving(refused(500)) as server:
        flag = reaching(tmp_path, server.api.host)
        program = start(tmp_path / "log", command, flag, program=CTL)
        until(lambda: server.asked, "it asks")
        program.signal(signal.SIGINT)
        assert program.ended().code == INTERRUPTED
    assert "Aborted" not in (tmp_path / "log").read_text()


def test_a_terminal_shows_one_view(tmp_path: Path) -> None:
    """Each view erases the one before, and fits into the terminal."""
    with showing(stale("a")) as server:
        flag = reaching(tmp_path, server.api.host)
        master, terminal = pty.openpty()
        environment = {**os.environ, "COLUMNS": "40", "LINES": "6"}
        command = [sys.executable, "-m", "ctl", "status", flag, "--watch"]
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


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(4, ["a", "b", "c"]), (3, ["a", "(2 more lines)"]), (2, ["(3 more lines)"]), (1, ["(3 more lines)"])],
)
def test_a_view_fits_into_a_terminal_of_any_height(
    rows: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last row is for the cursor."""
    monkeypatch.setenv("LINES", str(rows))
    monkeypatch.setenv("COLUMNS", "40")
    assert _fitting(["a", "b\nc"]) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gpu-operator-post", "version"], [__version__]),
        (["__complete", "gpu-operator-post", "re"], ["report", ":4"]),
        (["__complete", "gpu-operator-post", "plan", "--stack", ""], ["gpu", "network", ":4"]),
        (["__complete", "gpu-operator-post", "plan", "--kubeconfig", ""], [":0"]),
    ],
)
def test_kubectl_finds_the_program_as_a_plugin(words: list[str], expected: list[str], tmp_path: Path) -> None:
    """The package has commands whose names kubectl looks for, with an underscore for each dash of the words."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name in (name for name in scripts if name.startswith("kubectl")):
        module, _, function = scripts[name].partition(":")
        command = tmp_path / name
        command.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        command.chmod(0o755)
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [kubectl, *words], env=environment, capture_output=True, text=True, check=True, timeout=ENOUGH_SECONDS
    )
    assert done.stdout.split() == expected
