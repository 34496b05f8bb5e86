"""What the operator says: the policy's states, and on each node whether device plugins have to wait for the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import labels_of, name_of
from devcluster.networkoperator.names import FIELDS, NFD_NIC, NOT_SIMULATED, STATE, WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping


Object = dict[str, Any]

READY, NOT_READY, IGNORE, ERROR = "ready", "notReady", "ignore", "error"


def applied_states(policy: Object, daemonsets: list[Object], trouble: str = "") -> list[Object]:
    """Judge each part of the policy by its DaemonSets; `trouble` is why the driver could not be rendered."""
    states = [{"name": name, "state": IGNORE} for name in NOT_SIMULATED]
    for name, field in FIELDS.items():
        mine = [each for each in daemonsets if labels_of(each).get(STATE) == name]
        if policy["spec"].get(field) is None:
            states.append({"name": name, "state": NOT_READY if mine else IGNORE})
        elif trouble and name == next(iter(FIELDS)):
            states.append({"name": name, "state": ERROR, "message": trouble})
        else:
            ready = bool(mine) and all(is_ready(each) for each in mine)
            states.append({"name": name, "state": READY if ready else NOT_READY})
    return states


def overall(states: list[Object]) -> str:
    """Sum up: an error counts most, then what is not ready."""
    found = {each["state"] for each in states}
    return next((state for state in (ERROR, NOT_READY) if state in found), READY)


def is_ready(daemonset: Object) -> bool:
    """Judge a DaemonSet as the real one does: pods everywhere, all of them new, and never without any.

    It does not ask whether the status is of this generation.
    """
    status = daemonset.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    return bool(desired != 0 and desired == status.get("numberAvailable") == status.get("updatedNumberScheduled"))


def is_driver_ready(pod: Object) -> bool:
    """Return whether the driver's container, the first, is ready."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return bool(containers) and bool(containers[0]["ready"])


def wait_labels(nodes: list[Object], wanted: bool, pods: Mapping[str, bool]) -> dict[str, str | None]:
    """Return the labels to write, by node; None removes one.

    Where a label turns "true", the DaemonSet controller takes the plugins off the node, and brings new ones when it is
    "false" again: plugins of this operator are refreshed by it, as long as it sees each reload.

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
