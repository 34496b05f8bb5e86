"""The cluster that is soaked: what is asked of its operator, done to its nodes, and true about it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Final

from devcluster import patience
from devcluster.releases import DAEMONSET, OPERATOR, PLUGIN
from devcluster.soak.plan import Before, Fault, Upgrade
from devcluster.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.boot.cluster import Cluster
    from devcluster.soak.plan import Cycle

SILENT_SECONDS: Final = 4.0
"""The API server stands still for so long: longer than a decision, shorter than a node's lease."""
BROKEN: Final = "devcluster/driver-fault"
KEYS: Final = {Before.REBOOT: "devcluster/reboot", Before.CRASH: "devcluster/restart-driver-container"}
"""The annotations that let something happen to a node."""


class Stage:
    """A fleet that is upgraded from version to version."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        self.cluster, self.nodes = cluster, nodes
        self._versions = 0
        self._charts = 0
        self.version = self._next_version()
        self.upsets: list[float] = []

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def install(self, seconds: float) -> None:
        """Bring the fleet up, with a fresh plugin on every node."""
        self._operator()
        self.cluster.helm(*PLUGIN.install({}))
        patience.until(self.refreshed, "the fleet is up", seconds)

    def begin(self, cycle: Cycle) -> None:
        """Let the nodes have their faults, and ask the operator; Helm returns long before anything has happened."""
        if cycle.before:
            self.upsets.append(time.time())
            self._annotate(cycle.nodes, KEYS[cycle.before], str(time.time()))
        if cycle.fault is Fault.BROKEN_DRIVER:
            self._annotate(cycle.nodes, BROKEN, "image-pull")
        if cycle.upgrade is not Upgrade.NONE:
            self._upgrade(cycle.upgrade)

    def disturb(self, fault: Fault) -> None:
        """Let a fault happen that is one of the world, and not of the program."""
        if fault is Fault.SILENCE:
            self._silence()
        elif fault is Fault.OPERATOR:
            self._restart_operator()
        elif fault is Fault.AGAIN:
            self._upgrade(Upgrade.DRIVER)

    def fix_drivers(self, nodes: Iterable[int]) -> None:
        """Let drivers start again."""
        self._annotate(nodes, BROKEN, None)

    def _restart_operator(self) -> None:
        """Delete the operator's pod: another one leads, and renders again."""
        self.upsets.append(time.time())
        self.cluster.kubectl(
            "delete", "pod", "-n", OPERATOR.namespace, "-l", "app.kubernetes.io/component=gpu-operator", "--wait=false"
        )

    def _silence(self) -> None:
        """Let the API server stand still for a moment."""
        (server,) = [each for each in self.cluster.status() if each.name == "kube-apiserver"]
        os.kill(server.pid, signal.SIGSTOP)
        try:
            time.sleep(SILENT_SECONDS)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    def behind(self) -> tuple[str, ...]:
        """Name the nodes that have not the asked driver loaded, in a Ready pod."""
        standings = self.truth.standings()
        known = tuple(name for name, one in standings.items() if not (one.driver_ready and one.version == self.version))
        return known if len(standings) >= self.nodes else (*known, f"{self.nodes - len(standings)} nodes of before")

    def stale(self) -> tuple[str, ...]:
        """Name the nodes with a stale plugin."""
        return self.truth.stale_now(DAEMONSET)

    def refreshed(self) -> bool:
        """Return whether every node has the asked driver, Ready, and a fresh plugin."""
        return not self.behind() and self._plugins() == self.nodes

    def _plugins(self) -> int:
        """Count the nodes with a fresh plugin of the driver that is loaded."""
        standings = self.truth.standings(DAEMONSET).values()
        return sum(one.plugin_version == one.version and not one.stale for one in standings)

    def _upgrade(self, upgrade: Upgrade) -> None:
        self.version = self._next_version()
        self._charts += upgrade is Upgrade.CHART
        self.upsets.append(time.time())
        self._operator()
        self.upsets.append(time.time())

    def _next_version(self) -> str:
        self._versions += 1
        return f"580.{100 + self._versions}.01"

    def _annotate(self, nodes: Iterable[int], key: str, value: str | None) -> None:
        for number in nodes:
            self.cluster.patch(f"/api/v1/nodes/gpu-{number}", {"metadata": {"annotations": {key: value}}})

    def _operator(self) -> None:
        values: dict[str, object] = {
            "chartVersion": f"v26.3.{3 + self._charts}",
            "driver.version": self.version,
            # A serial upgrade of a large fleet takes hours, also here.
            "driver.upgradePolicy.maxParallelUpgrades": 0,
            "driver.upgradePolicy.maxUnavailable": "100%",
        }
        self.cluster.helm(*OPERATOR.install(values))
