"""Processes are ended by record: exactly those, and their children."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from devcluster.layout import State
from devcluster.ports import HIGHEST, LOWEST, free_ports
from devcluster.processes import Record, end, records, start, start_mark, tail
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
PARENT = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Name a state directory."""
    return State(tmp_path)


def test_a_process_is_recorded_and_ended(state: State) -> None:
    """A record finds the process again, from another program too, and by its start no other one with the same id."""
    process, bystander = start(state, "sleeper", SLEEP), start(state, "bystander", SLEEP)
    found = {record.name: record for record in records(state.processes)}
    record = found["sleeper"]
    assert (record.pid, record.alive) == (process.pid, True)
    end([record, Record("ours, long gone", bystander.pid, "1")], grace=5)
    assert (record.alive, process.wait(), bystander.poll()) == (False, -15, None)
    end([found["bystander"]], grace=0)
    bystander.wait()


def test_children_and_the_stubborn_end_too(state: State) -> None:
    """A process leads its group, which ends even when its leader crashed; patience ends with the grace period."""
    stubborn = start(state, "stubborn", [sys.executable, "-c", STUBBORN])
    parents = [start(state, name, [sys.executable, "-c", PARENT]) for name in ("alive", "crashed")]
    children = [int(until(state.log(name).read_text)) for name in ("alive", "crashed")]
    until(state.log("stubborn").read_text)
    os.kill(parents[1].pid, 9)
    parents[1].wait()
    end(records(state.processes), grace=0.2)
    assert (stubborn.wait(), parents[0].wait()) == (-9, -15)
    until(lambda: not any(start_mark(child) for child in children))


def test_a_process_that_ended_is_not_alive() -> None:
    """A zombie, or an id without a process, is no living process."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    until(lambda: start_mark(process.pid) is None)
    process.wait()
    assert start_mark(process.pid) is None


def test_tail_shows_the_end_of_a_log(tmp_path: Path) -> None:
    """Error messages carry the last lines, and say so when there are none."""
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(30)))
    assert tail(tmp_path / "log", 2) == "    line 28\n    line 29"
    assert tail(tmp_path / "missing") == "    (no log)"


def test_ports_are_different_and_out_of_the_way() -> None:
    """Ports come from below the range that outgoing connections use."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(LOWEST <= port < HIGHEST for port in ports)
