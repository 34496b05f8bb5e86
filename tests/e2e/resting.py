"""One small fleet for many faults: each begins with it at rest, whatever the one before has left.

A plugin is made stale by restarting its node's driver container in place, which takes seconds and concerns neither the
operator nor its labels: only the fault delays a run then.
"""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path
from typing import Any, Final

from devcluster.boot.cluster import Cluster
from tests.e2e.acts import PATIENCE, Run, begin
from tests.e2e.lab import ALL_AT_ONCE, NEW, OLD, PLUGIN_NAME, PLUGIN_NAMESPACE, Lab

PLUGINS: Final = f"/api/v1/namespaces/{PLUGIN_NAMESPACE}/pods"
DAEMONSETS: Final = f"/apis/apps/v1/namespaces/{PLUGIN_NAMESPACE}/daemonsets"
PLUGIN: Final = f"{DAEMONSETS}/{PLUGIN_NAME}"
_RELOADS = count()


class RestingLab(Lab):
    """A laboratory that can be brought back to rest."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        super().__init__(cluster)
        self.nodes = [f"gpu-{number}" for number in range(nodes)]

    def end_leftovers(self) -> None:
        """End what a test has left running: it would act on the next one's fleet."""
        self.cluster.end_adopted()

    def rest(self, driver: str = NEW) -> None:
        """Let every node have this driver and a fresh plugin, and begin to count from here."""
        self.settings()
        if not self.rendered(driver):
            self.operator(driver=driver, **ALL_AT_ONCE)
        if not self.cluster.list(DAEMONSETS):
            self.plugin()
        self.until(lambda: self.driven(driver), f"every node runs {driver}", PATIENCE)
        for node in self.truth.stale_now():
            for pod in self.plugins(node):
                self.cluster.delete(f"{PLUGINS}/{pod['metadata']['name']}")
        self.until(self._fresh, "every plugin is fresh", PATIENCE)
        self.began = time.time()

    def make_stale(self, *nodes: str) -> None:
        """Load the driver of these nodes, else of all, anew under their plugins, and begin to count from here."""
        began = time.time()
        chosen = list(nodes) or self.nodes
        for node in chosen:
            self.annotate(node, "restart-driver-container", f"{began:.0f}-{next(_RELOADS)}")
        self.until(lambda: self._reloaded(chosen, began), f"the driver of {', '.join(chosen)} is another", PATIENCE)
        self.began = time.time()

    def begin(self, *args: str) -> Run:
        """Start a run."""
        return begin(self, *args)

    def waiting(self, *args: str, kubeconfig: Path | None = None) -> Run:
        """Start a run that has judged every node, and waits for another driver than the one that is there."""
        run = begin(self, f"expect.driverVersion={OLD}", *args, kubeconfig=kubeconfig)
        self.until(lambda: "ExpectationUnmet" in run.said and not run.over, "the run has judged the fleet", PATIENCE)
        return run

    def upgrade(self) -> None:
        """Let the operator bring the other driver, all nodes at once, and return at once."""
        self.operator(driver=OLD, **ALL_AT_ONCE)

    def plugins(self, node: str = "") -> list[dict[str, Any]]:
        """List the plugin's pods, of one node if it is named."""
        selector = {"fieldSelector": f"spec.nodeName={node}"} if node else {}
        return self.cluster.list(PLUGINS, **selector)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects as the administrator."""
        self.cluster.kubectl(
            "apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def driven(self, version: str) -> bool:
        """Whether every node runs a driver of this version, and is not being upgraded."""
        return self.truth.running(version) >= set(self.nodes) and self.label_states() == {"upgrade-done"}

    def _fresh(self) -> bool:
        return self.serving_on() >= set(self.nodes) and self.serving() == len(self.nodes)

    def _reloaded(self, nodes: list[str], since: float) -> bool:
        truth = self.truth
        reloaded = {each.node for each in truth.since(since) if each.event == "driver-ready"}
        return set(nodes) <= reloaded & set(truth.stale_now())
