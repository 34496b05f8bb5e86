"""The driver stacks: a table with one row per stack, and what its columns mean.

No other module depends on the name of a stack. To add a stack, see docs/dev/adding-a-driver.md: it needs a row here, a
reader of its policy in ``policies.py``, fixtures and an RBAC rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.objects import names, policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.objects.decoding import Reader
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet


class StackName(StrEnum):
    """Name of a driver stack in the setting ``stack``."""

    GPU = "gpu"
    NETWORK = "network"


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """Cluster-scoped kind of object that specifies drivers: a policy, or a pool of nodes."""

    group: str
    version: str
    plural: str
    kind: str
    read: Reader[Policy]
    only_name: str = ""
    """The only name that the operator accepts. Empty if it uses the oldest object."""
    carries_chart: bool = False
    """Its labels name the chart that it comes from."""
    upgrade: str = ""
    """Path of the upgrade policy in its spec."""


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
class NodeChange:
    """Change of a node's devices, as a node label shows it."""

    title: str
    label: str
    """State of the change. A node without the label was never changed."""
    ended: frozenset[str]
    """Values after the change. With all others it is in progress."""
    failed: str
    """The one of them that means that it failed."""


@dataclass(frozen=True, slots=True)
class Prerequisite:
    """Component in addition to the driver that plugins must start after, if the settings name it."""

    title: str
    label: tuple[str, str]
    """Label of its DaemonSet, pods and revisions."""
    deploy_label: str
    """It is deployed to nodes on which this label is ``true``."""
    change: NodeChange | None = None
    """Plugins must start after this change that it makes, not after its pod."""


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

    label: tuple[str, str]
    """Label of DaemonSets, pods and revisions. An empty value means a label with an empty value."""
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
    policy: PolicyKind
    operator: Operator
    driver: DriverPods
    nodes: NodeLabels
    upgrade: UpgradeLabels
    plugin: PluginKind
    pool: PolicyKind | None = None
    """Kind that specifies the drivers of one pool of nodes, if the policy may leave that to such objects."""
    prerequisites: Mapping[str, Prerequisite] = field(default_factory=dict)
    """By the name in the setting ``refreshAfter``."""
    failed_upgrade_command: str = ""
    """Command that repairs a failed upgrade, from the operator's documentation; a template like those of reasons."""

    @property
    def other_owners(self) -> frozenset[str]:
        """Return the kinds that deploy drivers in addition to the policy and its pools. Their objects are not read."""
        return self.driver.owners - {kind.kind for kind in (self.policy, self.pool) if kind is not None}


DRA_PLUGIN: Final = PluginKind(
    noun="plugin",
    names=names.PLUGIN_DAEMONSETS,
    waiter=names.PLUGIN_WAITER,
    publisher=names.PLUGIN_PUBLISHER,
    slice_driver=names.GPU_SLICE_DRIVER,
    claim_drivers=(names.GPU_SLICE_DRIVER, names.COMPUTE_DOMAIN_DRIVER),
    containers=names.PLUGIN_CONTAINERS,
    operator_managed=names.OPERATOR_MANAGED_PLUGIN,
    operator_kind="GPUCluster",
    tolerations="the DRA driver's chart: kubeletPlugin.tolerations",
)
OTHER_PLUGIN: Final = PluginKind(noun="driver client")
"""Driver client from the settings: it holds the driver, and nothing else is known about it."""

GPU_OPERATOR: Final = Stack(
    name=StackName.GPU,
    device="a GPU",
    policy=PolicyKind(
        "nvidia.com",
        "v1",
        "clusterpolicies",
        "ClusterPolicy",
        policies.cluster_policy,
        carries_chart=True,
        upgrade="driver.upgradePolicy",
    ),
    pool=PolicyKind(
        "nvidia.com",
        "v1alpha1",
        "nvidiadrivers",
        "NVIDIADriver",
        policies.nvidia_driver,
        upgrade="upgradePolicy",
    ),
    operator=Operator(
        title="GPU operator",
        selector=f"{names.COMPONENT_LABEL}={names.OPERATOR_COMPONENT}",
        lease=names.OPERATOR_LEASE,
        chart=names.OPERATOR_CHART,
    ),
    driver=DriverPods(
        label=(names.COMPONENT_LABEL, names.DRIVER_COMPONENT),
        container=names.DRIVER_CONTAINER,
        unloader=names.DRIVER_MANAGER_CONTAINER,
        owners=names.DRIVER_OWNERS,
        tag=names.GPU_DRIVER_TAG,
    ),
    nodes=NodeLabels(
        present=names.GPU_PRESENT_LABEL,
        deploy=names.DEPLOY_DRIVER_LABEL,
        operands=names.DEPLOY_OPERANDS_LABEL,
        workload=names.WORKLOAD_CONFIG_LABEL,
        paused_prefix=names.PAUSED_LABEL_PREFIX,
        pool=names.DRIVER_OWNER_LABEL,
    ),
    upgrade=UpgradeLabels(
        state=names.UPGRADE_STATE_LABEL,
        skip=names.UPGRADE_SKIP_LABEL,
        counts_unavailable=True,
        drains=names.DRAIN_SELECTOR,
        evicts=names.GPU_RESOURCE_PREFIXES,
    ),
    plugin=DRA_PLUGIN,
    prerequisites={
        "toolkit": Prerequisite(
            title="container toolkit",
            label=(names.TOOLKIT_LABEL, names.TOOLKIT_APP),
            deploy_label=names.DEPLOY_TOOLKIT_LABEL,
        ),
        "mig": Prerequisite(
            title="MIG manager",
            label=(names.MIG_MANAGER_LABEL, names.MIG_MANAGER_APP),
            deploy_label=names.DEPLOY_MIG_MANAGER_LABEL,
            change=NodeChange(
                "MIG reconfiguration", names.MIG_STATE_LABEL, names.MIG_STATES_ENDED, names.MIG_STATE_FAILED
            ),
        ),
    },
    # GO documentation, troubleshooting a failed upgrade.
    failed_upgrade_command="kubectl label node {node} {state_label}=upgrade-required --overwrite",
)

NETWORK_OPERATOR: Final = Stack(
    name=StackName.NETWORK,
    device="an NVIDIA network device",
    policy=PolicyKind(
        "mellanox.com",
        "v1alpha1",
        "nicclusterpolicies",
        "NicClusterPolicy",
        policies.nic_cluster_policy,
        only_name=names.NETWORK_POLICY_NAME,
        upgrade="ofedDriver.upgradePolicy",
    ),
    operator=Operator(
        title="network operator",
        selector=names.NETWORK_OPERATOR_SELECTOR,
        lease=names.NETWORK_OPERATOR_LEASE,
        chart=names.NETWORK_OPERATOR_CHART,
    ),
    driver=DriverPods(
        label=(names.OFED_DRIVER_LABEL, ""),
        container=names.OFED_CONTAINER,
        unloader="",
        owners=names.OFED_DRIVER_OWNERS,
        tag=names.OFED_DRIVER_TAG,
    ),
    nodes=NodeLabels(
        present=names.NIC_PRESENT_LABEL,
        wait=names.OFED_WAIT_LABEL,
        safe_load=names.OFED_SAFE_LOAD_ANNOTATION,
    ),
    upgrade=UpgradeLabels(
        state=names.OFED_STATE_LABEL,
        skip=names.OFED_SKIP_LABEL,
        counts_unavailable=False,
        drains=names.OFED_DRAIN_SELECTOR,
    ),
    # The init container accepts any mlx5_core, also that of the host, so it is no proof of freshness (NO).
    plugin=PluginKind(
        noun="device plugin",
        names=names.NETWORK_PLUGIN_DAEMONSETS,
        tolerations="the NicClusterPolicy: spec.tolerations",
    ),
    # NO documentation, life cycle management.
    failed_upgrade_command="kubectl -n {namespace} delete pod {name}",
)

STACKS: Final[Mapping[StackName, Stack]] = {stack.name: stack for stack in (GPU_OPERATOR, NETWORK_OPERATOR)}


def is_driver(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether a DaemonSet loads the stack's driver, by its label, or by its owner if the label is overridden."""
    if daemonset.labels.get(stack.driver.label[0]) == stack.driver.label[1]:
        return True
    return daemonset.owner_kind in stack.driver.owners and stack.driver.container in daemonset.images


def is_provider(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether a DaemonSet is a provider of the stack."""
    return any(
        daemonset.labels.get(prerequisite.label[0]) == prerequisite.label[1]
        for prerequisite in stack.prerequisites.values()
    )


def selector(label: tuple[str, str]) -> str:
    """Return a label as a selector: the key alone if the value is empty."""
    key, value = label
    return f"{key}={value}" if value else key
