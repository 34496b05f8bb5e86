"""DaemonSets of drivers and of plugins, and their ControllerRevisions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hook.objects import names
from hook.objects.decoding import NOTHING, Count, Labels, MalformedObjectError, Name, Text, Time, Value, reads
from hook.objects.parts import Identified, Labelled, Namespaced, Variable
from hook.objects.scheduling import Affinity, Taint, Term
from hook.objects.sharing import utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from hook.objects.nodes import Node


class DaemonSet(Value, frozen=True):
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
    terms: tuple[Term, ...] = ()
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
        yield from (requirement.key for term in self.terms for requirement in term.match_expressions if requirement.key)

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


class Template(Value, frozen=True):
    """What is read of a pod template."""

    labels: frozenset[tuple[str, str]]
    images: frozenset[tuple[str, str]]
    """Name and image of each main container."""

    @classmethod
    def of(cls, labels: Mapping[str, str], images: Mapping[str, str]) -> Template:
        """Return the template with these labels and images."""
        return cls(frozenset(labels.items()), frozenset(images.items()))


class Revision(Value, frozen=True):
    """A ControllerRevision of a DaemonSet."""

    namespace: str
    name: str
    owner_uid: str
    revision: int
    hash: str
    """The pods that are made from it carry it as a label."""
    created: datetime
    template: Template | None = None
    """The pod template that it records; None if the API server sent none."""

    def records(self, daemonset: DaemonSet) -> bool:
        """Return whether it can be the revision of the DaemonSet's current template."""
        return self.template in (None, Template.of(daemonset.template_labels, daemonset.images))


class _Container(Value, frozen=True):
    name: Name
    image: Text = ""
    env: tuple[Variable, ...] = ()


class _PodSpec(Value, frozen=True):
    containers: tuple[_Container, ...] = ()
    node_selector: Labels = NOTHING
    tolerations: tuple[Taint, ...] = ()
    affinity: Affinity = Affinity()

    @property
    def images(self) -> dict[str, str]:
        """Return the image of each main container."""
        return {container.name: container.image for container in self.containers}

    @property
    def gates(self) -> Iterator[str]:
        """Yield the feature gates that the containers of NVIDIA's DRA driver turn on."""
        variables = (variable for container in self.containers for variable in container.env)
        lists = (variable.value for variable in variables if variable.name == names.FEATURE_GATES_VARIABLE)
        pairs = (pair.partition("=") for gates in lists for pair in gates.split(","))
        return (name.strip() for name, _equals, value in pairs if value.strip().lower() == "true")


class _Template(Value, frozen=True):
    metadata: Labelled = Labelled()
    spec: _PodSpec = _PodSpec()


class _Selector(Value, frozen=True):
    match_labels: Labels = NOTHING


class _Strategy(Value, frozen=True):
    type: Text = ""


class _Spec(Value, frozen=True):
    selector: _Selector = _Selector()
    template: _Template = _Template()
    update_strategy: _Strategy = _Strategy()


class _Status(Value, frozen=True):
    desired_number_scheduled: Count
    observed_generation: Count = 0


class _Metadata(Identified, frozen=True, kw_only=True):
    generation: Count


class _DaemonSet(Value, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status(desired_number_scheduled=0)


@reads(_DaemonSet)
def read_daemonset(decoded: _DaemonSet) -> DaemonSet:
    """Read a DaemonSet."""
    metadata, spec, status = decoded.metadata, decoded.spec, decoded.status
    pods = spec.template.spec
    return DaemonSet(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        observed_generation=status.observed_generation,
        desired=status.desired_number_scheduled,
        owner_kind=metadata.owner.kind,
        owner_uid=metadata.owner.uid,
        labels={key: value for key, value in metadata.labels.items() if key in names.DAEMONSET_LABELS},
        selector=tuple(sorted(spec.selector.match_labels.items())),
        template_labels=spec.template.metadata.labels,
        node_selector=pods.node_selector,
        terms=pods.affinity.terms,
        images=pods.images,
        tolerations=pods.tolerations,
        rolling=spec.update_strategy.type != "OnDelete",
        gates=tuple(sorted(set(pods.gates))),
    )


class _Data(Value, frozen=True):
    class Spec(Value, frozen=True):
        template: _Template | None = None

    spec: Spec = Spec()


class _RevisionMetadata(Namespaced, frozen=True, kw_only=True):
    creation_timestamp: Time


class _Revision(Value, frozen=True):
    metadata: _RevisionMetadata
    revision: Count = 0
    data: _Data | None = None


@reads(_Revision)
def read_revision(decoded: _Revision) -> Revision:
    """Read a ControllerRevision."""
    metadata = decoded.metadata
    revision_hash = metadata.labels.get(names.REVISION_HASH_LABEL)
    if not revision_hash:
        raise MalformedObjectError(f"metadata.labels: no {names.REVISION_HASH_LABEL}")
    template = decoded.data.spec.template if decoded.data else None
    return Revision(
        namespace=metadata.namespace,
        name=metadata.name,
        owner_uid=metadata.owner.uid,
        revision=decoded.revision,
        hash=revision_hash,
        created=utc(metadata.creation_timestamp),
        template=Template.of(template.metadata.labels, template.spec.images) if template else None,
    )
