"""Clusters and processes end by record, however their owner ends: all of them, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from devcluster.boot.cluster import Cluster, ClusterError
from devcluster.boot.layout import CHECKOUT, State
from devcluster.boot.processes import ProcessError, Record, end, records, start
from tests.client.server import until
from tests.simulator.test_binaries import script

SLEEP: Final = [sys.executable, "-c", "import time; time.sleep(60)"]
OWNER: Final = """
import signal, sys, time
from pathlib import Path
from devcluster.boot.cluster import Cluster
# A shell lets what it starts in the background ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
state, *sleeper = sys.argv[1:]
with Cluster(Path(state)) as cluster:
    cluster._claim()
    cluster._start_watchdog()
    cluster.launch("sleeper", sleeper)
    print("up", flush=True)
    time.sleep(600)
"""
"""Owns a cluster that is a single process."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_dies_with_its_owner(number: signal.Signals, tmp_path: Path) -> None:
    """Interrupted or killed, an owner leaves no process and no file of its cluster behind."""
    state = tmp_path / "state"
    command = [sys.executable, "-c", OWNER, str(state), *SLEEP]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        running = {record.name: record for record in Cluster(state).status()}
        assert running["sleeper"].alive
        process.send_signal(number)
    until(lambda run=running: not any(each.alive for each in run.values()), "every process ends")  # type: ignore[misc]
    until(lambda: not state.exists(), "the cluster's files are gone")


def test_up_that_fails_explains_itself_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that dies is named, its last output is shown, and the others are ended."""
    lines = '[ "$1" = --version ] && echo Kubernetes v1.37.0 && exit\necho no disk left >&2\nexit 5'
    broken = script(tmp_path / "assets" / "kube-apiserver", lines)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(broken.parent))
    cluster = Cluster(tmp_path / "state")
    with pytest.raises(ProcessError, match=r"kube-apiserver ended with 5 before [\s\S]*no disk left"):
        cluster.up(1)
    assert not cluster.state.exists()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(cluster.state) not in running


def test_a_state_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    """It is neither used nor removed."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ClusterError, match="not empty"):
        Cluster(tmp_path).up(0)
    Cluster(tmp_path).down()
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_process_is_recorded_and_ended(tmp_path: Path) -> None:
    """A record finds the process again, from another program too, and by its start no other one with the same id."""
    state = State(tmp_path)
    process, bystander = start(state, "sleeper", SLEEP), start(state, "bystander", SLEEP)
    found = {record.name: record for record in records(state.processes)}
    record = found["sleeper"]
    assert (record.pid, record.alive) == (process.pid, True)
    end([record, Record("ours, long gone", bystander.pid, "1")], grace=5)
    assert (record.alive, process.wait(), bystander.poll()) == (False, -15, None)
    end([found["bystander"]], grace=0)
    bystander.wait()
