"""Labels, annotations, kinds and object names of other projects, each with its source.

``GO`` is NVIDIA/gpu-operator, ``NO`` is Mellanox/network-operator, ``DM`` is NVIDIA/k8s-driver-manager,
``LIB`` is NVIDIA/k8s-operator-libs, ``DRA`` is kubernetes-sigs/dra-driver-nvidia-gpu, ``K8S`` is
kubernetes/kubernetes. ``drivers.py`` assigns the names to driver stacks.
"""

from typing import Final

# Nodes.
GPU_PRESENT_LABEL: Final = "nvidia.com/gpu.present"
"""GO ``controllers/state_manager.go``, ``commonGPULabelKey``. Becomes ``false`` when NFD's labels vanish."""
DEPLOY_LABEL_PREFIX: Final = "nvidia.com/gpu.deploy."
"""GO ``controllers/state_manager.go``: one label per operand, on every GPU node."""
DEPLOY_DRIVER_LABEL: Final = DEPLOY_LABEL_PREFIX + "driver"
"""The driver DaemonSet's nodeSelector; never paused by DM."""
DEPLOY_OPERANDS_LABEL: Final = DEPLOY_LABEL_PREFIX + "operands"
"""``false`` keeps every operand off a node."""
PRE_INSTALLED: Final = "pre-installed"
"""Value of the driver label where the host brings its own driver (GO)."""
DEPLOY_VALUES: Final = ("true", "false")
"""Other known values of the driver label (GO)."""
PAUSED_LABEL_PREFIX: Final = "nvidia.com/"
"""DM pauses deploy labels, and the label that ``NODE_LABEL_FOR_GPU_POD_EVICTION`` names."""
PAUSED_FOR_UPGRADE: Final = "paused-for-driver-upgrade"
"""Part of deploy label values while the old driver is unloaded (DM ``cmd/driver-manager/main.go``)."""
WORKLOAD_CONFIG_LABEL: Final = "nvidia.com/gpu.workload.config"
"""GO ``controllers/state_manager.go``, ``gpuWorkloadConfigLabelKey``: purpose of a node's GPUs."""
VIRTUAL_MACHINE_WORKLOADS: Final = ("vm-passthrough", "vm-vgpu")
"""Same source: values with which a node gets no driver for containers."""
EVICTED_CLIENT_LABEL: Final = DEPLOY_LABEL_PREFIX + "client"
"""DM >= v0.12.0: DaemonSets that select it are evicted before the driver is unloaded."""
EVICTION_LABEL_VARIABLE: Final = "NODE_LABEL_FOR_GPU_POD_EVICTION"
"""DM: environment variable that names a further label to pause (GO ``spec.driver.manager.env``)."""
DRAIN_SELECTOR: Final = "nvidia.com/gpu-driver-upgrade-drain.skip!=true"
OFED_DRAIN_SELECTOR: Final = "nvidia.com/ofed-driver-upgrade-drain.skip!=true"
"""LIB ``pkg/upgrade/consts.go``, ``UpgradeSkipDrainDriverSelectorFmt``; each operator adds it to ``drain.podSelector``
(GO ``controllers/upgrade_controller.go``, NO ``controllers/upgrade_controller.go``)."""
FEATURE_GATES_VARIABLE: Final = "FEATURE_GATES"
"""DRA ``templates/kubeletplugin.yaml``: environment variable of the plugin, such as ``DynamicMIG=true,``."""
NVML_GATES: Final = ("DynamicMIG", "NVMLDeviceHealthCheck")
"""DRA ``cmd/gpu-kubelet-plugin``: with one of these gates the plugin keeps NVML open."""
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
"""GPU feature discovery: number of physical GPUs of a node, regardless of MIG and time slicing."""
GPU_RESOURCE: Final = "nvidia.com/gpu"
"""Extended resource of the device plugin."""
GPU_RESOURCE_PREFIXES: Final = (GPU_RESOURCE, "nvidia.com/mig-")
"""GO ``cmd/gpu-operator/main.go``, ``gpuPodSpecFilter``: pods that request such a resource are evicted."""
DRIVER_OWNER_LABEL: Final = "nvidia.com/gpu-operator.driver.owner"
"""GO >= v26.7.0, ``internal/consts``: the NVIDIADriver of a node, whose upgrade policy applies."""
UPGRADE_STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
"""LIB ``pkg/upgrade/consts.go``, driver name ``gpu``."""
UPGRADE_SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade.skip"
"""Same source: ``true`` takes a node out of driver upgrades."""
NIC_PRESENT_LABEL: Final = "feature.node.kubernetes.io/pci-15b3.present"
"""NFD: the node has a PCI device of vendor 15b3 (Mellanox). The OFED DaemonSet's nodeSelector (NO)."""
OFED_WAIT_LABEL: Final = "network.nvidia.com/operator.mofed.wait"
"""NO ``pkg/nodeinfo/attributes.go``: ``true`` until the node's OFED driver is ready."""
OFED_STATE_LABEL: Final = "nvidia.com/ofed-driver-upgrade-state"
"""LIB ``pkg/upgrade/consts.go``, driver name ``ofed``."""
OFED_SKIP_LABEL: Final = "nvidia.com/ofed-driver-upgrade.skip"
OFED_SAFE_LOAD_ANNOTATION: Final = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
"""LIB: while a node has it, its new driver waits until the node is cordoned and drained."""

MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
"""NVIDIA/mig-parted ``pkg/mig/reconfigure/reconfigure.go``: ``pending`` or ``rebooting`` before one of these."""
MIG_STATE_FAILED: Final = "failed"
MIG_STATES_ENDED: Final = frozenset({"success", MIG_STATE_FAILED})
MERGED_MANAGER: Final = "ancient-changes"
"""K8S ``apimachinery/pkg/util/managedfields``: the manager that replaces all but the last ten."""

NODE_LABEL_PREFIXES: Final = (
    "nvidia.com/gpu.",
    "nvidia.com/gpu-driver-upgrade",
    DRIVER_OWNER_LABEL,
    "nvidia.com/ofed-driver-upgrade",
    "nvidia.com/dra",
    MIG_STATE_LABEL,
    "network.nvidia.com/",
    NIC_PRESENT_LABEL,
)
"""Node labels that this program reads in any case. Of all others, it reads those by which DaemonSets select nodes."""

REPELLING_EFFECTS: Final = ("NoSchedule", "NoExecute")
TAINT_EFFECTS: Final = (*REPELLING_EFFECTS, "PreferNoSchedule")
NODE_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""Prefix of taints of node conditions. DaemonSet pods tolerate most of them (K8S
``AddOrUpdateDaemonPodTolerations``). The others only occur on nodes that are NotReady, which are evaluated by that."""

# Driver upgrade states, k8s-operator-libs pkg/upgrade/consts.go.
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

# Driver DaemonSets and pods.
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
DRIVER_COMPONENT: Final = "nvidia-driver"
"""GO >= v23.9.0: on the driver DaemonSet, its pods and ControllerRevisions, in every mode."""
DRIVER_CONTAINER: Final = "nvidia-driver-ctr"
DRIVER_MANAGER_CONTAINER: Final = "k8s-driver-manager"
"""The init container that unloads the old driver and unmounts its root filesystem (DM)."""
DRIVER_OWNERS: Final = frozenset({"ClusterPolicy", "NVIDIADriver"})
"""Kinds that own GPU driver DaemonSets (GO). They identify one whose labels were overridden."""
TOOLKIT_LABEL: Final = "app"
TOOLKIT_APP: Final = "nvidia-container-toolkit-daemonset"
"""GO ``assets/state-container-toolkit/0500_daemonset.yaml``: DaemonSet name, label and selector."""
DEPLOY_TOOLKIT_LABEL: Final = DEPLOY_LABEL_PREFIX + "container-toolkit"
MIG_MANAGER_LABEL: Final = "app"
MIG_MANAGER_APP: Final = "nvidia-mig-manager"
"""GO ``assets/state-mig-manager/0600_daemonset.yaml``: DaemonSet name, label and selector."""
DEPLOY_MIG_MANAGER_LABEL: Final = DEPLOY_LABEL_PREFIX + "mig-manager"
OFED_DRIVER_LABEL: Final = "nvidia.com/ofed-driver"
"""NO ``manifests/state-ofed-driver``: with an empty value, on the DaemonSet and its pods."""
OFED_DRIVER_OWNERS: Final = frozenset({"NicClusterPolicy", "NicNodePolicy"})
OFED_CONTAINER: Final = "mofed-container"
"""NO: the container that unloads the old driver and loads the new one. The init container does not unload."""
_OS_TAG: Final = r"[a-z][a-z_-]*[0-9][0-9.]*"
GPU_DRIVER_TAG: Final = "{version}-{kernel}" + _OS_TAG
"""GO ``controllers/object_controls.go``: ``<version>-<os-release ID><VERSION_ID>``, e.g. ubuntu22.04, sl-micro6.0.
Precompiled images have the kernel's release in between."""
OFED_DRIVER_TAG: Final = r"{version}-([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z._+-]*-)?" + _OS_TAG + "-[a-z][a-z0-9]*"
"""NO ``pkg/state/state_ofed.go``: ``<version>-[<kernel>-]<os><version>-<arch>``; the operator uses a precompiled
image, with the kernel's release in its tag, if the registry has one."""
LAST_APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""K8S ``core/v1``: the manifest of the last ``kubectl apply``, with fields that the API server dropped."""
CHART_LABEL: Final = "helm.sh/chart"
REVISION_HASH_LABEL: Final = "controller-revision-hash"
"""K8S ``apps/v1`` ``ControllerRevisionHashLabelKey``."""

# The operator.
OPERATOR_CHART: Final = "gpu-operator"
OPERATOR_COMPONENT: Final = "gpu-operator"
"""Component label of the operator's Deployment, ReplicaSets and ClusterPolicy (GO chart)."""
OPERATOR_LEASE: Final = "53822513.nvidia.com"
"""GO ``cmd/gpu-operator/main.go``, ``LeaderElectionID``."""
NETWORK_OPERATOR_CHART: Final = "network-operator"
NETWORK_OPERATOR_SELECTOR: Final = "app.kubernetes.io/name=network-operator"
"""NO ``templates/operator.yaml``: label of its Deployment and pods, which have no component label."""
NETWORK_OPERATOR_LEASE: Final = "12620820.mellanox.com"
"""NO ``main.go``, ``LeaderElectionID``."""
NETWORK_POLICY_NAME: Final = "nic-cluster-policy"
"""NO ``controllers/nicclusterpolicy_controller.go``: the operator ignores any other name."""
DEPLOYMENT_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
"""K8S ``pkg/controller/deployment/util``, ``RevisionAnnotation``."""

# Driver clients.
PLUGIN_DAEMONSETS: Final = (
    "nvidia-dra-driver-gpu-kubelet-plugin",
    "dra-driver-nvidia-gpu-kubelet-plugin",
)
"""DRA: ``<nameOverride or chart name>-kubelet-plugin``. The chart was renamed in v0.4.0."""
NETWORK_PLUGIN_DAEMONSETS: Final = ("rdma-shared-dp-ds", "network-operator-sriov-device-plugin")
"""NO ``manifests/state-rdma-shared-device-plugin``, ``manifests/state-sriov-device-plugin``."""
OPERATOR_MANAGED_PLUGIN: Final = "nvidia-dra-driver-kubelet-plugin"
"""GO >= v26.7.0 with a GPUCluster: the driver manager drains and restarts this plugin itself."""
PLUGIN_SELECTOR_VALUE: Final = "kubelet-plugin"
"""DRA: value of the only selector label, whose key is ``<name>-component``."""
PLUGIN_CONTAINERS: Final = frozenset({"gpus", "compute-domains"})
PLUGIN_WAITER: Final = "init-container"
"""DRA ``hack/kubelet-plugin-prestart.sh``: it finishes once ``nvidia-smi`` works."""
PLUGIN_PUBLISHER: Final = "gpus"
"""The container that publishes devices with a driver version."""
COMPUTE_DOMAIN_LABEL: Final = "resource.nvidia.com/computeDomain"
"""DRA: label of the IMEX DaemonSets, one per ComputeDomain. They are no plugins."""
DAEMONSET_LABELS: Final = frozenset({COMPONENT_LABEL, COMPUTE_DOMAIN_LABEL, TOOLKIT_LABEL, OFED_DRIVER_LABEL})
"""The only labels of DaemonSets that this program keeps."""
GPU_SLICE_DRIVER: Final = "gpu.nvidia.com"
COMPUTE_DOMAIN_DRIVER: Final = "compute-domain.nvidia.com"
"""DRA: the other driver of the same plugin, which hands out the channels of ComputeDomains."""
DRIVER_VERSION_ATTRIBUTE: Final = "driverVersion"

# The controller's Lease.
OWN_NAME: Final = "gpu-operator-post"
OWN_LABELS: Final = {"app.kubernetes.io/name": OWN_NAME}
"""Labels of the chart's objects, and of the Lease, which the program creates."""
OWN_STACK_LABEL: Final = f"{OWN_NAME}/stack"
"""Label of the Lease: the driver stack whose plugins its holder restarts."""
