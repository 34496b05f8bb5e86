"""One fleet, one upgrade, and every way at work on a plugin of its own: all see the same driver reloads."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from devcluster import binaries, commands
from devcluster.bench.ledger import Ran, account, over
from devcluster.bench.peers import OURS
from devcluster.bench.reaction import reactions
from devcluster.bench.servers import NOBODYS, OwnServer
from devcluster.client import path
from devcluster.layout import CHECKOUT
from devcluster.patience import TooSlowError
from devcluster.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from devcluster.bench.ledger import Entry
    from devcluster.bench.peers import Peer
    from devcluster.bench.plots import Plot
    from devcluster.bench.reaction import Reactions
    from devcluster.cluster import Cluster

OLD, NEW = "580.105.08", "580.126.20"
DAEMONSET: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
SELECTOR: Final = "dra-driver-nvidia-gpu-component=kubelet-plugin"
OUR_NAMESPACE: Final = "nvidia-dra-driver-gpu"
OPERATOR, PLUGIN, POST = (
    str(CHECKOUT / folder)
    for folder in ("devcluster/charts/gpu-operator", "devcluster/charts/dra-driver", "charts/gpu-operator-post")
)
LOOK_SECONDS: Final = 0.5
FLEET_SECONDS: Final = 120.0
"""For a fleet to come up, and a second per node in addition."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a run."""

    entries: Sequence[Entry]
    """Ours first."""
    reactions: Reactions
    """Ours."""
    seconds: float
    """From the upgrade's beginning until it was over."""


@dataclass
class Scene:
    """One run on one cluster."""

    cluster: Cluster
    plot: Plot
    peers: Sequence[Peer]
    say: Callable[[str], None]
    began: float = 0.0
    _servers: dict[str, OwnServer] = field(default_factory=dict)

    def prepare(self) -> None:
        """Bring up the fleet on the old driver, with one plugin a way on every node, and our chart."""
        self.say(f"booting {self.plot.nodes} nodes")
        self.cluster.audit_statuses = self.plot.told
        self.cluster.up(nodes=self.plot.nodes, fleet=True)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fleet"}}
        body |= {"data": {"knobs": json.dumps(self.plot.knobs)}}
        place = path("v1", "configmaps", namespace="devcluster", name="fleet")
        self.cluster.run(lambda api: api.apply(place, body, "bench"))
        self._operator(OLD)
        self._helm("dra-driver", PLUGIN, OUR_NAMESPACE)
        for peer in self.peers:
            self._helm("dra-driver", PLUGIN, peer.name, driverName=f"{peer.name}.example.com")
        plugins = (1 + len(self.peers)) * self.plot.nodes
        self._until(lambda: self._count("plugin-ready") >= plugins, f"{plugins} plugins run")
        if self.plot.own_servers:
            self._start_servers()
        if self._post().wait() != 0:
            raise TooSlowError(f"the first install of gpu-operator-post failed: {self._log(OURS).read_text()}")

    def compare(self) -> Played:
        """Upgrade, let everybody work, and draw up the accounts."""
        self.say(f"upgrading, {self.plot.parallel} at once")
        for server in self._servers.values():
            server.begin()
        self._operator(NEW)
        self.began = time.time()
        running = {OURS: self._post()} | {peer.name: self._start(peer) for peer in self.peers if peer.script}
        ended = self._await(running)
        self._until(self._all_new, "every driver is new")
        return self._judge(ended)

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def _judge(self, ended: dict[str, tuple[int, float]]) -> Played:
        truth = self.truth
        plugins = {OURS: f"{OUR_NAMESPACE}/{DAEMONSET}"} | {one.name: f"{one.name}/{DAEMONSET}" for one in self.peers}
        until = over(truth, list(plugins.values()), self.began)
        base = self._servers[NOBODYS].spent() if self._servers else None
        entries = []
        for name, plugin in plugins.items():
            usage = self._servers[name].spent().minus(base) if base and name in self._servers else None
            code, seconds = ended.get(name, (None, None))
            entries.append(account(truth, Ran(name, plugin, code, seconds, usage), self.began, until))
        audit = self.cluster.audit()
        if OURS in self._servers:
            audit = self._servers[OURS].audit()
        return Played(entries, reactions(truth, audit, plugins[OURS], self.began), until - self.began)

    def _start_servers(self) -> None:
        """Start an API server for each way that sends requests, and one that gets none."""
        for name in (OURS, *(peer.name for peer in self.peers if peer.script), NOBODYS):
            self._servers[name] = server = OwnServer(self.cluster, name)
            server.start()

    def _await(self, running: dict[str, subprocess.Popen[str]]) -> dict[str, tuple[int, float]]:
        """Note when and how each way ends; one that hangs is cut off long after it should have."""
        deadline = time.monotonic() + FLEET_SECONDS + 4 * self.plot.window
        ended: dict[str, tuple[int, float]] = {}
        while len(ended) < len(running):
            for name, process in running.items():
                if name not in ended and process.poll() is not None:
                    ended[name] = (process.returncode, time.time() - self.began)
                    self.say(f"{name} has ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise TooSlowError(f"still at work: {', '.join(running.keys() - ended.keys())}")
            time.sleep(LOOK_SECONDS)
        return ended

    def _all_new(self) -> bool:
        truth = self.truth
        loaded = truth.loaded_now()
        return set(loaded.values()) == {NEW} and all(truth.driver_ready_now(node) for node in loaded)

    def _count(self, event: str) -> int:
        return sum(each.event == event for each in self.truth.happenings)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + FLEET_SECONDS + self.plot.nodes
        while not holds():
            if time.monotonic() > deadline:
                raise TooSlowError(f"not in time: {what}")
            time.sleep(self.plot.look_seconds)

    def _start(self, peer: Peer) -> subprocess.Popen[str]:
        """Run a script as a shell does."""
        variables = {
            "KUBECTL": str(binaries.ensure(["kubectl"])["kubectl"]),
            "NAMESPACE": peer.name,
            "DAEMONSET": DAEMONSET,
            "SELECTOR": SELECTOR,
        }
        if peer.name in self._servers:
            variables["KUBECONFIG"] = str(self._servers[peer.name].kubeconfig)
        return self._launch(peer.name, ["sh", "-euc", peer.script], variables)

    def _launch(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start what works by itself. Its output goes into a file: a full pipe would stop it."""
        with self._log(name).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                command,
                env={**commands.environment(self.cluster.files), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return self.cluster.adopt(process)

    def _log(self, name: str) -> Path:
        return self.cluster.files.log(f"bench-{name}")

    def _post(self) -> subprocess.Popen[str]:
        """Install or upgrade our chart; the namespace keeps it off the others' plugins."""
        minutes = int((FLEET_SECONDS + 4 * self.plot.window) // 60) + 1
        image = "image.repository=registry.example/gpu-operator-post"
        sets = [f"--set=plugin.namespace={OUR_NAMESPACE}", f"--set=timeout={minutes}m", f"--set={image}"]
        if OURS in self._servers:
            port = {"name": "KUBERNETES_SERVICE_PORT", "value": str(self._servers[OURS].port)}
            sets.append(f"--set-json=extraEnv={json.dumps([port])}")
        release = ["gpu-operator-post", POST, "-n", "gpu-operator", "--reset-values", f"--timeout={minutes + 2}m"]
        return self._launch(OURS, [str(self.cluster.binary("helm4")), "upgrade", "--install", *release, *sets], {})

    def _operator(self, version: str) -> None:
        upgrade = {"autoUpgrade": True, "maxParallelUpgrades": self.plot.parallel, "maxUnavailable": "100%"}
        self._helm(
            "gpu-operator",
            OPERATOR,
            "gpu-operator",
            **{
                "driver.version": version,
                "driver.upgradePolicy": upgrade,
                "simulate.requeueSeconds": self.plot.requeue,
            },
        )

    def _helm(self, release: str, chart: str, namespace: str, **values: Any) -> None:  # noqa: ANN401 - chart values
        sets = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
        place = ["-n", namespace, "--create-namespace"]
        self.cluster.helm("upgrade", "--install", release, chart, *place, "--reset-values", *sets)
