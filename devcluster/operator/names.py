"""Labels, annotations and states as the real operator spells them."""

from __future__ import annotations

from devcluster.client import path

COMPONENT, DRIVER = "app.kubernetes.io/component", "nvidia-driver"
"""The label on driver DaemonSets and pods in all modes."""

CHART = "helm.sh/chart"
"""Reaches the pods' template through ``spec.daemonsets.labels``."""

PRESENT = "nvidia.com/gpu.present"
DEPLOY = "nvidia.com/gpu.deploy."
NFD_GPU = "feature.node.kubernetes.io/pci-10de.present"
NFD_KERNEL = "feature.node.kubernetes.io/kernel-version.full"

DRIVER_OWNER = "nvidia.com/gpu-operator.driver.owner"
"""From 26.7 on: the NVIDIADriver that a node belongs to."""

STATE = "nvidia.com/gpu-driver-upgrade-state"
DONE = "upgrade-done"
REQUESTED = "nvidia.com/gpu-driver-upgrade-requested"
"""The annotation that asks for an upgrade where the driver's pod has no owner to compare it with."""
ENABLED = "nvidia.com/gpu-driver-upgrade-enabled"

LEASE = "53822513.nvidia.com"
"""The real operator's LeaderElectionID."""

POLICIES = path("nvidia.com/v1", "clusterpolicies")
DRIVERS = path("nvidia.com/v1alpha1", "nvidiadrivers")
CLUSTERS = path("nvidia.com/v1alpha1", "gpuclusters")
