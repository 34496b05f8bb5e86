"""Which labels and annotations the operator puts on a node."""

from __future__ import annotations

from typing import Any

from devcluster.operator.names import DEPLOY, ENABLED, NFD_GPU, PRESENT, annotations_of, labels_of

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


def is_gpu_node(node: Object) -> bool:
    """Tell whether node feature discovery found an NVIDIA device."""
    return labels_of(node).get(NFD_GPU) == "true"


def missing_metadata(node: Object, *, auto_upgrade: bool) -> Object:
    """Return the merge patch that labels a node; empty where nothing is missing.

    A value that is there stays, whatever it is: users disable operands with it, and
    k8s-driver-manager pauses them. Without NFD's label the node is marked as one that
    has lost its GPU, and loses the rest of ours.
    """
    have = labels_of(node)
    labels: dict[str, str | None] = {}
    if is_gpu_node(node):
        labels = {key: "true" for operand in OPERANDS if (key := DEPLOY + operand) not in have}
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
