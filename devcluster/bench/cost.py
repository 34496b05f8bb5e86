"""``python -m devcluster.bench.cost [NAME...]``: what a run costs that finds nothing to do, waits, follows, or starts.

The program runs as in a pod, against an API server without other clients: requests and bytes are that server's own
counts. Memory is the peak of the process alone (``ru_maxrss`` of a small launcher's child), not of a container.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster import etcd
from devcluster.bench import atrest, pod, weight
from devcluster.bench.busy import Busy, unready
from devcluster.bench.results import FOLDER, Result
from devcluster.bench.servers import OwnServer
from devcluster.cluster import Cluster
from devcluster.layout import CHECKOUT
from devcluster.ports import free_ports
from devcluster.settings import separated

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES: Final = (100, 1000, 5000)
NO_OP: Final = {f"no-op-{nodes}": nodes for nodes in SIZES}
WAITING, FOLLOWING, START_UP, DECISION = "waiting-5000", "following-5000", "start-up", "decision-5000"
NAMES: Final = (*NO_OP, WAITING, FOLLOWING, START_UP, DECISION)
APART: Final = {START_UP, DECISION}
"""Measures without a cluster."""
CHANGED: Final = 20
"""Nodes that change between two decisions."""
BUSY_NODES: Final = 5000
MINUTES: Final = 10.0
STARTS: Final = 15
WARM_SECONDS: Final = 60.0
"""Until a run that waits has read everything and logged that; measuring begins then."""
QUIET: Final = ("advanced.operatorQuiet=0s", "advanced.unknownOperatorQuiet=0s")
"""What is measured is work: not for how long a run continues to look at an operator, of which there is none here."""
LEADING: Final = "leading: the Lease"
"""What a controller logs once it leads; a standby costs nothing."""
OTHERS: Final = ("kube-controller-manager", "kube-scheduler", "kwok", "podrunner")
DEFINITION: Final = CHECKOUT / "devcluster/charts/gpu-operator/crds/clusterpolicies.yaml"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for, or everything."""
    given = _arguments(arguments)
    if given.nodes is not None:
        names: Sequence[str] = (f"no-op-{given.nodes}",)
    else:
        names = given.name or NAMES
    if START_UP in names:
        _start_up(given.out)
    if DECISION in names:
        _decision(given.out)
    for nodes in sorted({_nodes(name) for name in names if name not in APART}):
        wanted = [name for name in names if name not in APART and _nodes(name) == nodes]
        with tempfile.TemporaryDirectory(prefix="gpu-operator-post-cost-") as folder:
            _measure(wanted, nodes, given, Path(folder))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devcluster.bench.cost", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*NAMES, []], help="some of the measures")
    parser.add_argument("--out", type=Path, default=FOLDER, help="write figures into this folder, a file a measure")
    parser.add_argument("--nodes", type=int, help="a run with nothing to do on a fleet of this size")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long to wait")
    return parser.parse_args(arguments)


def _nodes(name: str) -> int:
    return int(name.rpartition("-")[2])


def _measure(names: Sequence[str], nodes: int, given: argparse.Namespace, folder: Path) -> None:
    """Measure one after the other on one fleet."""
    with Cluster(folder / "cluster") as cluster:
        _say(f"{nodes} nodes: putting the fleet in place")
        scene = Scene(cluster, nodes, folder)
        scene.prepare()
        for name in names:
            began = time.monotonic()
            measure = name.removesuffix(f"-{nodes}")
            if name in (WAITING, FOLLOWING):
                found = scene.wait(given.minutes * 60, follow=name == FOLLOWING)
                extra: dict[str, Any] = {"minutes": given.minutes}
            else:
                found, extra = scene.nothing_to_do(), {}
            command = f"make bench BENCH={name}"
            seconds = round(time.monotonic() - began)
            Result(name, measure, command, seconds, {"nodes": nodes, **extra}, found).write(given.out)
            _say(f"{name}: {found}")


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet at rest, and an API server of our own."""

    cluster: Cluster
    nodes: int
    folder: Path

    def prepare(self) -> None:
        """Boot, and put the fleet into storage."""
        self.cluster.up(nodes=0, fleet=False, at_rest=True)
        for namespace in (atrest.OPERATOR, atrest.DRA):
            self.cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.cluster.kubectl("apply", "-f", str(DEFINITION))
        self.cluster.kubectl(
            "wait", "--for=condition=Established", f"crd/{DEFINITION.stem}.nvidia.com", "--timeout=60s"
        )
        served = ["get", DEFINITION.stem]
        self.cluster.wait_until("the kind exists", lambda: not self.cluster.kubectl(*served, check=False).returncode)
        path = "/apis/nvidia.com/v1/clusterpolicies"
        policy = self.cluster.create(path, atrest.POLICY)
        self.cluster.patch(f"{path}/cluster-policy/status", {"status": atrest.POLICY_STATUS})
        pod.mount(self.cluster, self.folder / "mount")
        # They would annotate, lease and taint each of thousands of nodes for minutes.
        self.cluster.end(*OTHERS)
        etcd.put(self.cluster.files, atrest.fleet(self.nodes, policy["metadata"]["uid"]))

    def nothing_to_do(self) -> dict[str, Any]:
        """Measure a run that finds nothing to do, and kubectl reading the same pods."""
        server = self._server("no-op")
        server.begin()
        done = self._start(server, "no-op", "run", "--timeout=10m", *QUIET).spent()
        used = server.spent().as_json()
        if done["exit_code"] != 0 or "NothingStale" not in done["said"]:
            raise SystemExit(f"this was no run with nothing to do:\n{done['said']}")
        return {
            "wall_seconds": done["wall_seconds"],
            "cpu_seconds": done["cpu_seconds"],
            "peak_bytes": done["peak_bytes"],
            "requests": used["requests"],
            "requests_by_verb": used["requests_by_verb"],
            "received_bytes": used["bytes"],
            "api_server_cpu_seconds": used["cpu_seconds"],
            **self._kubectl(server),
        }

    def _kubectl(self, server: OwnServer) -> dict[str, Any]:
        """Measure what kubectl takes to list the fleet's pods as objects."""
        target = self.folder / "pods.json"
        kubectl = shutil.which(str(self.cluster.binary("kubectl"))) or "kubectl"
        listing = f'exec "{kubectl}" get pods -A -o json "--kubeconfig={server.kubeconfig}" > "{target}"'
        done = pod.launch(["/bin/sh", "-c", listing], self.folder / "kubectl.json", pod.environment(server.url)).spent()
        target.unlink()
        return {"kubectl_get_pods_peak_bytes": done["peak_bytes"]}

    def wait(self, seconds: float, *, follow: bool) -> dict[str, Any]:
        """Measure a run that waits for a busy fleet, or a controller of it, once it has read everything."""
        etcd.put(self.cluster.files, unready())
        name = "following" if follow else "waiting"
        server = self._server(name)
        how = ["run", f"--timeout={seconds + 1800:.0f}s", "stallTimeout=0s"]
        if follow:
            (port,) = free_ports(1)
            how = [
                "controller",
                "--identity=bench",
                f"--lease-namespace={atrest.OPERATOR}",
                f"--listen=127.0.0.1:{port}",
            ]
        with Busy(self.cluster.files, self.nodes) as busy:
            running = self._start(server, name, *how)
            pid = running.pid()
            time.sleep(WARM_SECONDS)
            server.begin()
            began, cpu, memory = time.monotonic(), pod.cpu(pid), pod.resident(pid)
            time.sleep(seconds)
            minutes = (time.monotonic() - began) / 60
            used, memories = server.spent().as_json(), (memory, pod.resident(pid))
            cpu = pod.cpu(pid) - cpu
            changes = busy.changes
        running.process.terminate()
        done = running.spent()
        if follow and LEADING not in done["said"]:
            raise SystemExit(f"this controller did not lead:\n{done['said']}")
        return {
            "requests_a_minute": round(used["requests"] / minutes, 1),
            "requests_by_verb": used["requests_by_verb"],
            "full_lists": used["requests_by_verb"].get("LIST", 0),
            "received_bytes": used["bytes"],
            "cpu_seconds_a_minute": round(cpu / minutes, 2),
            "memory_at_the_start_bytes": memories[0],
            "memory_at_the_end_bytes": memories[1],
            # Two of the kernel's counts, which differ by what is not yet summed up.
            "peak_bytes": max(done["peak_bytes"], *memories),
            "changes_a_second": round(changes / (minutes * 60 + WARM_SECONDS), 1),
            "changes_late_seconds": round(busy.late_seconds, 1),
        }

    def _server(self, name: str) -> OwnServer:
        server = OwnServer(self.cluster, name)
        server.start()
        return server

    def _start(self, server: OwnServer, name: str, command: str, *arguments: str) -> pod.Running:
        flags, settings = separated(arguments)
        started = pod.program(command, f"--service-account-dir={self.folder / 'mount'}", *flags)
        return pod.launch(started, self.folder / f"{name}.json", {**pod.environment(server.url), **settings})


def _decision(out: Path) -> None:
    """Measure one decision on a fleet of which some nodes changed, with what the program keeps and without it."""
    began, given = time.monotonic(), {"nodes": _nodes(DECISION), "changed": CHANGED}
    options = [f"--{name}={number}" for name, number in given.items()]
    command = [sys.executable, "-m", "tools.profiling.decision", *options]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    figures, seconds = json.loads(done.stdout), round(time.monotonic() - began)
    Result(DECISION, "decision", f"make bench BENCH={DECISION}", seconds, given, figures).write(out)
    _say(f"{DECISION}: {figures}")


def _start_up(out: Path) -> None:
    """Measure the time from a process' start to its first connection to the API server, and what a node pulls first."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        for name in ("token", "ca.crt", "namespace"):
            (Path(folder) / name).write_text("first")
        variables = pod.environment(f"https://127.0.0.1:{listener.getsockname()[1]}")
        # The first start writes the bytecode that an image has.
        times = [_started(listener, Path(folder), variables) for _ in range(STARTS + 1)][1:]
    figures = {
        "first_request_median_seconds": round(statistics.median(times), 3),
        "first_request_most_seconds": round(max(times), 3),
        **weight.image(),
    }
    seconds = round(time.monotonic() - began)
    Result(START_UP, START_UP, f"make bench BENCH={START_UP}", seconds, {"starts": STARTS}, figures).write(out)
    _say(f"{START_UP}: {figures}")


def _started(listener: socket.socket, folder: Path, variables: dict[str, str]) -> float:
    command = pod.program("run", f"--service-account-dir={folder}", "--timeout=1m")
    began = time.monotonic()
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listener.settimeout(60)
    connection, _ = listener.accept()
    took = time.monotonic() - began
    connection.close()
    process.kill()
    process.wait()
    listener.settimeout(0)
    try:
        while True:
            listener.accept()[0].close()
    except BlockingIOError:
        return took


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress on the terminal


if __name__ == "__main__":
    main()
