"""What the operator makes of a node: its labels, and the NVIDIADriver that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import annotations_of, labels_of
from devcluster.operator import names as n

if TYPE_CHECKING:
    from collections.abc import Iterable


Object = dict[str, Any]

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

CLIENT = "client"
"""From 26.7 on: for others that want to be paused with the operands."""

DRA_OPERANDS = (CLIENT, "dcgm-exporter-dra", "dra-driver", "dra-validator", "driver")
"""With a GPUCluster."""


def is_gpu_node(node: Object) -> bool:
    """Return whether node feature discovery found an NVIDIA device."""
    return labels_of(node).get(n.NFD_GPU) == "true"


def operands_for(policy: Object, *, modern: bool) -> tuple[str, ...]:
    """Return what a ClusterPolicy deploys on each node."""
    mig = (MIG_MANAGER,) if policy["spec"]["migManager"]["enabled"] else ()
    return OPERANDS + mig + ((CLIENT,) if modern else ())


def missing_metadata(node: Object, *, auto_upgrade: bool, operands: tuple[str, ...]) -> Object:
    """Return the merge patch that labels a node; empty where nothing is missing.

    A value that is there stays, whatever it is: users disable operands with it, and
    k8s-driver-manager pauses them. Without NFD's label the node is marked as one that has lost
    its GPU, and loses the rest of ours.
    """
    have = labels_of(node)
    labels: dict[str, str | None] = {}
    if is_gpu_node(node):
        labels = {key: "true" for operand in operands if (key := n.DEPLOY + operand) not in have}
        if have.get(n.PRESENT) != "true":
            labels[n.PRESENT] = "true"
    elif have.get(n.PRESENT) == "true":
        labels = {n.PRESENT: "false"} | {key: None for key in have if key.startswith(n.DEPLOY)}
    patch: Object = {"labels": labels} if labels else {}
    enabled = is_gpu_node(node) and auto_upgrade
    if enabled != (n.ENABLED in annotations_of(node)):
        patch["annotations"] = {n.ENABLED: "true" if enabled else None}
    return patch


def owner_of(node: Object, drivers: Iterable[Object]) -> Object | None:
    """Return the NVIDIADriver that a node belongs to: one that selects it, or the default one (26.7)."""
    if labels_of(node).get(n.PRESENT) != "true":
        return None
    default = None
    for driver in drivers:
        if driver["spec"].get("default", False):
            default = driver
        elif driver["spec"].get("nodeSelector", {}).items() <= labels_of(node).items():
            return driver
    return default
