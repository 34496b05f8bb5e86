"""Which nodes' device plugins have to wait for the driver: the label that their DaemonSets select nodes by.

When it turns "true", the DaemonSet controller takes the plugins off the node, and brings new ones when
it is "false" again. So plugins of this operator are refreshed by it, as long as it sees each reload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import labels_of, name_of
from devcluster.networkoperator.names import NFD_NIC, WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]


def is_ready(pod: Object) -> bool:
    """Return whether the driver's container, the first, is ready."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return bool(containers) and bool(containers[0]["ready"])


def wait_labels(nodes: list[Object], wanted: bool, pods: Mapping[str, bool]) -> dict[str, str | None]:
    """Return the labels to write, by node; None removes one.

    `wanted` says whether the policy asks for a driver; `pods` whether the driver on a node is ready.
    """
    labels: dict[str, str | None] = {}
    for node in nodes:
        name = name_of(node)
        if name in pods:
            label: str | None = "false" if wanted and pods[name] else "true"
        elif wanted:
            continue
        else:
            label = "false" if labels_of(node).get(NFD_NIC) == "true" else None
        if labels_of(node).get(WAIT) != label:
            labels[name] = label
    return labels
