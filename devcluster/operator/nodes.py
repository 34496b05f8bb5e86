"""What the operator makes of a node: its labels, the NVIDIADriver that it belongs to, and its pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import NFD_KERNEL, NFD_OS, NFD_OS_VERSION, annotations_of, labels_of
from devcluster.operator import names as n
from devcluster.operator.names import DEPLOY, ENABLED, PRESENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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

ARCHITECTURES = (".x86_64", ".aarch64")
"""Suffixes of kernel versions that the real operator leaves out of a name."""


def is_gpu_node(node: Object) -> bool:
    """Return whether node feature discovery found an NVIDIA device."""
    return labels_of(node).get(n.NFD_GPU) == "true"


def is_present(node: Object) -> bool:
    """Return whether the operator has taken the node for one of its own."""
    return labels_of(node).get(PRESENT) == "true"


def operands_for(node: Object, policy: Object, *, clients: bool) -> tuple[str, ...]:
    """Return what a ClusterPolicy deploys on a node; a workload counts only where sandboxes are on."""
    sandboxes = policy["spec"].get("sandboxWorkloads", {})
    if sandboxes.get("enabled", False):
        workload = labels_of(node).get(n.WORKLOAD, sandboxes.get("defaultWorkload", CONTAINER))
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
    if labels_of(node).get(n.DRIVER_OWNER) == owner:
        return {}
    return {"labels": {n.DRIVER_OWNER: owner}}


def owner_of(node: Object, drivers: Iterable[Object]) -> Object | None:
    """Return the driver object that a node belongs to: one that selects it, or the default one."""
    if not is_present(node):
        return None
    drivers = list(drivers)
    selecting = [each for each in drivers if not is_default(each) and selects(each, node)]
    return next(iter(selecting), next((each for each in drivers if is_default(each)), None))


def is_default(driver: Object) -> bool:
    """Return whether a driver object takes the nodes that no other selects (26.7)."""
    return bool(driver["spec"].get("default", False))


def selects(driver: Object, node: Object) -> bool:
    """Return whether a driver object selects a node; without a selector it selects all."""
    return n.matches(node, driver["spec"].get("nodeSelector", {}))


def conflicts(drivers: Sequence[Object], nodes: Iterable[Object]) -> bool:
    """Return whether two driver objects select one node."""
    specific = [each for each in drivers if not is_default(each)]
    return any(sum(selects(each, node) for each in specific) > 1 for node in nodes if is_present(node))


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that get one driver DaemonSet."""

    os_tag: str
    kernel: str = ""
    """Set for precompiled drivers, which are made for one kernel."""
    rhcos: str = ""
    """Set on OpenShift, where the driver is built with the node's own toolkit."""
    selector: dict[str, str] = field(default_factory=dict, hash=False, compare=False)
    """The labels that tell the pool's nodes from others'."""

    @property
    def short_kernel(self) -> str:
        """The kernel without its architecture, as names carry it."""
        kernel = self.kernel
        for suffix in ARCHITECTURES:
            kernel = kernel.removesuffix(suffix)
        return kernel


def pools(nodes: Iterable[Object], *, precompiled: bool, openshift: bool) -> list[Pool]:
    """Sort nodes into pools, as NFD labelled them; those that it did not label are in none."""
    found = (_pool(labels_of(node), precompiled=precompiled, openshift=openshift) for node in nodes)
    return sorted({each for each in found if each is not None}, key=lambda each: (each.os_tag, each.kernel, each.rhcos))


def _pool(labels: dict[str, str], *, precompiled: bool, openshift: bool) -> Pool | None:
    if NFD_OS not in labels or NFD_OS_VERSION not in labels:
        return None
    os_tag = labels[NFD_OS] + labels[NFD_OS_VERSION]
    if precompiled:
        kernel = labels[NFD_KERNEL]
        return Pool(os_tag, kernel=kernel, selector={NFD_KERNEL: kernel})
    if openshift:
        rhcos = labels.get(n.NFD_RHCOS, "")
        return Pool(os_tag, rhcos=rhcos, selector={n.NFD_RHCOS: rhcos}) if rhcos else None
    return Pool(os_tag)
