"""API objects as the API server sends them: Structs that name only the fields that are read.

Kubernetes writes null for unset fields, so a field is optional unless its kind requires it. Rules that types cannot
express are in ``readers.py``.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.format import compares
from hook.objects import names
from hook.objects.decoding import Count, Key, Labels, MalformedObjectError, Name, Part, Text, Time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONDITION_STATUSES: Final = ("True", "False", "Unknown")


class Owner(Part):
    kind: Text | None = None
    uid: Text | None = None
    controller: bool | None = None


class Annotations(Part):
    """The only annotations that are read, of any kind."""

    deployment_revision: Text | None = msgspec.field(name=names.DEPLOYMENT_REVISION_ANNOTATION, default=None)
    last_applied: str | None = msgspec.field(name=names.LAST_APPLIED_ANNOTATION, default=None)
    safe_load: Text | None = msgspec.field(name=names.OFED_SAFE_LOAD_ANNOTATION, default=None)


class Metadata(Part, kw_only=True):
    name: Name
    namespace: Text | None = None
    resource_version: Text | None = None
    labels: Labels | None = None
    annotations: Annotations | None = None
    owner_references: list[Owner] | None = None

    @property
    def owner(self) -> Owner:
        """Return the controlling owner; an empty one if there is none."""
        return next((owner for owner in self.owner_references or () if owner.controller), Owner())

    @property
    def key(self) -> Key:
        """Return the namespace and the name, which are unique in a kind."""
        return intern(self.namespace or ""), self.name

    @property
    def noted(self) -> Annotations:
        """Return the annotations that are read."""
        return self.annotations or Annotations()


class Namespaced(Metadata, kw_only=True):
    namespace: Name


class Generated(Namespaced, kw_only=True):
    """Metadata of a kind whose controller observes generations."""

    uid: Name
    generation: Count


class Object(Part):
    """An object of any kind."""

    metadata: Metadata


class Condition(Part):
    type: Text | None = None
    status: Text | None = None
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str | None = None

    @property
    def true(self) -> bool:
        """Return whether the condition holds."""
        return self.status == "True"


def condition(conditions: Iterable[Condition] | None, kind: str) -> Condition:
    """Return the condition of a type; an empty one if there is none. Two of a type are malformed."""
    same = [condition for condition in conditions or () if condition.type == kind]
    if len(same) > 1:
        raise MalformedObjectError(f"status.conditions: {len(same)} times {kind}")
    if same and same[0].status not in CONDITION_STATUSES:
        raise MalformedObjectError(f"status.conditions: {kind} is none of {', '.join(CONDITION_STATUSES)}")
    return same[0] if same else Condition()


class Taint(Part):
    """A taint, or a toleration."""

    key: Text | None = None
    value: Text | None = None
    effect: Text | None = None
    operator: Text | None = None


class Node(Object):
    class Spec(Part):
        taints: list[Taint] | None = None
        unschedulable: bool | None = None

    class Status(Part):
        conditions: list[Condition] | None = None
        capacity: dict[str, Any] | None = None

    class Meta(Metadata, kw_only=True):
        creation_timestamp: Time | None = None

    metadata: Meta
    spec: Spec | None = None
    status: Status | None = None


class ManagedNode(Node):
    """A node with ``managedFields``, which are large. They are read only if a setting needs them."""

    class Labels(Part):
        labels: dict[str, Any] | None = msgspec.field(name="f:labels", default=None)

    class Fields(Part):
        metadata: ManagedNode.Labels | None = msgspec.field(name="f:metadata", default=None)

    class Write(Part):
        manager: Text | None = None
        time: Time | None = None
        fields_v1: ManagedNode.Fields | None = None

        def has(self, label: str) -> bool:
            """Return whether the manager owns a label."""
            fields = self.fields_v1.metadata if self.fields_v1 is not None else None
            return fields is not None and f"f:{label}" in (fields.labels or ())

    class ManagedMeta(Node.Meta, kw_only=True):
        managed_fields: list[ManagedNode.Write] | None = None

    metadata: ManagedMeta


class Container(Part):
    class Resources(Part):
        limits: dict[str, Any] | None = None
        requests: dict[str, Any] | None = None

    name: Name
    image: Text | None = None
    resources: Resources | None = None
    restart_policy: Text | None = None

    @property
    def resource_names(self) -> Iterable[str]:
        """Return the names of the resources that it requests."""
        resources = self.resources or Container.Resources()
        return (*(resources.limits or ()), *(resources.requests or ()))


class Requirement(Part):
    """A requirement of a label selector or a node selector."""

    key: Text | None = None
    operator: Text | None = None
    values: list[Text] | None = None

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement. An unknown operator is never met."""
        present, value = self.key in labels, labels.get(self.key or "")
        if (compared := compares(value or "", self.operator or "", "".join(self.values or ()))) is not None:
            return compared
        return {
            "In": present and value in (self.values or ()),
            "NotIn": not present or value not in (self.values or ()),
            "Exists": present,
            "DoesNotExist": not present,
        }.get(self.operator or "", False)


class Affinity(Part):
    """The affinity of a pod. Only the nodes that it requires are read."""

    class Term(Part):
        match_expressions: list[Requirement] | None = None
        match_fields: list[Requirement] | None = None

        def matches(self, name: str, labels: Mapping[str, str]) -> bool:
            """Return whether a node matches. A term without a requirement matches none."""
            fields = {"metadata.name": name}
            met = [each.met_by(labels) for each in self.match_expressions or ()]
            met += [each.met_by(fields) for each in self.match_fields or ()]
            return bool(met) and all(met)

    class NodeSelector(Part):
        node_selector_terms: list[Affinity.Term] | None = None

    class NodeAffinity(Part):
        required: Affinity.NodeSelector | None = msgspec.field(
            name="requiredDuringSchedulingIgnoredDuringExecution", default=None
        )

    node_affinity: NodeAffinity | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return the terms of the nodes that it requires. A node must match one of them; empty if any node will do."""
        required = self.node_affinity and self.node_affinity.required
        return tuple((required and required.node_selector_terms) or ())


class PodSpec(Part):
    """The spec of a pod or of a pod template."""

    class Volume(Part):
        empty_dir: dict[str, Any] | None = None

    node_name: Text | None = None
    affinity: Affinity | None = None
    init_containers: list[Container] | None = None
    containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_selector: Labels | None = None
    tolerations: list[Taint] | None = None
    host_network: bool | None = None
    hostname: Text | None = None

    @property
    def terms(self) -> tuple[Affinity.Term, ...]:
        """Return the terms of its affinity, one of which its node must match."""
        return self.affinity.terms if self.affinity else ()

    @property
    def node(self) -> str:
        """Return the node of a pod, also of a DaemonSet's pod that is not scheduled yet; or "".

        The DaemonSet controller names the node in the affinity (K8S ``ReplaceDaemonSetPodNodeNameNodeAffinity``).
        """
        if self.node_name:
            return self.node_name
        fields = (field for term in self.terms for field in term.match_fields or ())
        named = (field.values for field in fields if (field.key, field.operator) == ("metadata.name", "In"))
        return next((values[0] for values in named if values), "")


class TemplateContainer(Container):
    env: Any = None
    """Of any shape, because only plans read it: it makes no DaemonSet malformed."""


class TemplateSpec(PodSpec):
    containers: list[TemplateContainer] | None = None  # type: ignore[assignment] # a list of what it is a list of


class ContainerStatus(Part):
    class Run(Part):
        """State of a container that waits, runs or has ended."""

        reason: Text | None = None
        message: str | None = None
        started_at: Time | None = None
        finished_at: Time | None = None
        exit_code: Count | None = None

    class State(Part):
        waiting: ContainerStatus.Run | None = None
        running: ContainerStatus.Run | None = None
        terminated: ContainerStatus.Run | None = None

    name: Name
    restart_count: Count | None = None
    state: State | None = None
    last_state: State | None = None


class Pod(Object):
    class Meta(Namespaced, kw_only=True):
        uid: Name
        resource_version: Name
        creation_timestamp: Time | None = None
        deletion_timestamp: Time | None = None

    class Status(Part):
        phase: Text | None = None
        conditions: list[Condition] | None = None
        init_container_statuses: list[ContainerStatus] | None = None
        container_statuses: list[ContainerStatus] | None = None

    metadata: Meta
    spec: PodSpec | None = None
    status: Status | None = None


class Selector(Part):
    """A label selector."""

    match_labels: Labels | None = None
    match_expressions: list[Requirement] | None = None

    def matches(self, labels: Labels) -> bool:
        """Return whether an object with these labels is selected. An empty selector selects every object."""
        exact = (self.match_labels or {}).items() <= labels.items()
        return exact and all(requirement.met_by(labels) for requirement in self.match_expressions or ())


class Labelled(Part):
    labels: Labels | None = None


class Controller(Object):
    """A DaemonSet or a Deployment."""

    class Template(Part):
        metadata: Labelled | None = None
        spec: TemplateSpec | None = None

    class Strategy(Part):
        type: Text | None = None

    class Spec(Part):
        selector: Selector | None = None
        template: Controller.Template | None = None
        update_strategy: Controller.Strategy | None = None
        replicas: Count | None = None

    class Status(Part):
        observed_generation: Count | None = None
        desired_number_scheduled: Count | None = None
        replicas: Count | None = None
        updated_replicas: Count | None = None
        available_replicas: Count | None = None
        conditions: list[Condition] | None = None

    metadata: Generated
    spec: Spec | None = None
    status: Status | None = None


class ReplicaSet(Object):
    metadata: Namespaced


class Created(Namespaced, kw_only=True):
    creation_timestamp: Time


class ControllerRevision(Object):
    class Data(Part):
        spec: Controller.Spec | None = None

    metadata: Created
    revision: Count | None = None
    data: Data | None = None


class Lease(Object):
    class Spec(Part):
        holder_identity: Text | None = None
        acquire_time: Time | None = None
        renew_time: Time | None = None

    metadata: Namespaced
    spec: Spec | None = None


class Device(Part):
    class Attribute(Part):
        version: Text | None = None

    class Attributes(Part):
        driver_version: Device.Attribute | None = msgspec.field(name=names.DRIVER_VERSION_ATTRIBUTE, default=None)

    attributes: Attributes | None = None
    basic: Device | None = None
    """In ``v1beta1``, the attributes are one level deeper."""

    @property
    def driver_version(self) -> str:
        """Return the version that the device publishes, or empty."""
        attributes = self.attributes or (self.basic and self.basic.attributes)
        return (attributes and attributes.driver_version and attributes.driver_version.version) or ""


class ResourceSlice(Object):
    class Pool(Part):
        name: Text | None = None
        generation: Count | None = None

    class Spec(Part):
        node_name: Text | None = None
        pool: ResourceSlice.Pool | None = None
        devices: list[Device] | None = None

    spec: Spec | None = None


class DisruptionBudget(Object):
    class Spec(Part):
        selector: Selector | None = None

    class Status(Part):
        disruptions_allowed: Count | None = None

    metadata: Namespaced
    spec: Spec | None = None
    status: Status | None = None

    @property
    def exhausted(self) -> bool:
        """Return whether it allows no disruption now."""
        return not (self.status and self.status.disruptions_allowed)

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Return whether it protects a pod. Without a selector it protects none (K8S ``policy/v1``)."""
        selector = self.spec.selector if self.spec else None
        return namespace == self.metadata.namespace and selector is not None and selector.matches(labels)


class Identified(Part, kw_only=True):
    """An object of any kind that can be the target of Events."""

    class Meta(Part):
        uid: Name

    metadata: Meta


class Job(Identified, kw_only=True):
    class Status(Part):
        start_time: Time | None = None

    status: Status | None = None


class ApiGroup(Part):
    class Version(Part):
        version: Name

    preferred_version: Version | None = None
    versions: list[Version] | None = None
