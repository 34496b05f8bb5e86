"""The driver stacks: for each, one value with the names and labels of its operator, driver, nodes and plugins.

No other module depends on the name of a stack. To add a stack, see docs/dev/adding-a-driver.md. Sources are named as in
``names.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from hook.objects import names
from hook.objects.policies import ClusterPolicy, NicClusterPolicy, NvidiaDriver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.objects.policies import Policy


class StackName(StrEnum):
    """Name of a driver stack in the setting ``stack``."""

    GPU = "gpu"
    NETWORK = "network"


class Label(NamedTuple):
    """A label of an object. An empty value means a label with an empty value."""

    key: str
    value: str

    @property
    def selector(self) -> str:
        """Return the selector of objects with the label: the key alone if the value is empty."""
        return f"{self.key}={self.value}" if self.value else self.key


@dataclass(frozen=True, slots=True)
class PluginKind:
    """Kind of DaemonSet whose pods hold the driver."""

    noun: str
    """Word for its pods in messages."""
    names: tuple[str, ...] = ()
    """Default names of its DaemonSets."""
    waiter: str = ""
    """Init container that finishes once a driver works. It proves freshness by start-up."""
    publisher: str = ""
    """Container that publishes devices. A pod without it has no ResourceSlice to verify."""
    slice_driver: str = ""
    """``spec.driver`` of the ResourceSlices that it publishes."""
    claim_drivers: tuple[str, ...] = ()
    """DRA drivers whose claims it prepares, with files of the driver that it runs on."""
    containers: frozenset[str] = frozenset()
    """A DaemonSet with only these containers is of this kind, under any name."""
    operator_managed: str = ""
    """DaemonSet name, and component label, of the plugin that the stack's operator deploys and restarts itself."""
    operator_kind: str = ""
    """Kind of object that owns that DaemonSet."""
    tolerations: str = ""
    """Where an administrator configures its tolerations."""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """Component in addition to the driver that plugins must start after, if the settings name it."""

    title: str
    label: Label
    """Label of its DaemonSet, pods and revisions."""
    deploy_label: str
    """It is deployed to nodes on which this label is ``true``."""
    reconfigures: bool = False
    """Plugins must start after the last MIG reconfiguration of the node, not after its pod."""


@dataclass(frozen=True, slots=True)
class UpgradeLabels:
    """Node labels of a stack's upgrade controller."""

    state: str
    """State of the node's upgrade."""
    skip: str
    """``true`` takes a node out of driver upgrades."""
    counts_unavailable: bool
    """The upgrade policy has ``maxUnavailable``, against which nodes count that are cordoned for another reason."""
    drains: str = ""
    """Selector of the pods that a drain may remove; the operator adds it to that of the policy."""
    evicts: tuple[str, ...] = ()
    """Prefixes of extended resources. Pods that request one are evicted before the driver reloads."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Names and labels of a stack's operator."""

    title: str
    selector: str
    """Label selector of its Deployment and ReplicaSets."""
    lease: str
    """Name of its leader election Lease."""
    chart: str
    """Chart name, the part before the version in ``helm.sh/chart``."""


@dataclass(frozen=True, slots=True)
class DriverPods:
    """Names and labels of driver DaemonSets, their pods and revisions."""

    label: Label
    """Label of DaemonSets, pods and revisions."""
    container: str
    """The container that loads the driver."""
    unloader: str
    """Init container that unloads the old driver and unmounts its root. If empty, no start-up proves freshness."""
    owners: frozenset[str]
    """Kinds that own driver DaemonSets. With the container, a DaemonSet of such an owner needs no label."""
    tag: str
    """Regular expression for the image tags of a version, with ``{version}`` and ``{kernel}``."""


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Node labels that show where a stack has drivers."""

    present: str
    """``true`` on nodes with a device."""
    deploy: str = ""
    """``true`` on nodes to which the driver is deployed. Empty if the DaemonSets alone decide."""
    operands: str = ""
    """``false`` keeps every operand off a node."""
    workload: str = ""
    """Purpose of the devices. Nodes for virtual machines get no driver for pods."""
    paused_prefix: str = ""
    """Prefix of labels that show that the old driver is being unloaded."""
    wait: str = ""
    """``true`` while the driver is not ready."""
    safe_load: str = ""
    """Annotation of a node whose driver waits until the node is drained."""
    pool: str = ""
    """Name of the node's pool. Only operators under which pools have upgrade policies set it."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Driver stack: the names and labels of its parts."""

    name: StackName
    device: str
    """Word for the device in messages, with its article."""
    policy: type[Policy]
    operator: Operator
    driver: DriverPods
    nodes: NodeLabels
    upgrade: UpgradeLabels
    plugin: PluginKind
    pool: type[Policy] | None = None
    """Kind that specifies the drivers of one pool of nodes, if the policy may leave that to such objects."""
    prerequisites: Mapping[str, Prerequisite] = field(default_factory=dict)
    """By the name in the setting ``refreshAfter``."""
    failed_upgrade_command: str = ""
    """Command that repairs a failed upgrade, from the operator's documentation; a template like those of reasons."""


# The GPU operator.

_DEPLOY: Final = "nvidia.com/gpu.deploy."
"""GO ``controllers/state_manager.go``: prefix of one label per operand, on every GPU node."""
_OS_TAG: Final = r"[a-z][a-z_-]*[0-9][0-9.]*"

DRA_PLUGIN: Final = PluginKind(
    noun="plugin",
    names=names.PLUGIN_DAEMONSETS,
    # DRA hack/kubelet-plugin-prestart.sh: it finishes once nvidia-smi works.
    waiter="init-container",
    publisher="gpus",
    slice_driver="gpu.nvidia.com",
    # The other driver of the same plugin hands out the channels of ComputeDomains.
    claim_drivers=("gpu.nvidia.com", "compute-domain.nvidia.com"),
    containers=frozenset({"gpus", "compute-domains"}),
    # GO >= v26.7.0 with a GPUCluster: the driver manager drains and restarts this plugin itself.
    operator_managed="nvidia-dra-driver-kubelet-plugin",
    operator_kind="GPUCluster",
    tolerations="the DRA driver's chart: kubeletPlugin.tolerations",
)
OTHER_PLUGIN: Final = PluginKind(noun="driver client")
"""Driver client from the settings: it holds the driver, and nothing else is known about it."""

GPU_OPERATOR: Final = Stack(
    name=StackName.GPU,
    device="a GPU",
    policy=ClusterPolicy,
    pool=NvidiaDriver,
    operator=Operator(
        title="GPU operator",
        # GO chart: label of its Deployment and ReplicaSets.
        selector=f"{names.COMPONENT_LABEL}=gpu-operator",
        # GO cmd/gpu-operator/main.go, LeaderElectionID.
        lease="53822513.nvidia.com",
        chart="gpu-operator",
    ),
    driver=DriverPods(
        # GO >= v23.9.0: in every mode.
        label=Label(names.COMPONENT_LABEL, "nvidia-driver"),
        container="nvidia-driver-ctr",
        # DM: it unloads the old driver and unmounts its root filesystem.
        unloader="k8s-driver-manager",
        # GO: they identify a driver DaemonSet whose labels were overridden.
        owners=frozenset({"ClusterPolicy", "NVIDIADriver"}),
        # GO controllers/object_controls.go: <version>-<os-release ID><VERSION_ID>, such as ubuntu22.04 or sl-micro6.0.
        # Precompiled images have the kernel's release in between.
        tag="{version}-{kernel}" + _OS_TAG,
    ),
    nodes=NodeLabels(
        # GO controllers/state_manager.go, commonGPULabelKey: it becomes "false" when the labels of NFD vanish.
        present="nvidia.com/gpu.present",
        # The driver DaemonSet's node selector; DM never pauses it.
        deploy=f"{_DEPLOY}driver",
        operands=f"{_DEPLOY}operands",
        # GO controllers/state_manager.go, gpuWorkloadConfigLabelKey.
        workload="nvidia.com/gpu.workload.config",
        # DM pauses deploy labels, and the label that NODE_LABEL_FOR_GPU_POD_EVICTION names.
        paused_prefix="nvidia.com/",
        # GO >= v26.7.0, internal/consts.
        pool="nvidia.com/gpu-operator.driver.owner",
    ),
    # LIB pkg/upgrade/consts.go, driver name "gpu"; GO controllers/upgrade_controller.go; GO cmd/gpu-operator/main.go,
    # gpuPodSpecFilter.
    upgrade=UpgradeLabels(
        state="nvidia.com/gpu-driver-upgrade-state",
        skip="nvidia.com/gpu-driver-upgrade.skip",
        counts_unavailable=True,
        drains="nvidia.com/gpu-driver-upgrade-drain.skip!=true",
        evicts=(names.GPU_RESOURCE, "nvidia.com/mig-"),
    ),
    plugin=DRA_PLUGIN,
    prerequisites={
        # GO assets/state-container-toolkit/0500_daemonset.yaml.
        "toolkit": Prerequisite(
            title="container toolkit",
            label=Label("app", "nvidia-container-toolkit-daemonset"),
            deploy_label=f"{_DEPLOY}container-toolkit",
        ),
        # GO assets/state-mig-manager/0600_daemonset.yaml.
        "mig": Prerequisite(
            title="MIG manager",
            label=Label("app", "nvidia-mig-manager"),
            deploy_label=f"{_DEPLOY}mig-manager",
            reconfigures=True,
        ),
    },
    # GO documentation, troubleshooting a failed upgrade.
    failed_upgrade_command="kubectl label node {node} {state_label}=upgrade-required --overwrite",
)

# The network operator.

NETWORK_OPERATOR: Final = Stack(
    name=StackName.NETWORK,
    device="an NVIDIA network device",
    policy=NicClusterPolicy,
    operator=Operator(
        title="network operator",
        # NO templates/operator.yaml: its Deployment and pods have no component label.
        selector="app.kubernetes.io/name=network-operator",
        # NO main.go, LeaderElectionID.
        lease="12620820.mellanox.com",
        chart="network-operator",
    ),
    driver=DriverPods(
        # NO manifests/state-ofed-driver.
        label=Label(names.OFED_DRIVER_LABEL, ""),
        # It unloads the old driver and loads the new one. The init container does not unload.
        container="mofed-container",
        unloader="",
        owners=frozenset({"NicClusterPolicy", "NicNodePolicy"}),
        # NO pkg/state/state_ofed.go: <version>-[<kernel>-]<os><version>-<arch>. The operator uses a precompiled image,
        # with the kernel's release in its tag, if the registry has one.
        tag=r"{version}-([0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z._+-]*-)?" + _OS_TAG + "-[a-z][a-z0-9]*",
    ),
    nodes=NodeLabels(
        # NFD: a PCI device of vendor 15b3 (Mellanox). The driver DaemonSet's node selector.
        present="feature.node.kubernetes.io/pci-15b3.present",
        # NO pkg/nodeinfo/attributes.go.
        wait="network.nvidia.com/operator.mofed.wait",
        safe_load=names.OFED_SAFE_LOAD_ANNOTATION,
    ),
    # LIB pkg/upgrade/consts.go, driver name "ofed"; NO controllers/upgrade_controller.go.
    upgrade=UpgradeLabels(
        state="nvidia.com/ofed-driver-upgrade-state",
        skip="nvidia.com/ofed-driver-upgrade.skip",
        counts_unavailable=False,
        drains="nvidia.com/ofed-driver-upgrade-drain.skip!=true",
    ),
    plugin=PluginKind(
        noun="device plugin",
        # NO manifests/state-rdma-shared-device-plugin, manifests/state-sriov-device-plugin. Their init container
        # accepts any mlx5_core, also that of the host, so it is no proof of freshness.
        names=("rdma-shared-dp-ds", "network-operator-sriov-device-plugin"),
        tolerations="the NicClusterPolicy: spec.tolerations",
    ),
    # NO documentation, life cycle management.
    failed_upgrade_command="kubectl -n {namespace} delete pod {name}",
)

STACKS: Final[Mapping[StackName, Stack]] = {stack.name: stack for stack in (GPU_OPERATOR, NETWORK_OPERATOR)}
