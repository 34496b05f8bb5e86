"""Standard output that takes nothing: a full disk, a pipe without a reader, or none at all."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.client.server import serving
from tests.client.shown import Shown, showing
from tests.fixtures.cluster import cluster, stale
from tests.process.program import CTL, ENOUGH_SECONDS, ROOT, reaching, run
from tests.process.test_job import words

FULL, CLOSED, UNREAD = "No space left on device", "Bad file descriptor", "Broken pipe"
SHORT: Final = ("a",)
LONG: Final = tuple(f"node-{number}" for number in range(60))
"""Nodes whose table does not fit into a buffer."""


@contextmanager
def refusing(why: str) -> Iterator[int]:
    """Yield a file descriptor that takes nothing."""
    if why == UNREAD:
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open("/dev/full", os.O_WRONLY)
    yield writer
    with contextlib.suppress(OSError):
        os.close(writer)


def refused(why: str, module: str, *arguments: str, errors: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program with such a standard output to its end. Without `errors`, standard error goes there, too."""
    closing = ["bash", "-c", 'exec "$@" >&-', "bash"] if why == CLOSED else []
    command = [*closing, sys.executable, "-m", module, *arguments]
    with refusing(why) as output:
        return subprocess.run(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.PIPE if errors else output,
            text=True,
            timeout=ENOUGH_SECONDS,
            check=False,
        )


@pytest.mark.parametrize(
    ("why", "nodes", "errors"),
    [
        pytest.param(FULL, LONG, True, id="full disk, long table"),
        pytest.param(CLOSED, SHORT, True, id="closed"),
        pytest.param(UNREAD, SHORT, False, id="broken pipe, standard error too"),
    ],
)
def test_a_run_ends_as_if_its_output_was_read(why: str, nodes: tuple[str, ...], errors: bool, tmp_path: Path) -> None:
    """Exit code, status object, Event and termination message do not depend on standard output."""
    shown = Shown(cluster(*nodes))
    with serving(shown, shown.wrote) as server:
        done = refused(why, "hook", *words(server, tmp_path), errors=errors)
    assert done.returncode == 0, done.stderr
    assert shown.statuses[-1]["phase"] == "Succeeded"
    assert shown.events_on("Job") == [("Normal", "NothingStale")]
    assert '"exitCode":0' in (tmp_path / "message").read_text().replace(" ", "")
    assert re.findall("Traceback|Logging error", done.stderr or "") == []


@pytest.mark.parametrize(
    ("line", "code"),
    [("status", 1), ("run --plugin-namespace=Not_A_Name", 2), ("status --plugin-namespace=Not_A_Name", 2)],
)
def test_an_exit_code_needs_no_standard_error(line: str, code: int, tmp_path: Path) -> None:
    """A log of both streams that takes nothing changes no exit code."""
    flag = reaching(tmp_path, "http://127.0.0.1:1")
    assert refused(FULL, "hook", *line.split(), flag, errors=False).returncode == code


@pytest.mark.parametrize(
    ("module", "line", "why"),
    [
        ("hook", "status", FULL),
        ("ctl", "status --output=json", CLOSED),
        ("ctl", "status --watch", UNREAD),
        ("ctl", "plan", FULL),
        ("ctl", "report", UNREAD),
    ],
)
def test_a_command_that_cannot_show_what_it_found_says_so(module: str, line: str, why: str, tmp_path: Path) -> None:
    """One line on standard error, and exit code 1."""
    with showing(stale("a")) as server:
        flag = reaching(tmp_path, server.api.host)
        done = refused(why, module, *line.split(), flag)
    assert (done.returncode, done.stderr) == (1, f"Error: cannot write to standard output: {why}\n")


@pytest.mark.parametrize(("file", "why"), [("/dev/full", FULL), ("/nonexistent/page", "No such file or directory")])
def test_a_page_that_cannot_be_written_is_an_error(file: str, why: str, tmp_path: Path) -> None:
    """The file is named."""
    with showing(stale("a")) as server:
        flag = reaching(tmp_path, server.api.host)
        done = run(tmp_path, "report", flag, f"--output={file}", program=CTL)
    assert (done.code, done.err) == (1, f"Error: cannot write to {file}: {why}\n")
