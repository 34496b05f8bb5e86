"""Columns of the table of driver stacks in ``stacks.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.objects.decoding import Reader
    from hook.objects.policies import Policy


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
class ConsumerKind:
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
    containers: frozenset[str] = frozenset()
    """A DaemonSet with only these containers is of this kind, under any name."""
    operator_managed: str = ""
    """DaemonSet name, and component label, of the plugin that the stack's operator deploys and restarts itself."""
    operator_kind: str = ""
    """Kind of object that owns that DaemonSet."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Component in addition to the driver that plugins must start after, if the settings name it."""

    title: str
    label: tuple[str, str]
    """Label of its DaemonSet, pods and revisions."""
    deploy_label: str
    """It is deployed to nodes on which this label is ``true``."""


@dataclass(frozen=True, slots=True)
class UpgradeLabels:
    """Node labels of a stack's upgrade controller."""

    state: str
    """State of the node's upgrade."""
    skip: str
    """``true`` takes a node out of driver upgrades."""
    counts_cordoned: bool
    """Nodes that are cordoned for another reason count as unavailable."""
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

    name: str
    """Value of ``--stack``."""
    device: str
    """Word for the device in messages, with its article."""
    policy: PolicyKind
    operator: Operator
    driver: DriverPods
    nodes: NodeLabels
    upgrade: UpgradeLabels
    consumer: ConsumerKind
    pool: PolicyKind | None = None
    """Kind that specifies the drivers of one pool of nodes, if the policy may leave that to such objects."""
    after: str = ""
    """Name of the stack whose driver must settle first, if the policy requires that order."""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    """Providers, by the value of ``--provider``."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Words of this stack for the explanations of reasons. All stacks have the same keys."""
    failed_upgrade_command: str = ""
    """Command that repairs a failed upgrade, from the operator's documentation. Its precondition is a drain."""

    @property
    def other_owners(self) -> frozenset[str]:
        """Return the kinds that deploy drivers in addition to the policy and its pools. Their objects are not read."""
        return self.driver.owners - {kind.kind for kind in (self.policy, self.pool) if kind is not None}
