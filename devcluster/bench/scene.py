"""One fleet, one upgrade, and every approach at work on a plugin of its own: all see the same driver reloads."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from devcluster import binaries, commands, etcd, patience
from devcluster.bench import atrest
from devcluster.bench.ledger import Ran, account, over
from devcluster.bench.peers import EVICTION_ENV, EVICTION_LABEL, OURS
from devcluster.bench.plots import MODES
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

OLD, NEW = ("580.105.08", "v26.3.3"), ("580.126.20", "v26.3.4")
"""The driver and the operator's chart: what a release upgrades together."""
DAEMONSET: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
SELECTOR: Final = "dra-driver-nvidia-gpu-component=kubelet-plugin"
OUR_NAMESPACE: Final = "nvidia-dra-driver-gpu"
OPERATOR, PLUGIN, SCRIPT, POST = (
    str(CHECKOUT / folder)
    for folder in (
        *(f"devcluster/charts/{name}" for name in ("gpu-operator", "dra-driver", "script-job")),
        "charts/gpu-operator-post",
    )
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
        """Bring up the fleet on the old driver, with one plugin per approach on every node, and our chart."""
        self.say(f"booting {self.plot.nodes} nodes")
        self.cluster.audit_statuses = self.plot.told
        self.cluster.up(nodes=self.plot.nodes, fleet=True)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fleet"}}
        body |= {"data": {"knobs": json.dumps(self.plot.knobs)}}
        place = path("v1", "configmaps", namespace="devcluster", name="fleet")
        self.cluster.run(lambda api: api.apply(place, body, "bench"))
        if self._evicts:
            self.cluster.kubectl("label", "nodes", "--all", f"{EVICTION_LABEL}=true")
        self._operator(OLD)
        self._plugins()
        if self.plot.claims:
            self.cluster.kubectl("create", "namespace", atrest.TEAM)
            etcd.put(self.cluster.files, atrest.claims(self.plot.claims, self.plot.nodes))
        if self.plot.own_servers:
            self._start_servers()
        for name in self._ours:
            if self._post(name).wait() != 0:
                raise TooSlowError(f"the first install of {name} failed: {self._log(name).read_text()}")

    def compare(self) -> Played:
        """Upgrade, let every approach work, and draw up the accounts."""
        self.say(f"upgrading, {self.plot.parallel} at once")
        for server in self._servers.values():
            server.begin()
        self._operator(NEW)
        self.began = time.time()
        running = {name: self._post(name) for name in self._ours}
        running |= {peer.name: self._script(peer) for peer in self.peers if peer.script}
        ended = self._await(running)
        self._until(self._all_new, "every driver is new")
        return self._judge(ended)

    @property
    def _ours(self) -> dict[str, Mapping[str, Any]]:
        """This program, and what it is compared with that is this program with other settings."""
        return {OURS: {}, **{peer.name: peer.settings for peer in self.peers if peer.settings is not None}}

    @property
    def _evicts(self) -> bool:
        return any(peer.plugin for peer in self.peers)

    def _plugins(self) -> None:
        """Install one plugin per approach: the name keeps them out of each other's slices."""
        self._helm("dra-driver", PLUGIN, OUR_NAMESPACE, MODES[self.plot.mode])
        for peer in self.peers:
            values = {"driverName": f"{peer.name}.example.com", **MODES[self.plot.mode], **peer.plugin}
            self._helm("dra-driver", PLUGIN, peer.name, values)
        plugins = (1 + len(self.peers)) * self.plot.nodes
        self._until(lambda: self._count("plugin-ready") >= plugins, f"{plugins} plugins run")

    def sizes(self) -> dict[str, int]:
        """Return the bytes of a node and of a driver pod, as the API server sends them."""
        paths = {"node": "/api/v1/nodes?limit=1", "pod": "/api/v1/namespaces/gpu-operator/pods?limit=1"}
        return {kind: len(self.cluster.kubectl("get", "--raw", where).stdout) for kind, where in paths.items()}

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
        """Start an API server for each approach that sends requests, and one that gets none."""
        for name in (*self._ours, *(peer.name for peer in self.peers if peer.script), NOBODYS):
            self._servers[name] = server = OwnServer(self.cluster, name)
            server.start()

    def _await(self, running: dict[str, subprocess.Popen[str]]) -> dict[str, tuple[int, float]]:
        """Note when and how each approach ends; one that hangs is ended long after it should have."""
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
        return truth.running(NEW[0]) == set(truth.nodes) != set()

    def _count(self, event: str) -> int:
        return sum(each.event == event for each in self.truth.happenings)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        patience.until(holds, what, FLEET_SECONDS + self.plot.nodes, soonest=self.plot.look_seconds)

    def _script(self, peer: Peer) -> subprocess.Popen[str]:
        """Run a script as people do: as a Helm hook Job with kubectl."""
        variables = {
            "KUBECTL": str(binaries.ensure(["kubectl"])["kubectl"]),
            "NAMESPACE": peer.name,
            "DAEMONSET": DAEMONSET,
            "SELECTOR": SELECTOR,
        }
        if peer.name in self._servers:
            variables["KUBERNETES_SERVICE_PORT"] = str(self._servers[peer.name].port)
        return self._hook(peer.name, peer.name, SCRIPT, peer.name, {"script": peer.script, "env": variables})

    def _post(self, name: str) -> subprocess.Popen[str]:
        """Install or upgrade our chart; the namespace keeps it off the others' plugins."""
        own = name == OURS
        values = {
            "plugin.namespace": OUR_NAMESPACE if own else name,
            "timeout": f"{self._minutes}m",
            "image.repository": "registry.example/gpu-operator-post",
            **self._ours[name],
        }
        if name in self._servers:
            values["extraEnv"] = [{"name": "KUBERNETES_SERVICE_PORT", "value": str(self._servers[name].port)}]
        return self._hook(name, OURS if own else f"{OURS}-{name}", POST, "gpu-operator", values)

    def _hook(
        self, name: str, release: str, chart: str, namespace: str, values: Mapping[str, Any]
    ) -> subprocess.Popen[str]:
        """Start Helm, which waits for the hook of a chart. Its output goes into a file: a full pipe would stop it."""
        command = [str(self.cluster.binary("helm4")), "upgrade", "--install", release, chart, "-n", namespace]
        with self._log(name).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*command, "--reset-values", f"--timeout={self._minutes + 2}m", *_sets(values)],
                env=commands.environment(self.cluster.files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return self.cluster.adopt(process)

    @property
    def _minutes(self) -> int:
        return int((FLEET_SECONDS + 4 * self.plot.window) // 60) + 1

    def _log(self, name: str) -> Path:
        return self.cluster.files.log(f"bench-{name}")

    def _operator(self, release: tuple[str, str]) -> None:
        driver, chart = release
        upgrade = {"autoUpgrade": True, "maxParallelUpgrades": self.plot.parallel, "maxUnavailable": "100%"}
        values = {
            "chartVersion": chart,
            "driver.version": driver,
            "driver.upgradePolicy": upgrade,
            "driver.manager.env": EVICTION_ENV if self._evicts else [],
            "simulate.requeueSeconds": self.plot.requeue,
            "simulate.behaviour": self.plot.behaviour,
        }
        self._helm("gpu-operator", OPERATOR, "gpu-operator", values)

    def _helm(self, release: str, chart: str, namespace: str, values: Mapping[str, Any]) -> None:
        place = ["-n", namespace, "--create-namespace", "--reset-values"]
        self.cluster.helm("upgrade", "--install", release, chart, *place, *_sets(values))


def _sets(values: Mapping[str, Any]) -> list[str]:
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
