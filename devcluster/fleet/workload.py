"""The lives of all pods that are neither driver nor plugin, and of the probe that asks for a GPU."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.fleet.life import Life
from devcluster.fleet.plugin import RESOURCE_DRIVER
from devcluster.fleet.status import CREATING

if TYPE_CHECKING:
    from devcluster.fleet.node import Node

PROBE, GPU_WORKLOAD = "devcluster/probe", "gpu-workload"
"""The label that makes a pod stand for one with a ResourceClaim for a GPU."""

RETRY_SECONDS = 1.0
"""How often the kubelet tries again to prepare a claim; with a growing pause in reality."""

FAILED = "Failed to prepare dynamic resources: prepare devices failed: "
"""How the kubelet begins what a DRA driver answered."""

NOT_REGISTERED = FAILED + "DRA driver gpu.nvidia.com is not registered"
MISMATCH = FAILED + (
    "error preparing devices for claim {claim}: unable to create CDI spec file for claim: "
    "failed to initialize NVML: Driver/library version mismatch"
)
EMPTY_EDITS = FAILED + (
    "error preparing devices for claim {claim}: unable to create CDI spec file for claim: "
    'invalid CDI Spec: failed add device "{claim}-gpu-0": invalid device, empty device edits'
)


class WorkloadLife(Life):
    """Any pod: it is Running and Ready a moment after it comes."""

    async def live(self) -> None:
        """Start at once; every init container succeeds."""
        await self.accept()
        await self._prepare()
        for init in self.status.inits:
            init.run()
            init.end()
        for main in self.status.mains:
            main.run()
            main.succeed_startup()
        await self.report()

    async def _prepare(self) -> None:
        """Nothing to prepare."""


class ProbeLife(WorkloadLife):
    """A pod with a GPU: while the node's plugin is stale, it stays in ContainerCreating."""

    async def _prepare(self) -> None:
        """Ask the node's plugin for a device until it gives one."""
        said = ""
        while error := workload_error(self.node, claim=self.uid):
            if error != said:
                for main in self.status.mains:
                    main.wait(CREATING, error)
                await self.report()
                said = error
            await asyncio.sleep(RETRY_SECONDS)


def workload_error(node: Node, claim: str = "claim") -> str:
    """Return what a new GPU pod on this node would die of, in the words of the real components; or nothing."""
    stack = node.gpu
    held = next((each for each in stack.holders.values() if each.resource_driver == RESOURCE_DRIVER), None)
    if held is None:
        return NOT_REGISTERED
    if not stack.is_stale(held):
        return ""
    mismatch = stack.loaded is not None and stack.loaded.version != held.version
    return (MISMATCH if mismatch else EMPTY_EDITS).format(claim=claim)


def is_probe(pod: dict[str, Any]) -> bool:
    """Return whether a pod is the probe."""
    return bool(pod["metadata"].get("labels", {}).get(PROBE) == GPU_WORKLOAD)
