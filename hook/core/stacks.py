"""The table of driver stacks: what reloads a kernel driver, and who holds it.

The only place that knows a stack. A new one is a row here, a reader of its policy in ``policies.py``,
a set of fixtures and a rule of RBAC: docs/adding-a-stack.md walks through it. No other module
compares a stack's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hook.core import names, policies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hook.core.fields import Json
    from hook.core.views import DaemonSet, Policy


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A cluster-scoped kind in which somebody says what the driver shall be."""

    group: str
    version: str
    plural: str
    kind: str
    read: Callable[[Json], Policy]
    only_name: str = ""
    """The one name that counts; empty where the oldest object does."""
    carries_chart: bool = False
    """It says which chart it comes from."""
    tells_since: bool = False
    """Its Ready condition says since when."""
    upgrade: str = ""
    """Where in its spec the limits of the upgrade controller are."""


@dataclass(frozen=True, slots=True)
class ConsumerKind:
    """A kind of DaemonSet whose pods hold the driver."""

    noun: str
    """What people call its pods."""
    names: tuple[str, ...] = ()
    """DaemonSet names that are served where nobody names others."""
    waiter: str = ""
    """Init container that finishes only once a driver works; proof of freshness by start-up."""
    publisher: str = ""
    """Container that publishes devices; a consumer without it has no slice to verify."""
    slice_driver: str = ""
    """``spec.driver`` of the ResourceSlices that it publishes."""
    containers: frozenset[str] = frozenset()
    """A DaemonSet with only such containers is one of this kind, whatever its name."""
    operator_managed: str = ""
    """DaemonSet name, and component label, of the same consumer where the stack's operator restarts it itself."""
    operator_kind: str = ""
    """The kind of object that owns it there."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Something beside the driver that a consumer must have started after, if people ask for it."""

    title: str
    label: tuple[str, str]
    """On its DaemonSet, its pods and their revisions."""
    deploy_label: str
    """Nodes with this label ``true`` have one."""


@dataclass(frozen=True, slots=True)
class UpgradeLabels:
    """Where a stack's upgrade controller keeps a node's state."""

    state: str
    skip: str
    """``true`` takes a node out of driver upgrades."""
    counts_cordoned: bool
    """Nodes that are cordoned already count against the limit of unavailable ones."""
    evicts: tuple[str, ...] = ()
    """Beginnings of resources: pods that ask for one are evicted from a node before its driver reloads."""


@dataclass(frozen=True, slots=True)
class Operator:
    """How the operator of a stack is found."""

    title: str
    selector: str
    """Labels of its Deployment and ReplicaSets."""
    lease: str
    """Name of its leader lease."""
    chart: str
    """Chart name, as it stands before the version in ``helm.sh/chart``."""


@dataclass(frozen=True, slots=True)
class DriverPods:
    """How driver DaemonSets, their pods and revisions are found, and what is in them."""

    label: tuple[str, str]
    """On DaemonSets, pods and revisions; an empty value is a value."""
    container: str
    """The container that loads the driver."""
    unloader: str
    """Init container that unloads the old driver and unmounts its root; empty where there is none, and then
    no start-up proves a consumer fresh."""
    owners: frozenset[str]
    """Kinds that own driver DaemonSets: a DaemonSet of theirs with the container counts without the label."""
    tag: str
    """Image tag of a version, as a regular expression with ``{version}`` and ``{kernel}``."""


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Which nodes a stack has a driver on, by their labels."""

    present: str
    """``true`` where there is a device."""
    deploy: str = ""
    """``true`` where the driver is deployed; empty where the DaemonSets alone decide."""
    operands: str = ""
    """``false`` keeps every operand off a node."""
    workload: str = ""
    """What its devices are for: virtual machines get no driver that pods could use."""
    paused_prefix: str = ""
    """Labels under this prefix say that the old driver is being unloaded."""
    wait: str = ""
    """``true`` while the driver is not ready."""
    safe_load: str = ""
    """Annotation under which a driver waits until its node is drained."""
    pool: str = ""
    """Names the pool object of a node, from the operator's version on in which each has its own upgrade policy."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A driver stack: the names under which its parts are found."""

    name: str
    """As ``--stack`` has it."""
    device: str
    """What a node has, with its article."""
    policy: PolicyKind
    operator: Operator
    driver: DriverPods
    nodes: NodeLabels
    upgrade: UpgradeLabels
    consumer: ConsumerKind
    pool: PolicyKind | None = None
    """The kind of intent for one pool of nodes, where the policy may leave it to such objects."""
    after: str = ""
    """Name of the stack whose driver must settle first, where the policy asks for both together."""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    """By the name that ``--provider`` has."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What ``messages.py`` says differently about this stack; every row has the same keys."""
    failed_upgrade_command: str = ""
    """What the operator's documentation tells to run about a failed upgrade."""

    @property
    def other_owners(self) -> frozenset[str]:
        """Kinds of object that deploy drivers beside the policy and its pools, and are not read."""
        return self.driver.owners - {kind.kind for kind in (self.policy, self.pool) if kind is not None}


DRA_PLUGIN: Final = ConsumerKind(
    noun="plugin",
    names=names.PLUGIN_DAEMONSETS,
    waiter=names.PLUGIN_WAITER,
    publisher=names.PLUGIN_PUBLISHER,
    slice_driver=names.GPU_SLICE_DRIVER,
    containers=names.PLUGIN_CONTAINERS,
    operator_managed=names.OPERATOR_MANAGED_PLUGIN,
    operator_kind="GPUCluster",
)
OTHER_CONSUMER: Final = ConsumerKind(noun="consumer")
"""A DaemonSet that people named: nothing is known of it but that it holds the driver."""

GPU_OPERATOR: Final = Stack(
    name="gpu",
    device="a GPU",
    policy=PolicyKind(
        "nvidia.com",
        "v1",
        "clusterpolicies",
        "ClusterPolicy",
        policies.cluster_policy,
        carries_chart=True,
        tells_since=True,
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
        counts_cordoned=True,
        evicts=names.GPU_RESOURCE_PREFIXES,
    ),
    consumer=DRA_PLUGIN,
    after="network",
    providers={
        "toolkit": Provider(
            title="container toolkit",
            label=(names.TOOLKIT_LABEL, names.TOOLKIT_APP),
            deploy_label=names.DEPLOY_TOOLKIT_LABEL,
        )
    },
    words={
        "verified": "is Ready, and publishes devices",
        "broken": "claims on this node fail",
        "users": "the node's GPU pods",
        "evidence": "pods show that there is a GPU",
        "paused": "k8s-driver-manager has paused the node's operands by its labels",
        "tolerations": "the DRA driver's chart (kubeletPlugin.tolerations)",
        "before": "the DRA driver's first install",
        "turns": "Cordoned, NotReady and failed nodes use up maxUnavailable: if nothing moves, look for them.",
        "failed_upgrade": "Look at its GPUDriverUpgrade events and the operator's controllers.Upgrade log lines; when "
        "the cause is gone, put the node back.",
    },
    # GO documentation, troubleshooting a failed upgrade.
    failed_upgrade_command=f"kubectl label node {{node}} {names.UPGRADE_STATE_LABEL}=upgrade-required --overwrite",
)

NETWORK_OPERATOR: Final = Stack(
    name="network",
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
    upgrade=UpgradeLabels(state=names.OFED_STATE_LABEL, skip=names.OFED_SKIP_LABEL, counts_cordoned=False),
    # Their init container is content with any mlx5_core, also the host's own: no waiter that proves anything (NO).
    consumer=ConsumerKind(noun="device plugin", names=names.NETWORK_PLUGIN_DAEMONSETS),
    words={
        "verified": "and is Ready",
        "broken": "pods on this node cannot use its network devices",
        "users": "pods that use its network devices",
        "evidence": "pods show that there is an NVIDIA network device",
        "paused": "the network operator keeps device plugins off the node until its driver is ready",
        "tolerations": "the NicClusterPolicy (spec.tolerations)",
        "before": "the first device plugin is configured",
        "turns": "Failed nodes keep their place in maxParallelUpgrades: if nothing moves, look for them.",
        # NO documentation, life cycle management.
        "failed_upgrade": "Drain the node by hand and delete its driver pod; with safe load also remove the annotation "
        f"{names.OFED_SAFE_LOAD_ANNOTATION}. If the new driver never starts, go back to the previous version.",
    },
    failed_upgrade_command="kubectl -n {namespace} delete pod {name}",
)

STACKS: Final[Mapping[str, Stack]] = {one.name: one for one in (GPU_OPERATOR, NETWORK_OPERATOR)}


def is_driver(daemonset: DaemonSet, stack: Stack) -> bool:
    """Whether a DaemonSet loads the stack's driver: by its label, else (it can be overridden) by its owner."""
    if daemonset.labels.get(stack.driver.label[0]) == stack.driver.label[1]:
        return True
    return daemonset.owner_kind in stack.driver.owners and stack.driver.container in daemonset.images


def is_provider(daemonset: DaemonSet, stack: Stack) -> bool:
    """Whether a DaemonSet is what consumers may have to start after, beside the driver."""
    return any(daemonset.labels.get(one.label[0]) == one.label[1] for one in stack.providers.values())


def selector(label: tuple[str, str]) -> str:
    """Write a label as a selector; one with an empty value stands for its key alone."""
    key, value = label
    return f"{key}={value}" if value else key
