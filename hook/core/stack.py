"""What a driver stack consists of: the columns of the table in ``stacks.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.objects.decoding import Reader
    from hook.objects.policies import Policy


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A cluster-scoped kind in which somebody says what the driver shall be."""

    group: str
    version: str
    plural: str
    kind: str
    read: Reader[Policy]
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
    """What repairs a failed upgrade, by the operator's documentation; ``messages.py`` puts it after a drain."""

    @property
    def other_owners(self) -> frozenset[str]:
        """Kinds of object that deploy drivers beside the policy and its pools, and are not read."""
        return self.driver.owners - {kind.kind for kind in (self.policy, self.pool) if kind is not None}
