"""NVIDIA's own DRA kubelet plugin through a driver upgrade: what it does while stale, and what the restart changes.

Nothing here says when a plugin is stale: its caches, its error texts, its ResourceSlices and the files in containers
are those of NVIDIA's programs, on Kubernetes' own kubelet and containerd. Only driver, kernel module and devices are
stand-ins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from devcluster.boot.cluster import Cluster
from devcluster.build import binaries
from devcluster.build.programs import DRA_DRIVER
from devcluster.fleet.slices import semantic
from devcluster.gpunode.images import CHART, write_images
from devcluster.gpunode.node import DRIVER_ROOT, GPUS, GPUS_ALONE, SLICES, SOON, GpuNode, label_states
from devcluster.kubelet.node import RealNode
from hook.objects.taints import Place, spec_of
from tests.e2e.lab import ALL_AT_ONCE, NEW, OLD, PLUGIN_NAMESPACE
from tests.evidence import keep
from tests.image.conftest import default_image, need_real_node
from tests.image.node import NodeLab
from tests.simulator.test_bench import module

MISSING = f"open /run/nvidia/driver/usr/lib64/libcuda.so.{OLD}: no such file or directory"
"""The runtime's words: the plugin prepared the claim without an error, from what it remembers of the old driver."""
CACHED_SECONDS = 315
"""A plugin remembers devices for five minutes from its start."""
REFUSED = "failed to initialize NVML: Driver/library version mismatch"
"""The plugin's words, in the kubelet's event."""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"
DOMAINS: Final = "compute-domain.nvidia.com"
DOMAINS_ALONE: Final = {
    "resources__gpus__enabled": False,
    # The controller of compute domains is not built here; no one asks for a domain.
    "controller__replicas": 0,
    "altProcDevices": "/run/nvidia/devices",
}
"""Values of NVIDIA's chart."""
RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
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
        self.until(lambda: label_states(self.cluster) == {"upgrade-done"}, "the node's upgrade is done", PATIENCE)


@pytest.fixture
def gpu_node(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[GpuNodeLab]:
    """Boot a cluster whose only GPU node is a real one, with NVIDIA's DRA driver."""
    need_real_node()
    programs = binaries.ensure([program.name for program in DRA_DRIVER])
    images = write_images(tmp_path_factory.mktemp("images"), programs, (OLD, NEW))
    with Cluster(tmp_path_factory.mktemp("node") / "c") as cluster:
        cluster.up(nodes=0, real_node=RealNode({default_image(): archive, **images}, gpus=True))
        yield GpuNodeLab(cluster, programs["gpu-kubelet-plugin"].parent / CHART)
        keep(cluster, request.node.name)


def test_a_driver_upgrade_from_claim_to_claim(gpu_node: GpuNodeLab) -> None:
    """Claims from before, in between and after: the last one works, and the restart of the plugin made that so."""
    # `status` reports exactly the pods that have the old files.
    lab = gpu_node
    lab.install(GPUS, **GPUS_ALONE)
    assert lab.published() == {semantic(OLD)}
    lab.claim("before")
    lab.until(lambda: lab.is_running("before"), "a pod with a claim runs", PATIENCE)
    assert lab.injected("before") == lab.to_inject("before", OLD)
    assert lab.inside("before", "nvidia-smi").startswith(f"Driver Version: {OLD}\n")
    plugin = lab.plugin_pod()

    lab.drive(NEW)
    assert lab.inside("before", "nvidia-smi") == MISMATCH
    lab.claim("between")
    # The second happens where this machine took more than five minutes to get here.
    lab.until(lambda: lab.failed("between", MISSING, REFUSED), "the claim is of no use", PATIENCE)
    assert lab.published() == {semantic(OLD)}
    assert lab.plugin_pod() == plugin

    lab.deploy()
    assert lab.plugin_pod() != plugin
    assert ["delete pods"] == lab.writes()
    assert lab.published() == {semantic(NEW)}
    lab.claim("after")
    lab.until(lambda: lab.is_running("after"), "a pod with a new claim runs", PATIENCE)
    assert lab.injected("after") == lab.to_inject("after", NEW)
    assert lab.inside("after", "nvidia-smi").startswith(f"Driver Version: {NEW}\n")

    assert lab.injected("before") == lab.to_inject("before", OLD)
    assert lab.inside("before", "nvidia-smi") == MISMATCH
    assert not (lab.failed("between", MISSING) and lab.is_running("between"))
    found = json.loads(lab.run("status", "-o", "json").out)["affectedWorkloads"]
    assert found["problem"] == ""
    names = [pod["name"] for pod in found["pods"]]
    # A claim that was refused came too late for old files.
    assert names == ["before", "between"] or (names == ["before"] and not lab.failed("between", MISSING))
    lab.deploy()
    assert ["delete pods"] == lab.writes()


def _slices(lab: GpuNodeLab, driver: str = GPUS) -> list[dict[str, Any]]:
    """Return the ResourceSlices of a DRA driver."""
    return lab.cluster.list(SLICES, fieldSelector=f"spec.driver={driver}")


def test_slices_that_the_plugin_publishes_anew_stay_tainted(gpu_node: GpuNodeLab) -> None:
    """A rule selects a pool, which the plugin names by its node. Slices that come and go stay tainted by it."""
    lab = gpu_node
    lab.install(GPUS, **GPUS_ALONE)
    before = _slices(lab)
    (node,) = {each["spec"]["nodeName"] for each in before}
    assert {each["spec"]["pool"]["name"] for each in before} == {node}
    rule = {"metadata": {"name": "a"}, "spec": spec_of(Place(GPUS, node), "DriverMissing")}
    lab.cluster.create(RULES, rule)
    lab.cluster.kubectl("delete", "resourceslices", "--all")
    old = {each["metadata"]["uid"] for each in before}
    lab.until(lambda: any(each["metadata"]["uid"] not in old for each in _slices(lab)), "new slices", PATIENCE)
    lab.claim("waits")
    lab.until(lambda: lab.failed("waits", "cannot allocate all claims"), "the claim is not allocated", PATIENCE)
    lab.cluster.delete(f"{RULES}/a")
    lab.until(lambda: lab.is_running("waits"), "the pod runs without the rule", PATIENCE)

    lab.drive(NEW)
    lab.deploy(deviceTaints__enabled=True)
    assert lab.published() == {semantic(NEW)}
    assert set(lab.writes()) == {"create devicetaintrules", "delete pods", "delete devicetaintrules"}
    assert lab.cluster.list(RULES) == []


@pytest.mark.large
def test_a_claim_that_was_refused_is_prepared_after_the_restart(gpu_node: GpuNodeLab) -> None:
    """Once it remembers the old driver no longer, the plugin refuses claims. The kubelet keeps asking for them."""
    lab = gpu_node
    lab.install(GPUS, **GPUS_ALONE)
    lab.drive(NEW)
    lab.until(lambda: lab.plugin_age() > CACHED_SECONDS, "the plugin's caches have expired", 2 * CACHED_SECONDS)
    lab.claim("refused")
    lab.until(lambda: lab.failed("refused", REFUSED), "the plugin refuses the claim", PATIENCE)
    assert not lab.is_running("refused")
    lab.deploy()
    lab.until(lambda: lab.is_running("refused"), "the same claim is prepared", PATIENCE)
    assert lab.injected("refused") == lab.to_inject("refused", NEW)


def test_compute_domains_alone(gpu_node: GpuNodeLab) -> None:
    """Where the plugin publishes no driver version, its restart is asked for once, and proven by its start alone."""
    lab = gpu_node
    lab.install(DOMAINS, **DOMAINS_ALONE)
    assert not any("driverVersion" in device.get("attributes", {}) for device in lab.devices(DOMAINS))
    # Device taint rules select the pools of both drivers by the node's name.
    assert all(each["spec"]["pool"]["name"] == each["spec"]["nodeName"] for each in _slices(lab, DOMAINS))
    plugin = lab.plugin_pod()
    lab.drive(NEW)
    assert lab.plugin_pod() == plugin
    lab.deploy()
    assert lab.plugin_pod() != plugin
    lab.deploy()
    assert ["delete pods"] == lab.writes()


@pytest.mark.nightly
def test_the_demo_shows_it(tmp_path: Path) -> None:
    """`make demo REAL=1`: the same upgrade, seen from three pods."""
    need_real_node()
    told = module("devcluster.demo", "--real", cwd=tmp_path, timeout=1200)
    assert told.returncode == 0, told.stdout
    assert told.stdout.splitlines()[-1].startswith(f"demo: ok real=1 driver={NEW} restarts=1 "), told.stdout
    assert f"the ResourceSlice still names {semantic(OLD)}" in told.stdout
