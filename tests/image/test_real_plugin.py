"""NVIDIA's own DRA kubelet plugin through a driver upgrade: what it does while stale, and what the restart changes.

Nothing here says when a plugin is stale: its caches, its error texts, its ResourceSlices and the files in containers
are those of NVIDIA's programs, on Kubernetes' own kubelet and containerd. Only driver, kernel module and devices are
stand-ins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.gpunode.node import GPUS, GPUS_ALONE, numbers
from devcluster.layout import CHECKOUT
from tests.e2e.lab import NEW, OLD
from tests.image.gpunode import DOMAINS, DOMAINS_ALONE, PATIENCE, GpuNodeLab

MISSING = f"open /run/nvidia/driver/usr/lib64/libcuda.so.{OLD}: no such file or directory"
"""The runtime's words: the plugin prepared the claim without an error, from what it remembers of the old driver."""
CACHED_SECONDS = 315
"""A plugin remembers devices for five minutes from its start."""
REFUSED = "failed to initialize NVML: Driver/library version mismatch"
"""The plugin's words, in the kubelet's event."""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


def reported(lab: GpuNodeLab) -> dict[str, str]:
    """Return the class of each pod that `status` reports, by its name."""
    done = lab.run("status", "-o", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["affectedWorkloads"]
    assert found["problem"] == ""
    return {pod["name"]: pod["class"] for pod in found["pods"]}


def test_a_driver_upgrade_from_claim_to_claim(gpu_node: GpuNodeLab) -> None:
    """Claims from before, in between and after: the last one works, and the restart of the plugin made that so."""
    # `status` reports exactly the pods that have the old files.
    lab = gpu_node
    lab.install(GPUS, **GPUS_ALONE)
    assert lab.published() == {numbers(OLD)}
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
    assert lab.published() == {numbers(OLD)}
    assert lab.plugin_pod() == plugin

    lab.deploy()
    assert lab.plugin_pod() != plugin
    assert ["delete pods"] == lab.writes()
    assert lab.published() == {numbers(NEW)}
    lab.claim("after")
    lab.until(lambda: lab.is_running("after"), "a pod with a new claim runs", PATIENCE)
    assert lab.injected("after") == lab.to_inject("after", NEW)
    assert lab.inside("after", "nvidia-smi").startswith(f"Driver Version: {NEW}\n")

    assert lab.injected("before") == lab.to_inject("before", OLD)
    assert lab.inside("before", "nvidia-smi") == MISMATCH
    assert not (lab.failed("between", MISSING) and lab.is_running("between"))
    classes = reported(lab)
    assert classes.pop("before") == "PreparedBeforeUpgrade"
    # A claim that was refused was prepared after the restart, if it is already.
    refused = [{}, {"between": "PossiblyAffected"}]
    assert classes in ([{"between": "PreparedWhileStale"}] if lab.failed("between", MISSING) else refused)
    lab.deploy()
    assert ["delete pods"] == lab.writes()


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
    plugin = lab.plugin_pod()
    lab.drive(NEW)
    assert lab.plugin_pod() == plugin
    lab.deploy()
    assert lab.plugin_pod() != plugin
    lab.deploy()
    assert ["delete pods"] == lab.writes()


def test_the_demo_shows_it(real_node: None, tmp_path: Path) -> None:
    """`make demo REAL=1`: the same upgrade, seen from three pods."""
    assert real_node is None
    command = [sys.executable, "-m", "devcluster.realdemo"]
    told = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stdout=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout
    assert told.stdout.splitlines()[-1].startswith(f"demo: ok real=1 driver={NEW} restarts=1 "), told.stdout
    assert f"the ResourceSlice still names {numbers(OLD)}" in told.stdout
