"""A cluster of one state directory: boot it, use it, and leave nothing behind."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from devcluster import commands
from devcluster.boot import controlplane, machines
from devcluster.boot.controlplane import Shape
from devcluster.boot.layout import SYSTEM_NODE, State
from devcluster.boot.processes import START_SECONDS, Children, ProcessError, Record, end, records
from devcluster.build import binaries
from devcluster.build.gobuild import BuildError
from devcluster.build.gotoolchain import ToolchainError
from devcluster.build.programs import ON_DEMAND
from devcluster.client import MERGE_PATCH, Connection
from devcluster.kubelet import node as kubelets
from devcluster.kubelet.names import REAL_NODE
from devcluster.patience import TooSlowError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    from devcluster.client import Api, Object
    from devcluster.kubelet.node import RealNode
    from devcluster.patience import What

T = TypeVar("T")
P = TypeVar("P", subprocess.Popen[str], BaseProcess)

SIMULATOR_GRACE = 5.0
"""The fleet closes its journal, and the pods of the system node end; none needs longer."""

PODS, FLEET, WATCHDOG = "pods", "fleet", "watchdog"

EVIDENCE = ("logs", "pods", "audit.jsonl", "truth.jsonl")
"""What explains a failed test after the cluster is gone."""


class ClusterError(Exception):
    """The cluster cannot do what was asked; the message says why."""


FAILURES = (ClusterError, BuildError, ToolchainError, ProcessError, TooSlowError)
"""What keeps a cluster from coming up, with a message for people; anything else is a bug and keeps its traceback."""


class Cluster:
    """One cluster. As a context manager it is taken down at the end, however that comes.

    The methods are for code outside of an event loop: tests, the demo, the command line.
    """

    def __init__(self, state: Path) -> None:
        self.files = State(Path(state).resolve())
        self._children = Children(self.files)
        self._adopted: list[subprocess.Popen[str] | BaseProcess] = []
        self._owner: int | None = None
        self._connection: Connection | None = None
        self._connecting = threading.Lock()
        self._audited = 0
        """How much of the audit log is of before `forget`."""

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.files.root

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.files.kubeconfig

    def __enter__(self) -> Self:
        self._owner = os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(
        self,
        nodes: int = 1,
        *,
        fleet: bool = False,
        nics: int = 0,
        real_node: RealNode | None = None,
        at_rest: bool = False,
    ) -> None:
        """Boot everything and return when all nodes are Ready; on failure leave nothing running.

        The first `nics` nodes have a network card of NVIDIA. With a real node, pods of its images run there, as
        containers; all others still run on the system node. At rest, a fleet that was put into storage
        (`devcluster.boot.etcd`) stays as it is: DaemonSets are not reconciled.
        """
        programs = binaries.ensure((*binaries.CLUSTER_NAMES, *(ON_DEMAND if real_node else ())))
        self._claim()
        try:
            self._start_watchdog()
            shape = Shape(nodes, real_node, at_rest)
            controlplane.boot(self.files, programs, shape, self._children)
            if real_node is not None:
                self.run(lambda api: machines.create_policy(api, kubelets.pin_policy(real_node.images)))
            self.run(machines.prepare)
            self._simulate(nodes, nics, fleet=fleet)
            if real_node is not None:
                self._await_nodes({REAL_NODE})
            if real_node is not None and real_node.gpus:
                self.run(lambda api: machines.label_as_gpu_node(api, REAL_NODE))
        except BaseException:
            self.down()
            raise

    def _start_watchdog(self) -> None:
        """Have the cluster taken down should its owner die."""
        if self._owner is not None:
            mark = Record.of("owner", self._owner).started
            self._start(WATCHDOG, "devcluster.boot.watchdog", "--owner", str(self._owner), "--started", mark)

    def _simulate(self, nodes: int, nics: int, *, fleet: bool) -> None:
        """Bring the system node and the GPU nodes into the cluster; KWOK is there already."""
        self.run(machines.create_system_node)
        self._start(PODS, "devcluster.pods")
        if fleet:
            self._start(FLEET, "devcluster.fleet")
        self.add_gpu_nodes(nodes, nics)

    def add_gpu_nodes(self, nodes: int, nics: int = 0) -> None:
        """Let so many GPU nodes join, and return when all are Ready."""
        self.run(lambda api: machines.create_gpu_nodes(api, nodes, nics))
        self._await_nodes({SYSTEM_NODE, *machines.gpu_node_names(nodes)})

    def down(self) -> None:
        """End every process of this cluster and remove its directory. Nothing to do is no error."""
        self._disconnect()
        recorded = [each for each in records(self.files.processes) if each.pid != os.getpid()]
        end([each for each in recorded if each.name == WATCHDOG], grace=0)
        end([each for each in recorded if each.name in (PODS, FLEET)], grace=SIMULATOR_GRACE)
        # Read again: until then, more pods may have started. What these processes
        # know dies with the directory, so nothing is gained by letting them end slowly.
        end([each for each in records(self.files.processes) if each.pid != os.getpid()], grace=0)
        self._children.reap()
        self.end_adopted()
        kubelets.clean(self.files)
        if self.files.marker.exists():
            shutil.rmtree(self.files.root)

    def _disconnect(self) -> None:
        atexit.unregister(self._disconnect)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def status(self) -> list[Record]:
        """Return the records of all processes that belong to the cluster, pods included."""
        return records(self.files.processes)

    def save_evidence(self, target: Path) -> None:
        """Copy logs and journals to a place that outlives the cluster."""
        target.mkdir(parents=True, exist_ok=True)
        for name in EVIDENCE:
            source = self.state / name
            if source.is_dir():
                shutil.copytree(source, target / name, dirs_exist_ok=True)
            elif source.exists():
                shutil.copy2(source, target / name)

    def forget(self) -> None:
        """Let journal, audit log and pods' folders begin anew; to be called while nothing happens."""
        self._audited = self.files.audit.stat().st_size if self.files.audit.exists() else 0
        if self.files.truth.exists():
            os.truncate(self.files.truth, 0)
        for folder in self.files.pods.glob("*"):
            shutil.rmtree(folder, ignore_errors=True)

    def end_adopted(self) -> None:
        """End the processes that were adopted."""
        for adopted in self._adopted:
            _forget(adopted)
        self._adopted.clear()

    def _claim(self) -> None:
        """Make the state directory ours, after clearing what a crashed cluster left in it."""
        if self.files.marker.exists():
            if any(record.alive for record in self.status()):
                raise ClusterError(f"a cluster is up in {self.state}; `down` ends it")
            self.down()
        if self.state.exists() and any(self.state.iterdir()):
            raise ClusterError(f"{self.state} is not empty, and no cluster's state directory")
        self.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.files.marker.touch()

    def _start(self, name: str, module: str, *arguments: str) -> None:
        """Start one of our own programs on this cluster."""
        command = [sys.executable, "-m", module, "--state", str(self.state), *arguments]
        self.launch(name, command)

    def _await_nodes(self, expected: set[str]) -> None:
        """Wait until the nodes take pods, and pods can be created (they need a ServiceAccount)."""

        async def complete(api: Api) -> bool:
            return expected <= await machines.usable_nodes(api) and await machines.accepts_pods(api)

        step = 0.05 + len(expected) / 500  # looking at 500 nodes keeps the API server from making them Ready
        self._children.wait_until("all nodes are Ready", lambda: self.run(complete), soonest=step)

    # Programs in addition

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a program that works on this cluster; it ends with the cluster, or by `end`."""
        self._children.start(name, command, environment)

    def end(self, *names: str) -> None:
        """End programs of this cluster."""
        self._children.end(*names, grace=SIMULATOR_GRACE)

    def wait_until(self, what: What, look: Callable[[], T | None], seconds: float = START_SECONDS) -> T:
        """Wait for what the running programs bring about, and return it; fail at once when one of them ends."""
        return self._children.wait_until(what, look, seconds)

    # Using it

    def run(self, task: Callable[[Api], Awaitable[T]]) -> T:
        """Run an asynchronous function with a client of this cluster, which stays connected until `down`."""
        with self._connecting:
            if self._connection is None:
                self._connection = Connection(self.kubeconfig)
                atexit.register(self._disconnect)
        return self._connection.run(task)

    def get(self, url_path: str, **params: str) -> Object:
        """Read one object."""
        return self.run(lambda api: api.get(url_path, **params))

    def create(self, url_path: str, body: Object) -> Object:
        """Create an object."""
        return self.run(lambda api: api.create(url_path, body))

    def patch(self, url_path: str, body: object, content_type: str = MERGE_PATCH) -> Object:
        """Patch an object."""
        return self.run(lambda api: api.patch(url_path, body, content_type))

    def delete(self, url_path: str, options: Object | None = None) -> Object:
        """Delete an object."""
        return self.run(lambda api: api.delete(url_path, options))

    def kubectl(self, *arguments: str, check: bool = True, text: str | None = None) -> commands.Result:
        """Run kubectl as the administrator; `text` is its standard input."""
        return commands.run(self.files, ["kubectl", *arguments], check=check, text=text)

    def helm(self, *arguments: str, version: int = 4, check: bool = True) -> commands.Result:
        """Run Helm 4 or 3 as the administrator, with homes of its own."""
        return commands.run(self.files, [f"helm{version}", *arguments], check=check)

    def start_helm(self, *arguments: str, version: int = 4) -> subprocess.Popen[str]:
        """Start Helm and return at once; the caller waits for it."""
        return self.adopt(commands.launch(self.files, [f"helm{version}", *arguments]))

    def adopt(self, process: P) -> P:
        """Let a process that a test started, and does not end if it fails, end with the cluster."""
        self._adopted.append(process)
        return process

    def binary(self, name: str) -> Path:
        """Return the path of one of the cluster's programs, as `binaries.NAMES` lists them."""
        return binaries.ensure([name])[name]

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit log: writes of ServiceAccounts outside of kube-system, oldest first."""
        if not self.files.audit.exists():
            return []
        *complete, _unfinished = self.files.audit.read_bytes()[self._audited :].decode().split("\n")
        return [json.loads(line) for line in complete if line]

    def list(self, url_path: str, **selectors: str) -> list[Object]:
        """Read a whole collection."""
        return self.run(lambda api: api.list(url_path, **selectors))


def _forget(process: subprocess.Popen[str] | BaseProcess) -> None:
    """End a process whose output is not needed any more."""
    process.kill()
    if isinstance(process, BaseProcess):
        process.join()
        return
    for stream in filter(None, (process.stdout, process.stderr)):
        stream.close()
    process.wait()
