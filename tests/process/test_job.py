"""The Job as a process: what it writes to the cluster, and what is left of it after a signal or at its deadline."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.client.server import PATIENCE, Said, Server, serving, until
from tests.client.shown import Shown
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.process.program import Ended, Logged, documented, reaching, run, start

STATUS: Final = "/api/v1/namespaces/gpu-operator/configmaps/post-status"
NODES: Final = ("a", "b", "c")
TERMINATED: Final = 128 + signal.SIGTERM
GRACE_SECONDS: Final = 30.0
"""After which a kubelet kills a process. What hangs in these tests hangs for twice as long."""


def words(server: Server, folder: Path, *more: str) -> list[str]:
    """Return the arguments of a Job with a status object."""
    message = folder / "message"
    message.touch()
    return [
        "run", reaching(folder, server.api.host), "--job-name=post",
        "--release-namespace=gpu-operator", "--status-name=post-status", f"--termination-log={message}", *more,
    ]  # fmt: skip


def ran(shown: Shown, folder: Path, *more: str) -> Ended:
    """Run the Job to its end."""
    with serving(shown, shown.wrote) as server:
        return run(folder, *words(server, folder, *more))


@pytest.mark.parametrize(
    ("found", "reason", "phase", "driver"),
    [
        pytest.param(cluster(*NODES), "NothingStale", "Succeeded", "580.126.20", id="nothing stale"),
        pytest.param(Cluster(), "NoPlugin", "Skipped", "", id="nothing to protect"),
    ],
)
def test_a_run_without_a_restart_shows_that_it_ran(
    tmp_path: Path, found: Cluster, reason: str, phase: str, driver: str
) -> None:
    """One Normal Event on the Job, none on the plugins; and the result in the status object, once."""
    shown = Shown(found)
    done = ran(shown, tmp_path, "timeout=30s")
    assert done.code == 0, done.said
    assert [("Normal", reason)] == shown.events_on("Job")
    assert shown.events_on("DaemonSet") == []
    ends = [each for each in shown.statuses if each["phase"] != "Progressing"]
    assert [(phase, reason, driver)] == [(each["phase"], each["reason"], each["driverVersion"]) for each in ends]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """Neither Events nor the status object, also where something is stale."""
    shown = Shown(stale(*NODES))
    with serving(shown, shown.wrote) as server:
        done = run(tmp_path, *words(server, tmp_path, "--dry-run"))
        assert (done.code, server.writes) == (0, []), done.said
    assert done.said.count("dry run: would delete pod") == len(NODES)


@contextmanager
def interrupted(shown: Shown, folder: Path, *more: str) -> Iterator[tuple[Logged, list[Ended]]]:
    """Start a Job, stop it with SIGTERM when the block ends, and append what is left of it."""
    left: list[Ended] = []
    with serving(shown, shown.wrote) as server:
        program = start(folder / "program.log", *words(server, folder, *more))
        yield program, left
        program.signal(signal.SIGTERM)
        left.append(program.ended(GRACE_SECONDS))


def test_a_stopped_run_reports_what_it_did(tmp_path: Path) -> None:
    """Within the grace period of its pod: restarts in log, message and Events, and no result in the status object."""
    shown = Shown(stale(*NODES))
    with interrupted(shown, tmp_path) as (_program, left):
        until(lambda: len(shown.events_on("DaemonSet")) == len(NODES), "all are restarted")
    (done,) = left
    message = documented("termination-message", (tmp_path / "message").read_text())
    assert (done.code, message["reason"], message["restarted"]) == (TERMINATED, "Terminated", len(NODES)), done.said
    assert done.said.count("restarted plugin pod") == len(NODES)
    assert [("Normal", "StalePluginRestarted")] * len(NODES) == shown.events_on("DaemonSet")
    assert shown.events_on("Job") == [], "the end of a run that the next one continues is no Event"
    assert (shown.statuses[0]["phase"], shown.statuses[-1]["phase"]) == ("Progressing", "Unknown")


def test_a_second_signal_interrupts_no_report(tmp_path: Path) -> None:
    """The kubelet, and people, send more than one. A deletion that is on its way then is waited for, and counts."""
    shown, stopping = Shown(stale()), threading.Event()

    def slowly(line: str) -> Said | None:
        if "DELETE" in line:
            stopping.wait(PATIENCE)
        if STATUS in line and stopping.is_set():
            program.signal(signal.SIGTERM)
            program.signal(signal.SIGINT)
        return None

    shown.instead = slowly
    with serving(shown, shown.wrote) as server:
        program = start(tmp_path / "program.log", *words(server, tmp_path))
        until(lambda: server.count("DELETE"), "it restarts")
        program.signal(signal.SIGTERM)
        stopping.set()
        done = program.ended(GRACE_SECONDS)
    assert (done.code, shown.statuses[-1]["phase"]) == (TERMINATED, "Unknown"), done.said
    assert "exit code 143, plugins restarted: 1" in done.said


def test_a_stopped_run_waits_for_no_event_that_hangs(tmp_path: Path) -> None:
    """The kubelet kills the process after its grace period. The termination message is written before."""
    shown, over = Shown(stale(*NODES)), threading.Event()

    def hangs(line: str) -> Said | None:
        if line.startswith("PATCH") and "/events" in line:
            over.wait(PATIENCE)
        return None

    shown.instead = hangs
    try:
        with interrupted(shown, tmp_path) as (program, left):
            until(lambda: program.said.count("restarted plugin pod") == len(NODES), "all are restarted")
    finally:
        over.set()
    assert left[0].code == TERMINATED
    assert json.loads((tmp_path / "message").read_text())["restarted"] == len(NODES)
