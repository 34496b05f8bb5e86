"""The snapshot: everything that a decision is based on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hook.objects.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.objects.daemonsets import DaemonSet, Revision
    from hook.objects.decoding import Malformed, Value
    from hook.objects.operators import Deployment, Lease, ReplicaSet
    from hook.objects.pods import Pod
    from hook.objects.policies import Policy
    from hook.objects.slices import DeviceSlice


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision is based on, read together."""

    policies: tuple[Policy, ...] | None = ()
    """None if the API server does not know the kind."""
    pools: tuple[Policy, ...] = ()
    """The objects that specify the drivers of one pool of nodes each, if the policy leaves the drivers to them."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    daemonsets: tuple[DaemonSet, ...] = ()
    revisions: tuple[Revision, ...] = ()
    driver_pods: tuple[Pod, ...] = ()
    prerequisite_pods: tuple[Pod, ...] = ()
    """Pods of components that a plugin must have started after, in addition to the driver (opt-in)."""
    plugin_pods: tuple[Pod, ...] = ()
    slices: tuple[DeviceSlice, ...] | None = ()
    """None if the API server has no ResourceSlices."""
    deployments: tuple[Deployment, ...] = ()
    replicasets: tuple[ReplicaSet, ...] = ()
    leases: tuple[Lease, ...] = ()
    malformed: tuple[Malformed, ...] = ()


def node_of(value: Value | None) -> str:
    """Return the name of the node that an object is or belongs to, or ""."""
    return value.name if isinstance(value, Node) else getattr(value, "node", "")
