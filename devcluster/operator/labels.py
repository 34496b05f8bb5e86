"""Which labels and annotations the operator puts on a node."""

from __future__ import annotations

from typing import Any

from devcluster.operator.names import (
    DEPLOY,
    DRIVER_OWNER,
    ENABLED,
    NFD_GPU,
    PRESENT,
    WORKLOAD,
    annotations_of,
    labels_of,
)

Object = dict[str, Any]

CONTAINER = "container"
"""The workload of a node whose GPUs containers use."""

OPERANDS = (
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)

MIG_MANAGER = "mig-manager"
"""Where the policy wants one. The real operator labels the nodes whose GPUs can be divided."""

CLIENTS = ("client",)
"""From 26.7 on: for others that want to be paused with the operands."""

DRA_OPERANDS = ("client", "dcgm-exporter-dra", "dra-driver", "dra-validator", "driver")
"""With a GPUCluster."""

SANDBOX_OPERANDS = {
    "vm-passthrough": ("sandbox-device-plugin", "sandbox-validator", "vfio-manager"),
    "vm-vgpu": ("sandbox-device-plugin", "sandbox-validator", "vgpu-device-manager", "vgpu-manager"),
}
"""By workload, where virtual machines get the GPUs: none of them is a driver for containers."""

ALL_OPERANDS = {
    *OPERANDS, MIG_MANAGER, *CLIENTS, *DRA_OPERANDS, *(name for names in SANDBOX_OPERANDS.values() for name in names)
}  # fmt: skip


def is_gpu_node(node: Object) -> bool:
    """Return whether node feature discovery found an NVIDIA device."""
    return labels_of(node).get(NFD_GPU) == "true"


def is_present(node: Object) -> bool:
    """Return whether the operator has taken the node for one of its own."""
    return labels_of(node).get(PRESENT) == "true"


def operands_for(node: Object, policy: Object, *, clients: bool) -> tuple[str, ...]:
    """Return what a ClusterPolicy deploys on a node; a workload counts only where sandboxes are on."""
    sandboxes = policy["spec"].get("sandboxWorkloads", {})
    if sandboxes.get("enabled", False):
        workload = labels_of(node).get(WORKLOAD, sandboxes.get("defaultWorkload", CONTAINER))
        if workload in SANDBOX_OPERANDS:
            return SANDBOX_OPERANDS[workload]
    mig = (MIG_MANAGER,) if policy["spec"].get("migManager", {}).get("enabled", False) else ()
    return OPERANDS + mig + (CLIENTS if clients else ())


def missing_metadata(node: Object, *, auto_upgrade: bool, operands: tuple[str, ...] = OPERANDS) -> Object:
    """Return the merge patch that labels a node; empty where nothing is missing.

    A value that is there stays, whatever it is: users disable operands with it, and
    k8s-driver-manager pauses them. Operands of another kind of node are taken off. Without NFD's
    label the node is marked as one that has lost its GPU, and loses the rest of ours.
    """
    have = labels_of(node)
    labels: dict[str, str | None] = {}
    if is_gpu_node(node):
        labels = {key: "true" for operand in operands if (key := DEPLOY + operand) not in have}
        foreign = (DEPLOY + operand for operand in ALL_OPERANDS.difference(operands))
        labels |= {key: None for key in foreign if key in have}
        if have.get(PRESENT) != "true":
            labels[PRESENT] = "true"
    elif have.get(PRESENT) == "true":
        labels = {PRESENT: "false"} | {key: None for key in have if key.startswith(DEPLOY)}
    annotations: dict[str, str | None] = {}
    enabled = is_gpu_node(node) and auto_upgrade
    if enabled != (ENABLED in annotations_of(node)):
        annotations = {ENABLED: "true" if enabled else None}
    patch = {"labels": labels} if labels else {}
    return patch | ({"annotations": annotations} if annotations else {})


def missing_owner(node: Object, owner: str | None) -> Object:
    """Return the merge patch that names the NVIDIADriver of a node; empty where the node has it already."""
    if labels_of(node).get(DRIVER_OWNER) == owner:
        return {}
    return {"labels": {DRIVER_OWNER: owner}}
