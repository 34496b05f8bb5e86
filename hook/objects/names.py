"""Labels, annotations and other names of other projects, each with its source.

``GO`` is NVIDIA/gpu-operator, ``NO`` is Mellanox/network-operator, ``DM`` is NVIDIA/k8s-driver-manager,
``LIB`` is NVIDIA/k8s-operator-libs, ``DRA`` is kubernetes-sigs/dra-driver-nvidia-gpu, ``K8S`` is
kubernetes/kubernetes. ``stacks.py`` has the names of which each stack has one of its own.
"""

from typing import Final

# Labels and annotations of nodes.
PRE_INSTALLED: Final = "pre-installed"
"""Value of the label that deploys the driver where the host brings its own driver (GO)."""
DEPLOY_VALUES: Final = ("true", "false")
"""Other known values of that label (GO)."""
PAUSED_FOR_UPGRADE: Final = "paused-for-driver-upgrade"
"""Part of deploy label values while the old driver is unloaded (DM ``cmd/driver-manager/main.go``)."""
VIRTUAL_MACHINE_WORKLOADS: Final = ("vm-passthrough", "vm-vgpu")
"""GO ``controllers/state_manager.go``: purposes of GPUs with which a node gets no driver for containers."""
EVICTED_CLIENT_LABEL: Final = "nvidia.com/gpu.deploy.client"
"""DM >= v0.12.0: DaemonSets that select it are evicted before the driver is unloaded."""
EVICTION_LABEL_VARIABLE: Final = "NODE_LABEL_FOR_GPU_POD_EVICTION"
"""DM: environment variable that names a further label to pause (GO ``spec.driver.manager.env``)."""
GPU_RESOURCE: Final = "nvidia.com/gpu"
"""Extended resource of the device plugin."""
OFED_SAFE_LOAD_ANNOTATION: Final = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
"""LIB: while a node has it, its new driver waits until the node is cordoned and drained."""
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
"""State of the last MIG reconfiguration. A node without the label was never reconfigured."""
MIG_FAILED: Final = "failed"
MIG_ENDED: Final = frozenset({"success", MIG_FAILED})
"""NVIDIA/mig-parted ``pkg/mig/reconfigure/reconfigure.go``: before it is one of these, it is pending or rebooting."""
MERGED_MANAGER: Final = "ancient-changes"
"""K8S ``apimachinery/pkg/util/managedfields``: the manager that replaces all but the last ten."""
NODE_LABEL_PREFIXES: Final = (
    "nvidia.com/gpu.",
    "nvidia.com/gpu-driver-upgrade",
    "nvidia.com/gpu-operator.driver.owner",
    "nvidia.com/ofed-driver-upgrade",
    "nvidia.com/dra",
    MIG_STATE_LABEL,
    "network.nvidia.com/",
    "feature.node.kubernetes.io/pci-15b3.present",
)
"""Node labels that this program reads in any case. Of all others, it reads those by which DaemonSets select nodes."""
REPELLING_EFFECTS: Final = ("NoSchedule", "NoExecute")
NODE_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""Prefix of taints of node conditions. DaemonSet pods tolerate most of them (K8S
``AddOrUpdateDaemonPodTolerations``). The others only occur on nodes that are NotReady, which are evaluated by that."""

# Driver upgrade states, LIB pkg/upgrade/consts.go.
STATE_REQUIRED: Final = "upgrade-required"
"""The node must be upgraded, and its upgrade has not started."""
STATES_BEFORE_RESTART: Final = frozenset(
    {
        "cordon-required",
        "wait-for-jobs-required",
        "pod-deletion-required",
        "drain-required",
        "node-maintenance-required",
    }
)
STATES_AFTER_RESTART: Final = frozenset(
    {"pod-restart-required", "validation-required", "uncordon-required", "post-maintenance-required"}
)
STATES_QUIET: Final = frozenset({"", "upgrade-done"})
STATE_FAILED: Final = "upgrade-failed"

# DaemonSets, pods and policies.
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
OFED_DRIVER_LABEL: Final = "nvidia.com/ofed-driver"
"""NO ``manifests/state-ofed-driver``: with an empty value, on the DaemonSet and its pods."""
COMPUTE_DOMAIN_LABEL: Final = "resource.nvidia.com/computeDomain"
"""DRA: label of the IMEX DaemonSets, one per ComputeDomain. They are no plugins."""
CHART_LABEL: Final = "helm.sh/chart"
REVISION_HASH_LABEL: Final = "controller-revision-hash"
"""K8S ``apps/v1`` ``ControllerRevisionHashLabelKey``."""
DEPLOYMENT_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
"""K8S ``pkg/controller/deployment/util``, ``RevisionAnnotation``."""

# Plugins.
PLUGIN_DAEMONSETS: Final = (
    "nvidia-dra-driver-gpu-kubelet-plugin",
    "dra-driver-nvidia-gpu-kubelet-plugin",
)
"""DRA: ``<nameOverride or chart name>-kubelet-plugin``. The chart was renamed in v0.4.0."""
PLUGIN_SELECTOR_VALUE: Final = "kubelet-plugin"
"""DRA: value of the only selector label, whose key is ``<name>-component``."""
FEATURE_GATES_VARIABLE: Final = "FEATURE_GATES"
"""DRA ``templates/kubeletplugin.yaml``: environment variable of the plugin, such as ``DynamicMIG=true,``."""
DRIVER_VERSION_ATTRIBUTE: Final = "driverVersion"
"""DRA: attribute of each device that it publishes."""

# This program.
OWN_NAME: Final = "gpu-operator-post"
OWN_LABELS: Final = {"app.kubernetes.io/name": OWN_NAME}
"""Labels of the chart's objects, and of the controller's Lease, which the program creates."""
RELEASE_NAMESPACE_LABEL: Final = f"{OWN_NAME}/namespace"
RELEASE_LABEL: Final = f"{OWN_NAME}/release"
"""Labels of device taint rules: the release that they belong to."""
OWN_STACK_LABEL: Final = f"{OWN_NAME}/stack"
"""Label of the Lease: the driver stack whose plugins its holder restarts."""
