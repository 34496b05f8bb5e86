"""Labels, annotations and states as the real operator spells them."""

from __future__ import annotations

from typing import Any

import aiohttp

from devcluster.client import ApiError, path

Object = dict[str, Any]

TROUBLE = (ApiError, aiohttp.ClientError, TimeoutError)
"""What a request can end with: the object is gone or newer, a permission not there yet, a server too busy.
A controller does not ask which; it looks again."""

COMPONENT, DRIVER = "app.kubernetes.io/component", "nvidia-driver"
"""The label on driver DaemonSets and pods in all modes."""

CHART = "helm.sh/chart"
"""Reaches the pods' template through ``spec.daemonsets.labels``."""

HASH = "controller-revision-hash"
"""What the DaemonSet controller labels pods and revisions with."""

APPLIED_HASH = "nvidia.com/last-applied-hash"
"""The operator updates a DaemonSet only where this annotation says that its rendering changed."""

DRIVER_CONTAINER = "nvidia-driver-ctr"
"""The container that owns the driver, in all modes."""

PRESENT = "nvidia.com/gpu.present"
WORKLOAD = "nvidia.com/gpu.workload.config"
"""What a node's GPUs are for, where sandbox workloads are on: container, vm-passthrough or vm-vgpu."""
DEPLOY = "nvidia.com/gpu.deploy."
NFD_GPU = "feature.node.kubernetes.io/pci-10de.present"
NFD_KERNEL = "feature.node.kubernetes.io/kernel-version.full"
NFD_OS = "feature.node.kubernetes.io/system-os_release.ID"
NFD_OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
NFD_RHCOS = "feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"

DRIVER_OWNER = "nvidia.com/gpu-operator.driver.owner"
"""From 26.7 on: the NVIDIADriver that a node belongs to."""

UPGRADE = "nvidia.com/gpu-driver-upgrade"
STATE = f"{UPGRADE}-state"
SKIP = f"{UPGRADE}.skip"
ENABLED = f"{UPGRADE}-enabled"
INITIALLY_CORDONED = f"{UPGRADE}.node-initial-state.unschedulable"

LEASE = "53822513.nvidia.com"
"""The real operator's LeaderElectionID."""

POLICIES = path("nvidia.com/v1", "clusterpolicies")
DRIVERS = path("nvidia.com/v1alpha1", "nvidiadrivers")
CLUSTERS = path("nvidia.com/v1alpha1", "gpuclusters")
NODES = path("v1", "nodes")


def labels_of(thing: Object) -> dict[str, str]:
    """Return an object's labels."""
    labels: dict[str, str] = thing["metadata"].get("labels", {})
    return labels


def annotations_of(thing: Object) -> dict[str, str]:
    """Return an object's annotations."""
    annotations: dict[str, str] = thing["metadata"].get("annotations", {})
    return annotations


def name_of(thing: Object) -> str:
    """Return an object's name."""
    return str(thing["metadata"]["name"])


def is_owned_by(thing: Object, owner: Object) -> bool:
    """Tell whether an object belongs to another one."""
    return any(each["uid"] == owner["metadata"]["uid"] for each in thing["metadata"].get("ownerReferences", []))


def is_driver(daemonset: Object) -> bool:
    """Tell whether a DaemonSet's pods load a driver, whatever its labels say."""
    containers = daemonset["spec"]["template"]["spec"]["containers"]
    return any(each["name"] == DRIVER_CONTAINER for each in containers)


def matches(thing: Object, labels: dict[str, str]) -> bool:
    """Tell whether an object has all of these labels."""
    return labels.items() <= labels_of(thing).items()


def delegates(policy: Object) -> bool:
    """Tell whether a ClusterPolicy leaves the driver to NVIDIADrivers."""
    return bool(policy["spec"]["driver"].get("useNvidiaDriverCRD", False))


def has_sandboxes(policy: Object) -> bool:
    """Tell whether virtual machines may get GPUs."""
    return bool(policy["spec"].get("sandboxWorkloads", {}).get("enabled", False))


def by_number(name: str) -> tuple[int, str]:
    """Sort gpu-2 before gpu-10."""
    return len(name), name
