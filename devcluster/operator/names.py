"""Labels, annotations and states as the real operator spells them."""

from __future__ import annotations

from typing import Any

from devcluster.client import path
from devcluster.controller.objects import labels_of

Object = dict[str, Any]

COMPONENT, DRIVER = "app.kubernetes.io/component", "nvidia-driver"
"""The label on driver DaemonSets and pods in all modes."""

CHART = "helm.sh/chart"
"""Reaches the pods' template through ``spec.daemonsets.labels``."""

APPLIED_HASH = "nvidia.com/last-applied-hash"
"""The operator updates a DaemonSet only where this annotation says that its rendering changed."""

DRIVER_CONTAINER = "nvidia-driver-ctr"
"""The container that owns the driver, in all modes."""

PRESENT = "nvidia.com/gpu.present"
WORKLOAD = "nvidia.com/gpu.workload.config"
"""What a node's GPUs are for, where sandbox workloads are on: container, vm-passthrough or vm-vgpu."""
DEPLOY = "nvidia.com/gpu.deploy."
NFD_GPU = "feature.node.kubernetes.io/pci-10de.present"
NFD_RHCOS = "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"

DRIVER_OWNER = "nvidia.com/gpu-operator.driver.owner"
"""From 26.7 on: the NVIDIADriver that a node belongs to."""

STATE = "nvidia.com/gpu-driver-upgrade-state"
SKIP = "nvidia.com/gpu-driver-upgrade.skip"
DONE = "upgrade-done"
REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
"""The annotation that asks for an upgrade where the driver's pod has no owner to compare it with."""
ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"

LEASE = "53822513.nvidia.com"
"""The real operator's LeaderElectionID."""

POLICIES = path("nvidia.com/v1", "clusterpolicies")
DRIVERS = path("nvidia.com/v1alpha1", "nvidiadrivers")
CLUSTERS = path("nvidia.com/v1alpha1", "gpuclusters")


def matches(thing: Object, labels: dict[str, str]) -> bool:
    """Return whether an object has all of these labels."""
    return labels.items() <= labels_of(thing).items()


def delegates(policy: Object) -> bool:
    """Return whether a ClusterPolicy leaves the driver to NVIDIADrivers."""
    return bool(policy["spec"]["driver"].get("useNvidiaDriverCRD", False))


def has_sandboxes(policy: Object) -> bool:
    """Return whether virtual machines may get GPUs."""
    return bool(policy["spec"].get("sandboxWorkloads", {}).get("enabled", False))
