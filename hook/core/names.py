"""The field's terms, each once: labels, annotations, kinds and object names, with their sources.

``GO`` is NVIDIA/gpu-operator, ``DM`` is NVIDIA/k8s-driver-manager, ``DRA`` is
kubernetes-sigs/dra-driver-nvidia-gpu, ``K8S`` is kubernetes/kubernetes.
"""

from typing import Final

# Nodes.
GPU_PRESENT_LABEL: Final = "nvidia.com/gpu.present"
"""GO ``controllers/state_manager.go``, ``commonGPULabelKey``. Becomes ``false`` when NFD's labels vanish."""
DEPLOY_LABEL_PREFIX: Final = "nvidia.com/gpu.deploy."
"""GO ``controllers/state_manager.go``: one label an operand, on every GPU node."""
DEPLOY_DRIVER_LABEL: Final = DEPLOY_LABEL_PREFIX + "driver"
"""The driver DaemonSet's nodeSelector; never paused by DM."""
DEPLOY_OPERANDS_LABEL: Final = DEPLOY_LABEL_PREFIX + "operands"
"""``false`` keeps every operand off a node."""
PRE_INSTALLED: Final = "pre-installed"
"""Value of the driver label where the host brings its own driver (GO)."""
PAUSED_FOR_UPGRADE: Final = "paused-for-driver-upgrade"
"""DM ``cmd/driver-manager/main.go``: in deploy label values while the old driver is unloaded."""
UPGRADE_STATE_LABEL: Final = "nvidia.com/gpu-driver-upgrade-state"
"""k8s-operator-libs ``pkg/upgrade/consts.go``, driver name ``gpu``."""
UPGRADE_SKIP_LABEL: Final = "nvidia.com/gpu-driver-upgrade.skip"
"""Same source: ``true`` takes a node out of driver upgrades."""

NODE_LABEL_PREFIXES: Final = ("nvidia.com/gpu.", "nvidia.com/gpu-driver-upgrade")
"""The only node labels that this program reads; all others are dropped when a node is read."""

REPELLING_EFFECTS: Final = ("NoSchedule", "NoExecute")
NODE_CONDITION_TAINTS: Final = "node.kubernetes.io/"
"""Taints of conditions of a node: DaemonSet pods tolerate most of them (K8S ``AddOrUpdateDaemonPodTolerations``),
and the others only stand on nodes that are NotReady, which are judged by that."""

# Driver upgrade states, k8s-operator-libs pkg/upgrade/consts.go.
STATES_BEFORE_RESTART: Final = frozenset(
    {
        "upgrade-required",
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
"""GO: on the driver DaemonSet, its pods and its ControllerRevisions in every mode since v23.9.0."""
DRIVER_CONTAINER: Final = "nvidia-driver-ctr"
DRIVER_MANAGER_CONTAINER: Final = "k8s-driver-manager"
"""The init container that unloads the old driver and unmounts its root filesystem (DM)."""
CHART_LABEL: Final = "helm.sh/chart"
REVISION_HASH_LABEL: Final = "controller-revision-hash"
"""K8S ``apps/v1`` ``ControllerRevisionHashLabelKey``."""

# The operator.
OPERATOR_CHART: Final = "gpu-operator"
OPERATOR_COMPONENT: Final = "gpu-operator"
"""Component label of the operator's Deployment, ReplicaSets and ClusterPolicy (GO chart)."""
OPERATOR_LEASE: Final = "53822513.nvidia.com"
"""GO ``cmd/gpu-operator/main.go``, ``LeaderElectionID``."""
DEPLOYMENT_REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
"""K8S ``pkg/controller/deployment/util``, ``RevisionAnnotation``."""

# Consumers.
PLUGIN_DAEMONSETS: Final = (
    "nvidia-dra-driver-gpu-kubelet-plugin",
    "dra-driver-nvidia-gpu-kubelet-plugin",
)
"""DRA: ``<nameOverride or chart name>-kubelet-plugin``; the chart was renamed in v0.4.0."""
OPERATOR_MANAGED_PLUGIN: Final = "nvidia-dra-driver-kubelet-plugin"
"""GO >= v26.7.0 with a GPUCluster; the driver manager drains and restarts this one itself."""
PLUGIN_SELECTOR_VALUE: Final = "kubelet-plugin"
"""DRA: value of the one selector label, whose key is ``<name>-component``."""
PLUGIN_CONTAINERS: Final = frozenset({"gpus", "compute-domains"})
PLUGIN_WAITER: Final = "init-container"
"""DRA ``hack/kubelet-plugin-prestart.sh``: finishes only once ``nvidia-smi`` works."""
PLUGIN_PUBLISHER: Final = "gpus"
"""The container that publishes devices with a driver version."""
COMPUTE_DOMAIN_LABEL: Final = "resource.nvidia.com/computeDomain"
"""On the per-ComputeDomain IMEX DaemonSets, which are no plugins (DRA)."""
GPU_SLICE_DRIVER: Final = "gpu.nvidia.com"
DRIVER_VERSION_ATTRIBUTE: Final = "driverVersion"

RESTARTED_AT_ANNOTATION: Final = "kubectl.kubernetes.io/restartedAt"
"""What ``kubectl rollout restart`` stamps on a pod template (K8S ``polymorphichelpers``)."""
