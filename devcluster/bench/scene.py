"""A fleet with one plugin per approach on every node: all approaches see the same driver reloads.

The upgrade controller and the nodes are faster than real ones, so that a run takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster import commands, patience
from devcluster.bench.figures import OURS
from devcluster.bench.peers import EVICTION_ENV, EVICTION_LABEL
from devcluster.fleet.settings import KEY, URL
from devcluster.patience import TooSlowError
from devcluster.releases import DAEMONSET, IMAGE, OPERATOR, PLUGIN, POST
from devcluster.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from devcluster.bench.peers import Peer
    from devcluster.boot.cluster import Cluster

OLD, NEW = ("580.105.08", "v26.3.3"), ("580.126.20", "v26.3.4")
"""The driver and the operator's chart: what a release upgrades together."""
SETTINGS: Final = {
    "driver_install_seconds": 1.0,  # 30 to 300 in reality. Statuses carry whole seconds: at least 1.
    "driver_unload_seconds": 0.2,  # 5 to 60 in reality.
    "driver_ready_gap_seconds": 0.5,  # From a loaded driver to its pod's being Ready: up to 70 in reality.
    "pod_stop_seconds": 0.3,
}
"""Settings of the simulated nodes."""
SELECTOR: Final = "dra-driver-nvidia-gpu-component=kubelet-plugin"
FLEET_SECONDS: Final = 120.0
"""For a fleet to come up, and a second per node in addition."""
A_NODE_SECONDS: Final = 25.0
"""No node takes longer, on the slowest machine."""


class Scene:
    """One fleet on one cluster, with the operator's settings that stay the same."""

    def __init__(self, cluster: Cluster, nodes: int, peers: Sequence[Peer], requeue: float, parallel: int) -> None:
        self.cluster, self.nodes, self.peers = cluster, nodes, peers
        self.minutes = int((FLEET_SECONDS + A_NODE_SECONDS * nodes) // 60) + 1
        self.plugins = {OURS: f"{PLUGIN.namespace}/{DAEMONSET}"}
        """The DaemonSet of each approach."""
        self.plugins |= {peer.title: f"{peer.name}/{DAEMONSET}" for peer in peers}
        self._requeue, self._parallel = requeue, parallel

    def prepare(self) -> None:
        """Bring up the fleet on the old driver, with one plugin per approach on every node."""
        self.cluster.up(nodes=self.nodes, fleet=True)
        self.cluster.patch(URL, {"data": {KEY: json.dumps(SETTINGS)}})
        self.cluster.kubectl("label", "nodes", "--all", f"{EVICTION_LABEL}=true")
        self.operator(*OLD)
        self.cluster.helm(*PLUGIN.install({}))
        for peer in self.peers:
            # The name of the driver keeps the plugins out of each other's slices.
            values = {"driverName": f"{peer.name}.example.com", **peer.plugin}
            self.cluster.helm(*PLUGIN._replace(namespace=peer.name).install(values))
        plugins = len(self.plugins) * self.nodes

        def all_run() -> bool:
            return sum(each.event == "plugin-ready" for each in self.truth.entries) >= plugins

        self.until(all_run, f"{plugins} plugins run")

    def operator(self, driver: str, chart: str = OLD[1], *, auto: bool = True, precompiled: bool = False) -> None:
        """Install or upgrade the operator; this returns long before any driver reloads."""
        policy = {"autoUpgrade": auto, "maxParallelUpgrades": self._parallel, "maxUnavailable": "100%"}
        values = {
            "chartVersion": chart,
            "driver.version": driver,
            "driver.usePrecompiled": precompiled,
            "driver.upgradePolicy": policy,
            "driver.manager.env": EVICTION_ENV,
            "simulate.requeueSeconds": self._requeue,
            "simulate.behaviour": "26.3",
        }
        self.cluster.helm(*OPERATOR.install(values))

    def ours(self, values: Mapping[str, Any]) -> subprocess.Popen[str]:
        """Start to install or upgrade our chart; the namespace keeps it off the others' plugins."""
        always = {"plugin.namespace": PLUGIN.namespace, "image.repository": IMAGE}
        upgrade = POST.install({**always, **values}, "--wait", f"--timeout={self.minutes + 2}m")
        return self._start(str(self.cluster.binary("helm4")), *upgrade)

    def scripts(self) -> list[subprocess.Popen[str]]:
        """Start the scripts, as a pipeline does where Helm has returned."""
        return [
            self._start("sh", "-euc", peer.script, NAMESPACE=peer.name, DAEMONSET=DAEMONSET, SELECTOR=SELECTOR)
            for peer in self.peers
            if peer.script
        ]

    def wait(self, running: Iterable[subprocess.Popen[str]]) -> None:
        """Wait for approaches; one that fails or hangs ends the measurement."""
        deadline = time.monotonic() + self.minutes * 60
        for process in running:
            try:
                code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise TooSlowError(f"still at work: {process.args!r}") from error
            if code != 0:
                raise SystemExit(f"{process.args!r} ended with {code}:\n{self._log.read_text()}")

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something. Each look reads the whole journal, which grows with the fleet."""
        patience.until(holds, what, FLEET_SECONDS + self.nodes, soonest=0.5 + self.nodes / 250)

    def all_new(self, version: str) -> bool:
        """Return whether a driver of this version is Ready on every node."""
        return len(self.truth.running(version)) == self.nodes

    @property
    def _log(self) -> Path:
        """What the approaches write."""
        return self.cluster.files.log("bench")

    def _start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command with our kubectl. Its output goes into a file: a full pipe would stop it."""
        environment = commands.environment(self.cluster.files) | variables
        environment["PATH"] = f"{self.cluster.binary('kubectl').parent}:{environment['PATH']}"
        with self._log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, text=True
            )
        return self.cluster.adopt(process)
