"""Clusters boot as a whole, live side by side, and leave nothing behind, however they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from devcluster import machines
from devcluster.__main__ import main
from devcluster.cluster import Cluster, ClusterError
from devcluster.layout import CHECKOUT
from devcluster.processes import ProcessError, start, start_mark
from devcluster.visit import Visit
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.processes import Record

SLEEPER: Final = ["-c", "import time; time.sleep(600)"]
PODS: Final = "/api/v1/namespaces/default/pods"


def listening(records: Sequence[Record]) -> dict[str, set[str]]:
    """Return the addresses on which processes listen, as the kernel spells them."""
    inodes: dict[str, str] = {}
    for record in records:
        for descriptor in Path(f"/proc/{record.pid}/fd").iterdir():
            if (target := str(descriptor.readlink())).startswith("socket:["):
                inodes[target[8:-1]] = record.name
    found: dict[str, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and (name := inodes.get(fields[9])):
                found.setdefault(name, set()).add(fields[1].rsplit(":", 1)[0])
    return found


def run(*arguments: str) -> tuple[int, str]:
    """Run the command line; return its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


OWNER: Final = """
import signal, sys, time
from pathlib import Path
from devcluster.cluster import Cluster
# A shell lets what it starts in the background ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
state, nodes, *sleeper = sys.argv[1:]
with Cluster(Path(state), images={"sleeper": sleeper}) as cluster:
    if int(nodes):
        cluster.up(int(nodes))
    else:
        cluster._claim()
        cluster.launch("sleeper", [sys.executable, *sleeper])
    print("up", flush=True)
    time.sleep(600)
"""


def owner(state: Path, nodes: int) -> subprocess.Popen[bytes]:
    """Start a process that owns a cluster, or without nodes a single process in its place; wait until it is up."""
    command = [sys.executable, "-c", OWNER, str(state), str(nodes), *SLEEPER]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    process.stdout.close()
    return process


@pytest.mark.e2e
def test_the_life_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """It boots 500 nodes while another one runs, after a crash; when its owner is killed, nothing of it is left."""
    state = tmp_path / "state"
    one = Cluster(state)
    one._claim()
    crashed = start(one.files, "crashed", [sys.executable, *SLEEPER])
    crashed.kill()
    crashed.wait()
    with owner(state, nodes=500) as process:
        try:
            _assert_up(one)
            mine = {"system-0", "gpu-0", "gpu-1", "gpu-2"}
            assert {each["metadata"]["name"] for each in cluster.list(machines.NODES)} == mine
            pid = _sleeping_pod(one)
            records = one.status()
        finally:
            process.kill()
    until(lambda: not any(record.alive for record in records), seconds=30)
    until(lambda: not state.exists(), seconds=30)
    assert start_mark(pid) is None
    assert all(record.alive for record in cluster.status())
    one.down()
    assert run("down", f"--state={state}") == (0, "")
    assert run("status", f"--state={state}")[0] == 1
    code, said = run("kubeconfig", f"--state={state}")
    assert (code, "no cluster is up" in said) == (1, True)


def _assert_up(one: Cluster) -> None:
    """Assert that all nodes are Ready and labelled, that no process can be reached from outside, and what is shown."""
    nodes = one.list(machines.NODES, labelSelector="feature.node.kubernetes.io/pci-10de.present=true")
    assert (len(nodes), all(machines.is_ready(node) for node in nodes)) == (500, True)
    assert {str(node["spec"]["taints"]) for node in nodes} == {str([machines.GPU_TAINT])}
    listeners = listening(one.status())
    assert set(listeners) == {"etcd", "kube-apiserver", "kwok", "podrunner"}
    assert set.union(*listeners.values()) == {"0100007F"}
    with pytest.raises(ClusterError, match="is up"):
        Cluster(one.state).up(0)
    code, said = run("status", f"--state={one.state}")
    assert (code, "501 of 501 nodes are Ready" in said) == (0, True), said
    assert run("kubeconfig", f"--state={one.state}") == (0, f"{one.state / 'kubeconfig'}\n")


def _sleeping_pod(one: Cluster) -> int:
    """Run a pod, and return its process; one on a GPU node stays Pending, because here no fleet is simulated."""
    container = {"name": "main", "image": "sleeper"}
    for name, node in (("idle", "gpu-0"), ("sleeper", "system-0")):
        one.create(PODS, {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}})
    until(lambda: one.get(f"{PODS}/sleeper")["status"]["phase"] == "Running")
    idle = one.get(f"{PODS}/idle")["status"]
    assert (idle["phase"], "containerStatuses" in idle) == ("Pending", False)
    pid = int((one.files.pod("default", "sleeper") / "pid").read_text())
    assert start_mark(pid)
    return pid


def test_an_interrupted_owner_takes_its_cluster_down(tmp_path: Path) -> None:
    """Ctrl-C runs the context manager's end."""
    state = tmp_path / "state"
    with owner(state, nodes=0) as process:
        (record,) = Cluster(state).status()
        process.send_signal(signal.SIGINT)
    assert (record.alive, state.exists()) == (False, False)


def test_up_that_fails_explains_itself_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that dies is named, its last output is shown, and the others are ended."""
    broken = tmp_path / "assets" / "kube-apiserver"
    broken.parent.mkdir()
    script = '#!/bin/sh\n[ "$1" = --version ] && echo Kubernetes v1.37.0 && exit\necho no disk left >&2\nexit 5\n'
    broken.write_text(script)
    broken.chmod(0o755)
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


def test_the_command_line_boots_what_you_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And prints how to use it."""
    asked = []
    monkeypatch.setattr(Cluster, "up", lambda _self, *given, **more: asked.append((given, more)))
    done = CliRunner().invoke(main, ["up", f"--state={tmp_path}", "--nodes=2", "--nics=1", "--no-fleet"])
    assert asked == [((2,), {"fleet": False, "nics": 1, "real_node": None})], done.output
    assert f"export KUBECONFIG={tmp_path / 'kubeconfig'}" in done.output


def test_a_visit_begins_only_where_pods_can_trust_the_server(tmp_path: Path) -> None:
    """A kubeconfig that relies on this machine's authorities is refused with a sentence; nothing is left behind."""
    theirs = tmp_path / "kubeconfig"
    config = {
        "clusters": [{"name": "theirs", "cluster": {"server": "https://cluster.example"}}],
        "contexts": [{"name": "theirs", "context": {"cluster": "theirs", "user": "user"}}],
        "users": [{"name": "user", "user": {"token": "x"}}],
        "current-context": "theirs",
    }
    theirs.write_text(json.dumps(config))
    visit = Visit(tmp_path / "state")
    with pytest.raises(ClusterError, match="no certificate authority"):
        visit.attach(theirs, nodes=1)
    assert not visit.state.exists()
