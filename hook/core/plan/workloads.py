"""Pods that use GPUs, and which of them the upgrade controller would not evict.

It evicts with kubectl's drain helper (LIB ``pkg/upgrade/pod_manager.go``): a pod without a controller or with local
data is refused unless the policy says otherwise, a DaemonSet's pod always; one refused pod fails its whole node,
or drains it where the policy has that on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.core.fields import flag, items, mapping, required, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hook.core.fields import Json
    from hook.core.views import UpgradePolicy


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod that runs, or is about to, and asks for GPUs."""

    namespace: str
    name: str
    node: str
    controller: str
    """Kind of its controlling owner; empty where it has none."""
    local_data: bool
    """It has an ``emptyDir`` volume."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def reader(resources: tuple[str, ...]) -> Callable[[Json], Workload | None]:
    """Give a reader that keeps only pods which ask for such resources, on a node, and are not over."""

    def read(obj: Json) -> Workload | None:
        node = text(obj, "spec", "nodeName")
        if not node or text(obj, "status", "phase") not in ("Pending", "Running"):
            return None
        if not any(name.startswith(resources) for name in _resources(obj)):
            return None
        owners = items(obj, "metadata", "ownerReferences")
        return Workload(
            namespace=required(obj, "metadata", "namespace"),
            name=required(obj, "metadata", "name"),
            node=node,
            controller=next((text(one, "kind") for one in owners if flag(one, "controller", default=False)), ""),
            local_data=any("emptyDir" in volume for volume in items(obj, "spec", "volumes")),
        )

    return read


def refusal(pod: Workload, policy: UpgradePolicy) -> str:
    """Say why a pod would not be evicted; or empty."""
    if pod.controller == "DaemonSet":
        return "belongs to a DaemonSet, whose pods are not evicted"
    if pod.local_data and not policy.delete_empty_dir:
        return "has an emptyDir volume (podDeletion.deleteEmptyDir is off)"
    if not pod.controller and not policy.force:
        return "has no controller (podDeletion.force is off)"
    return ""


def _resources(obj: Json) -> Iterator[str]:
    for container in items(obj, "spec", "containers"):
        yield from mapping(container, "resources", "limits")
        yield from mapping(container, "resources", "requests")
