"""Clusters come up whole, live side by side, and leave nothing behind, however they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster import machines
from devcluster.cluster import Cluster, ClusterError
from devcluster.layout import CHECKOUT
from devcluster.processes import ProcessError, start_mark
from devcluster.visit import Visit
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.processes import Record


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


def test_two_clusters_side_by_side(tmp_path: Path) -> None:
    """Two clusters do not see each other; when one goes, all of it goes, and the other stays."""
    with Cluster(tmp_path / "one") as one, Cluster(tmp_path / "two") as two:
        one.up(1)
        two.up(3)
        assert names(one) == {"system-0", "gpu-0"}
        assert names(two) == {"system-0", "gpu-0", "gpu-1", "gpu-2"}
        gone = one.status()
        one.down()
        assert [record.name for record in gone if record.alive] == []
        assert not one.state.exists()
        assert names(two) == {"system-0", "gpu-0", "gpu-1", "gpu-2"}
        assert all(record.alive for record in two.status())


def names(cluster: Cluster) -> set[str]:
    """Name a cluster's nodes."""
    return {node["metadata"]["name"] for node in cluster.list(machines.NODES)}


def test_everything_listens_on_loopback_only(tmp_path: Path) -> None:
    """No process of a cluster can be reached from outside of the machine."""
    with Cluster(tmp_path / "state") as cluster:
        cluster.up(1)
        listeners = listening(cluster.status())
    assert set(listeners) == {"etcd", "kube-apiserver", "kwok", "podrunner"}
    assert set.union(*listeners.values()) == {"0100007F"}


def test_down_ends_pods_and_may_be_repeated(tmp_path: Path) -> None:
    """Processes of pods end with the cluster; ending it twice, or where none is, is no error."""
    program = ["-c", "import time; time.sleep(600)"]
    cluster = Cluster(tmp_path / "state", images={"sleeper": program})
    cluster.down()
    cluster.up(0)
    cluster.kubectl("run", "sleeper", "--image=sleeper", "--restart=Never")
    pid_file = cluster.files.pod("default", "sleeper") / "pid"
    until(pid_file.exists)
    pid = int(until(pid_file.read_text))
    assert start_mark(pid)
    cluster.down()
    assert start_mark(pid) is None
    assert list(tmp_path.iterdir()) == []
    cluster.down()


def test_up_that_fails_explains_itself_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A component that dies is named, its last words are shown, and the others are ended."""
    assets = tmp_path / "assets"
    assets.mkdir()
    broken = assets / "kube-scheduler"
    script = '#!/bin/sh\n[ "$1" = --version ] && echo Kubernetes v1.37.0 && exit\necho no disk left >&2\nexit 5\n'
    broken.write_text(script)
    broken.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    cluster = Cluster(tmp_path / "state")
    with pytest.raises(ProcessError, match=r"kube-scheduler ended with 5 before [\s\S]*no disk left"):
        cluster.up(1)
    assert not cluster.state.exists()
    assert str(cluster.state) not in command_lines()


def command_lines() -> str:
    """Return the command lines of all processes on the machine."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def test_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A directory with files that are not a cluster's is neither used nor removed."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ClusterError, match="not empty"):
        Cluster(tmp_path).up(0)
    Cluster(tmp_path).down()
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


OWNER = """
import signal, sys, time
from pathlib import Path
from devcluster.cluster import Cluster
# A shell lets what it starts in the background ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Cluster(Path(sys.argv[1])) as cluster:
    cluster.up(0)
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="interrupted"), pytest.param(signal.SIGKILL, id="killed")],
)
def test_cluster_does_not_outlive_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C runs the context manager's end; where even that is not possible, the guard does it."""
    state = tmp_path / "state"
    command = [sys.executable, "-c", OWNER, str(state)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"up\n"
        records = Cluster(state).status()
        owner.send_signal(number)
        owner.wait()
    until(lambda: not any(record.alive for record in records), seconds=10)
    until(lambda: not state.exists(), seconds=10)


def test_state_left_by_a_crash_is_cleared_by_the_next_up(tmp_path: Path) -> None:
    """After a reboot, say, records of dead processes are no obstacle; a living cluster is one."""
    cluster = Cluster(tmp_path / "state")
    cluster.up(0)
    for record in cluster.status():
        os.killpg(record.pid, signal.SIGKILL)
    for process in cluster._running.values():
        process.wait()
    with Cluster(tmp_path / "state") as again:
        again.up(0)
        with pytest.raises(ClusterError, match="is up"):
            Cluster(tmp_path / "state").up(0)
        assert names(again) == {"system-0"}


def test_outage_is_seen_by_the_real_node_lifecycle_controller(tmp_path: Path) -> None:
    """A silent node turns NotReady, its pods too but for their containers, and both ways by the real controller."""
    with Cluster(tmp_path / "state") as cluster:
        cluster.up(2)
        path = ready_pod(cluster, "gpu-0")
        cluster.kubectl("annotate", "node", "gpu-0", f"{machines.OUTAGE}=true")
        until(lambda: not machines.is_ready(cluster.get(f"{machines.NODES}/gpu-0")), seconds=20)
        until(lambda: condition(cluster, path, "Ready") == "False")
        assert condition(cluster, path, "ContainersReady") == "True"
        assert machines.is_ready(cluster.get(f"{machines.NODES}/gpu-1"))
        cluster.kubectl("annotate", "node", "gpu-0", f"{machines.OUTAGE}-")
        until(lambda: machines.is_ready(cluster.get(f"{machines.NODES}/gpu-0")), seconds=5)


def ready_pod(cluster: Cluster, node: str) -> str:
    """Create a pod on a fake node and say, as its kubelet would, that it is Ready."""
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "main", "image": "example.invalid/any"}
    spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    cluster.create(pods, {"metadata": {"name": "quiet"}, "spec": spec})
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    cluster.patch(f"{pods}/quiet/status", {"status": {"phase": "Running", "conditions": ready}})
    return f"{pods}/quiet"


def condition(cluster: Cluster, pod: str, kind: str) -> str:
    """Return the status of one of a pod's conditions."""
    return next(str(each["status"]) for each in cluster.get(pod)["status"]["conditions"] if each["type"] == kind)


def test_500_nodes_boot(tmp_path: Path) -> None:
    """A fleet of 500 comes up, labelled as a feature discovery labels it, and stays up."""
    with Cluster(tmp_path / "state") as cluster:
        cluster.up(500)
        nodes = cluster.list(machines.NODES, labelSelector="feature.node.kubernetes.io/pci-10de.present=true")
    assert len(nodes) == 500
    assert all(machines.is_ready(node) for node in nodes)
    assert {str(node["spec"]["taints"]) for node in nodes} == {str([machines.GPU_TAINT])}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "devcluster", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


def test_command_line(tmp_path: Path) -> None:
    """A cluster that is brought up by a command lives on until another command takes it down."""
    state = f"--state={tmp_path / 'state'}"
    assert run("status", state).returncode == 1
    up = run("up", state, "--nodes=1", "--no-fleet")
    try:
        assert up.returncode == 0, up.stderr
        assert "2 of 2 nodes are Ready" in run("status", state).stdout
        assert run("kubeconfig", state).stdout.strip() == str(tmp_path / "state" / "kubeconfig")
    finally:
        assert run("down", state).returncode == 0
    refused = run("kubeconfig", state)
    assert (refused.returncode, "no cluster is up" in refused.stderr) == (1, True)


def test_a_visit_begins_only_where_pods_can_trust_the_server(tmp_path: Path) -> None:
    """A kubeconfig that relies on this machine's authorities is refused with a sentence; nothing is left behind."""
    theirs = tmp_path / "kubeconfig"
    server = {"name": "theirs", "cluster": {"server": "https://cluster.example"}}
    context = {"name": "theirs", "context": {"cluster": "theirs", "user": "somebody"}}
    user = {"name": "somebody", "user": {"token": "x"}}
    config = {"clusters": [server], "contexts": [context], "users": [user], "current-context": "theirs"}
    theirs.write_text(json.dumps(config))
    visit = Visit(tmp_path / "state")
    with pytest.raises(ClusterError, match="no certificate authority"):
        visit.attach(theirs, nodes=1)
    assert not visit.state.exists()
