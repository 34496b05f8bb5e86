"""A laboratory with NVIDIA's own DRA driver on a real node, whose driver pods run for real, too."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from devcluster.cluster import Cluster
from devcluster.gpunode.node import DRIVER_ROOT, SOON, GpuNode
from tests.e2e.lab import ALL_AT_ONCE, OLD, PLUGIN_NAMESPACE
from tests.image.node import NodeLab

DOMAINS: Final = "compute-domain.nvidia.com"
DOMAINS_ALONE: Final = {
    "resources__gpus__enabled": False,
    # The controller of compute domains is not built here; no one asks for a domain.
    "controller__replicas": 0,
    "altProcDevices": "/run/nvidia/devices",
}
"""Values of NVIDIA's chart."""
PATIENCE: Final = 180
"""Seconds for what a kubelet, a container runtime and NVIDIA's programs do on a busy machine."""


class GpuNodeLab(GpuNode, NodeLab):
    """One real node with mock GPUs, and what is done to it."""

    def __init__(self, cluster: Cluster, chart: Path) -> None:
        super().__init__(cluster)
        self._chart = chart
        self.offer_claims()

    def install(self, driver: str, **values: object) -> None:
        """Bring the old driver up, and NVIDIA's chart with what these values add, and wait for its ResourceSlice."""
        self.drive(OLD)
        self.helm_install("dra-driver", str(self._chart), PLUGIN_NAMESPACE, {"nvidiaDriverRoot": DRIVER_ROOT, **values})
        self.until(lambda: self.devices(driver) != [], f"the plugin publishes {driver}", PATIENCE)

    def drive(self, version: str) -> None:
        """Ask for a driver and wait until its pod is Ready and the upgrade controller is through."""
        self.operator(driver=version, **SOON, **ALL_AT_ONCE)
        self.until(lambda: self.driver_ready(version), f"the pod of driver {version} is Ready", PATIENCE)
        self.until(lambda: self.label_states() == {"upgrade-done"}, "the node's upgrade is done", PATIENCE)
