"""Labels, annotations and names as the real operator spells them."""

from __future__ import annotations

from devcluster.client import path

POLICIES = path("mellanox.com/v1alpha1", "nicclusterpolicies")

POLICY = "nic-cluster-policy"
"""The only policy that counts."""

LEASE = "12620820.mellanox.com"
"""The real operator's LeaderElectionID."""

DRIVER = "nvidia.com/ofed-driver"
"""The label of the driver's DaemonSets and pods; its value is empty."""

NFD_NIC = "feature.node.kubernetes.io/pci-15b3.present"

WAIT = "network.nvidia.com/operator.mofed.wait"
"""Node label: "true" while the node's driver is not ready. Device plugins run only where it is "false"."""

STATE = "nvidia.network-operator.state"
"""The label on everything that the operator makes: for which of its states."""

REVISION = "nvidia.network-operator.revision"
"""The annotation by which the operator knows its own last rendering."""

OFED, RDMA, SRIOV = "state-OFED", "state-RDMA-device-plugin", "state-SRIOV-device-plugin"

NOT_SIMULATED = (
    "state-multus-cni",
    "state-container-networking-plugins",
    "state-ipoib-cni",
    "state-whereabouts-cni",
    "state-ib-kubernetes",
    "state-nv-ipam-cni",
)
"""States that the real one reports as well, and that no policy here asks for."""

FIELDS = {OFED: "ofedDriver", RDMA: "rdmaSharedDevicePlugin", SRIOV: "sriovDevicePlugin"}
"""The field of the policy's spec that asks for a state."""

INIT_CONFIG, INIT_CONFIG_KEY = "ofed-init-container-config", "config.json"
"""The ConfigMap from which the driver's init container learns whether to wait for a safe moment."""
