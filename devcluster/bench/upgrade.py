"""One upgrade of one fleet, and every approach at work on a plugin of its own: all see the same driver reloads.

The upgrade controller and the nodes are faster than real ones, so that a run takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster import commands, patience
from devcluster.bench.figures import OURS
from devcluster.bench.ledger import account, over
from devcluster.bench.peers import EVICTION_ENV, EVICTION_LABEL, PEERS
from devcluster.boot.layout import CHECKOUT
from devcluster.build import binaries
from devcluster.client import path
from devcluster.patience import TooSlowError
from devcluster.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from devcluster.bench.figures import Found
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
REQUEUE_SECONDS: Final = 0.5
"""After which the upgrade controller looks again; 120 in reality."""
SHORTEST_SECONDS: Final = 20.0
"""An upgrade of a few nodes must not be over before the Job of a script has started."""
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
FLEET_SECONDS: Final = 120.0
"""For a fleet to come up, and a second per node in addition."""
A_NODE_SECONDS: Final = 25.0
"""No node takes longer, on the slowest machine."""


def measure(cluster: Cluster, nodes: int, _folder: Path) -> Found:
    """Upgrade a fleet node by node, let every approach work, and draw up the accounts."""
    scene = Scene(cluster, nodes)
    scene.prepare()
    return scene.compare()


class Scene:
    """One run on one cluster."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._minutes = int((FLEET_SECONDS + A_NODE_SECONDS * nodes) // 60) + 1

    def prepare(self) -> None:
        """Bring up the fleet on the old driver, with one plugin per approach on every node, and our chart."""
        self._cluster.up(nodes=self._nodes, fleet=True)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fleet"}}
        body |= {"data": {"settings": json.dumps(SETTINGS)}}
        place = path("v1", "configmaps", namespace="devcluster", name="fleet")
        self._cluster.run(lambda api: api.apply(place, body, "bench"))
        self._cluster.kubectl("label", "nodes", "--all", f"{EVICTION_LABEL}=true")
        self._operator(OLD)
        self._helm("dra-driver", PLUGIN, OUR_NAMESPACE, {})
        for peer in PEERS:
            # The name of the driver keeps the plugins out of each other's slices.
            values = {"driverName": f"{peer.name}.example.com", **peer.plugin}
            self._helm("dra-driver", PLUGIN, peer.name, values)
        plugins = (1 + len(PEERS)) * self._nodes
        self._until_true(lambda: self._count("plugin-ready") >= plugins, f"{plugins} plugins run")
        if self._post().wait() != 0:
            raise TooSlowError(f"the first install failed: {self._log(OURS).read_text()}")

    def compare(self) -> Found:
        """Upgrade, wait until every approach has ended, and draw up the accounts."""
        self._operator(NEW)
        began = time.time()
        self._await({OURS: self._post(), **{peer.title: self._script(peer) for peer in PEERS if peer.script}})
        self._until_true(self._all_new, "every driver is new")
        truth = self._truth()
        plugins = {OURS: f"{OUR_NAMESPACE}/{DAEMONSET}"}
        plugins |= {peer.title: f"{peer.name}/{DAEMONSET}" for peer in PEERS}
        until = over(truth, list(plugins.values()), began)
        return {title: account(truth, plugin, began, until) for title, plugin in plugins.items()}

    def _await(self, running: Mapping[str, subprocess.Popen[str]]) -> None:
        """Wait for each approach; one that fails or hangs ends the measurement."""
        deadline = time.monotonic() + self._minutes * 60
        for title, process in running.items():
            try:
                code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise TooSlowError(f"{title} is still at work") from error
            if code != 0:
                raise SystemExit(f"{title} ended with {code}: {self._log(title).read_text()}")

    def _truth(self) -> Truth:
        return Truth.read(self._cluster.state)

    def _all_new(self) -> bool:
        truth = self._truth()
        return truth.running(NEW[0]) == set(truth.nodes) != set()

    def _count(self, event: str) -> int:
        return sum(each.event == event for each in self._truth().entries)

    def _until_true(self, holds: Callable[[], bool], what: str) -> None:
        # Each look reads the whole journal, which grows with the fleet.
        patience.until(holds, what, FLEET_SECONDS + self._nodes, soonest=0.5 + self._nodes / 250)

    def _script(self, peer: Peer) -> subprocess.Popen[str]:
        """Run a script as people do: as a Helm hook Job with kubectl."""
        variables = {
            "KUBECTL": str(binaries.ensure(["kubectl"])["kubectl"]),
            "NAMESPACE": peer.name,
            "DAEMONSET": DAEMONSET,
            "SELECTOR": SELECTOR,
        }
        values = {"script": peer.script, "env": variables}
        return self._hook(peer.title, (peer.name, SCRIPT, "-n", peer.name), values)

    def _post(self) -> subprocess.Popen[str]:
        """Install or upgrade our chart; the namespace keeps it off the others' plugins."""
        values = {
            "plugin.namespace": OUR_NAMESPACE,
            "timeout": f"{self._minutes}m",
            "image.repository": "registry.example/gpu-operator-post",
        }
        return self._hook(OURS, (OURS, POST, "-n", "gpu-operator"), values)

    def _hook(self, title: str, release: tuple[str, ...], values: Mapping[str, Any]) -> subprocess.Popen[str]:
        """Start Helm, which waits for the hook of a chart. Its output goes into a file: a full pipe would stop it."""
        command = [str(self._cluster.binary("helm4")), "upgrade", "--install", *release, "--reset-values"]
        with self._log(title).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*command, f"--timeout={self._minutes + 2}m", *_sets(values)],
                env=commands.environment(self._cluster.files),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return self._cluster.adopt(process)

    def _log(self, title: str) -> Path:
        return self._cluster.files.log(f"bench-{title.replace(' ', '-')}")

    def _operator(self, release: tuple[str, str]) -> None:
        driver, chart = release
        values = {
            "chartVersion": chart,
            "driver.version": driver,
            "driver.upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "100%"},
            "driver.manager.env": EVICTION_ENV,
            "simulate.requeueSeconds": max(REQUEUE_SECONDS, SHORTEST_SECONDS / self._nodes),
            "simulate.behaviour": "26.3",
        }
        self._helm("gpu-operator", OPERATOR, "gpu-operator", values)

    def _helm(self, release: str, chart: str, namespace: str, values: Mapping[str, Any]) -> None:
        place = ["-n", namespace, "--create-namespace", "--reset-values"]
        self._cluster.helm("upgrade", "--install", release, chart, *place, *_sets(values))


def _sets(values: Mapping[str, Any]) -> list[str]:
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
