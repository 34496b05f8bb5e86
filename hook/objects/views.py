"""Views: the parts of API objects that decisions need, so that a fleet of 5,000 nodes stays small.

Times are timezone-aware UTC. ``None`` means that the object does not have the field.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hook.format import compares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from hook.objects.policies import Policy
    from hook.objects.wire import Affinity


NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class View(msgspec.Struct, frozen=True, gc=False):
    """A view holds values and other views, never itself, so the garbage collector need not visit it."""


class Taint(View, frozen=True):
    """A taint of a node, or a toleration of a pod template."""

    key: str
    value: str
    effect: str
    operator: str = ""
    """Of a toleration. ``Exists`` tolerates any value, and with an empty key any taint."""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration lets a pod onto a node with a taint (K8S ``ToleratesTaint``).

        An operator that this version does not know may tolerate the taint, so it does.
        """
        if self.effect not in ("", taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return bool(self.key) and self.value == taint.value
        return compares(taint.value, self.operator, self.value) is not False


class Write(NamedTuple):
    """When a manager of a label wrote last: the label, or another field after it."""

    at: datetime
    merged: bool = False
    """The API server keeps the last ten managers, and one time for all others, which may be later (K8S
    ``managedfields/internal/capmanagers.go``)."""


class Node(View, frozen=True):
    """A node that has, or had, a device of a driver stack."""

    name: str
    labels: Mapping[str, str]
    """Only labels under ``names.NODE_LABEL_PREFIXES``, and those by which DaemonSets of the stack select nodes."""
    ready: bool
    ready_since: datetime | None
    """Last transition of the Ready condition, whichever way."""
    taints: tuple[Taint, ...] = ()
    """Taints that keep pods off, except for those that every DaemonSet pod tolerates."""
    cordoned: bool = False
    annotations: Mapping[str, str] = NONE
    """Only those of ``wire.Annotations``."""
    written: Mapping[str, Write] = NONE
    """When the last writer of a label wrote, of the labels that the settings need it for (``managedFields``)."""
    created: datetime | None = None
    gpus: int | None = None
    """What its device plugin reports (``status.capacity``); None without one, as with DRA alone."""


class DaemonSet(View, frozen=True):
    """A DaemonSet of drivers, prerequisites or driver clients."""

    namespace: str
    name: str
    uid: str
    generation: int
    observed_generation: int
    desired: int
    owner_kind: str
    owner_uid: str
    """The controlling owner: the policy that a driver DaemonSet was rendered from."""
    labels: Mapping[str, str]
    """Only ``names.DAEMONSET_LABELS``."""
    selector: tuple[tuple[str, str], ...]
    template_labels: Mapping[str, str]
    node_selector: Mapping[str, str]
    images: Mapping[str, str]
    """Main container name to image."""
    tolerations: tuple[Taint, ...]
    rolling: bool
    """Update strategy is RollingUpdate."""
    terms: tuple[Affinity.Term, ...] = ()
    """Of its required node affinity. A node must match one of them; empty if any node will do."""
    gates: tuple[str, ...] = ()
    """Feature gates that its containers turn on."""

    @property
    def observed(self) -> bool:
        """Return whether the DaemonSet controller has seen this spec, so that its ControllerRevision exists."""
        return self.observed_generation == self.generation

    @property
    def selected_by(self) -> Iterator[str]:
        """Yield the labels by which it selects nodes."""
        yield from self.node_selector
        yield from (each.key for term in self.terms for each in term.match_expressions or () if each.key)

    def wants(self, node: Node) -> bool:
        """Return whether its controller keeps a pod on a node (K8S ``pkg/controller/daemon``, NodeShouldRunDaemonPod).

        The counts of its status do not show which nodes these are.
        """
        labels = node.labels
        selected = all(labels.get(key) == value for key, value in self.node_selector.items())
        matched = not self.terms or any(term.matches(node.name, labels) for term in self.terms)
        return selected and matched and self.untolerated(node) is None

    def untolerated(self, node: Node) -> Taint | None:
        """Return the first taint of a node that its pods do not tolerate."""
        taints = (taint for taint in node.taints if not any(each.tolerates(taint) for each in self.tolerations))
        return next(taints, None)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels is one of this DaemonSet's."""
        return bool(self.selector) and all(labels.get(key) == value for key, value in self.selector)

    def __str__(self) -> str:
        # The status of each node has it.
        return sys.intern(f"{self.namespace}/{self.name}")


class Template(View, frozen=True):
    """What is read of a pod template."""

    labels: frozenset[tuple[str, str]]
    images: frozenset[tuple[str, str]]
    """Name and image of each main container."""

    @classmethod
    def of(cls, labels: Mapping[str, str], images: Mapping[str, str]) -> Template:
        """Return the template with these labels and images."""
        return cls(frozenset(labels.items()), frozenset(images.items()))


class Revision(View, frozen=True):
    """A ControllerRevision of a DaemonSet."""

    namespace: str
    name: str
    owner_uid: str
    revision: int
    hash: str
    created: datetime
    template: Template | None = None
    """The pod template that it records; None if the API server sent none."""

    def records(self, daemonset: DaemonSet) -> bool:
        """Return whether it can be the revision of the DaemonSet's current template."""
        return self.template in (None, Template.of(daemonset.template_labels, daemonset.images))


class Container(View, frozen=True):
    """The status of one container of a pod."""

    name: str
    started_at: datetime | None
    """Of the current run; None while it is not running."""
    finished_at: datetime | None
    """Of the run that ended: of an init container, its completion."""
    succeeded: bool
    """It ended with exit code 0, as a completed init container does."""
    last_finished_at: datetime | None
    """End of the run before this one (``lastState.terminated``)."""
    restarts: int
    waiting: str
    """Why it is not running, e.g. ``CrashLoopBackOff``; empty otherwise."""
    message: str
    lasted: int | None = None
    """Seconds of the run that ended; None where there is none, or its times are not known."""


class Pod(View, frozen=True):
    """A pod of a driver, a prerequisite or a driver client."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    """Also of a DaemonSet's pod that is not scheduled yet; empty if it is unknown."""
    owner_uid: str
    hash: str
    deleting: bool
    ended: bool
    """Phase Succeeded or Failed: the DaemonSet controller will replace it."""
    ready: bool
    containers_ready_since: datetime | None
    """Transition of a true ``ContainersReady``; None while it is not true."""
    init_containers: tuple[Container, ...]
    containers: tuple[Container, ...]
    labels: Mapping[str, str] = NONE
    """Pods of one DaemonSet revision share them."""
    unscheduled: str = ""
    """Why it is not scheduled; empty once it is."""
    created: datetime | None = None
    """By the clock of the API server, in whole seconds."""

    @property
    def live(self) -> bool:
        """Return whether the pod counts: it is not being deleted, and has not ended."""
        return not self.deleting and not self.ended

    def owned_by(self, uid: str) -> Pod:
        """Return the same pod with another owner."""
        return msgspec.structs.replace(self, owner_uid=uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class DeviceSlice(View, frozen=True):
    """A ResourceSlice, reduced to what verifies a plugin."""

    node: str
    devices: int
    pool: str
    generation: int
    """Of its pool: the scheduler and the kubelet ignore slices of an older one (K8S ``resource/v1`` ResourcePool)."""
    driver_versions: frozenset[str]
    """As published, without leading zeros; empty where devices have none (MIG, VFIO)."""


class Deployment(View, frozen=True):
    """The operator's Deployment."""

    namespace: str
    name: str
    uid: str
    revision: str
    generation: int
    observed_generation: int
    wanted: int
    total: int
    updated: int
    available: int
    changed: datetime | None = None
    """When its last rollout advanced or completed (condition Progressing)."""
    named_by_host: bool = False
    """Its pods have other host names than their own (hostNetwork, hostname), and so has the holder of its Lease."""

    @property
    def rolled_out(self) -> bool:
        """Return whether the rollout is complete, as ``kubectl rollout status`` defines it."""
        return (
            self.observed_generation == self.generation and self.updated == self.total == self.available == self.wanted
        )


class ReplicaSet(View, frozen=True):
    """A ReplicaSet of the operator's Deployment."""

    name: str
    owner_uid: str
    revision: str


class Lease(View, frozen=True):
    """The operator's leader lease."""

    namespace: str
    holder: str
    """``<pod name>_<uuid>`` (controller-runtime)."""
    acquired: datetime | None


class Malformed(View, frozen=True):
    """An object that does not match its kind. It never counts as ready or fresh."""

    kind: str
    namespace: str
    name: str
    node: str
    """The node of a malformed pod; empty if unknown."""
    problem: str


def node_of(view: View | None) -> str:
    """Return the name of the node that an object is or belongs to, or ""."""
    return view.name if isinstance(view, Node) else getattr(view, "node", "")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a decision about one driver stack is based on, read together."""

    policies: tuple[Policy, ...] | None = ()
    """None if the API server does not know the kind."""
    pools: tuple[Policy, ...] = ()
    """The objects that specify the drivers of one pool of nodes each, if the policy leaves the drivers to them."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    daemonsets: tuple[DaemonSet, ...] = ()
    revisions: tuple[Revision, ...] = ()
    driver_pods: tuple[Pod, ...] = ()
    prerequisite_pods: tuple[Pod, ...] = ()
    """Pods of components that a plugin must have started after, in addition to the driver (opt-in)."""
    plugin_pods: tuple[Pod, ...] = ()
    slices: tuple[DeviceSlice, ...] | None = ()
    """None if the API server has no ResourceSlices."""
    deployments: tuple[Deployment, ...] = ()
    replicasets: tuple[ReplicaSet, ...] = ()
    leases: tuple[Lease, ...] = ()
    malformed: tuple[Malformed, ...] = ()
