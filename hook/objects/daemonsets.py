"""DaemonSets of drivers and of plugins, and their ControllerRevisions."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates it
from typing import TYPE_CHECKING, Annotated, Final

from hook.objects import names
from hook.objects.decoding import NOTHING, Count, Labels, MalformedObjectError, Name, Text, Time, Value
from hook.objects.parts import OWNERS, Identified, Namespaced, Owners, Variable, owner, owner_uid
from hook.objects.scheduling import REQUIRED, Taint, Terms
from hook.objects.views import At, at, made, reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.objects.nodes import Node


class _Container(Value, frozen=True):
    name: Name
    image: Text = ""
    env: tuple[Variable, ...] = ()


class _Labelled(Value, frozen=True):
    labels: Labels = NOTHING


class _PodSpec(Value, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(Value, frozen=True):
    metadata: _Labelled = _Labelled()
    spec: _PodSpec = _PodSpec()


class _Status(Value, frozen=True):
    desired_number_scheduled: Count
    observed_generation: Count = 0


_Containers = tuple[_Container, ...]
CONTAINERS: Final = At(("spec", "template", "spec", "containers"), _Containers, ())


def _images(containers: _Containers) -> dict[str, str]:
    return {container.name: container.image for container in containers}


def _gates(containers: _Containers) -> tuple[str, ...]:
    """Return the feature gates that the containers of NVIDIA's DRA driver turn on."""
    variables = (variable for container in containers for variable in container.env)
    lists = (variable.value for variable in variables if variable.name == names.FEATURE_GATES_VARIABLE)
    pairs = (pair.partition("=") for gates in lists for pair in gates.split(","))
    return tuple(sorted({name.strip() for name, _equals, value in pairs if value.strip().lower() == "true"}))


def _owner_kind(owners: Owners) -> str:
    return owner(owners).kind


def _rolls(strategy: str) -> bool:
    return strategy != "OnDelete"


class DaemonSet(Identified, frozen=True):
    """A DaemonSet of drivers, prerequisites or driver clients."""

    generation: Annotated[Count, at("metadata", "generation")]
    owner_kind: Annotated[str, made(_owner_kind, OWNERS)]
    owner_uid: Annotated[str, made(owner_uid, OWNERS)]
    """The controlling owner: the policy that a driver DaemonSet was rendered from."""
    images: Annotated[Mapping[str, str], made(_images, CONTAINERS)]
    """By name of the main container."""
    gates: Annotated[tuple[str, ...], made(_gates, CONTAINERS)]
    """Feature gates that its containers turn on."""
    rolling: Annotated[bool, made(_rolls, At(("spec", "updateStrategy", "type"), Text, ""))]
    """Its controller replaces outdated pods."""
    labels: Annotated[Labels, at("metadata", "labels")] = NOTHING
    selector: Annotated[Labels, at("spec", "selector", "matchLabels")] = NOTHING
    template_labels: Annotated[Labels, at("spec", "template", "metadata", "labels")] = NOTHING
    node_selector: Annotated[Labels, at("spec", "template", "spec", "nodeSelector")] = NOTHING
    terms: Annotated[Terms, at("spec", "template", "spec", *REQUIRED)] = ()
    tolerations: Annotated[tuple[Taint, ...], at("spec", "template", "spec", "tolerations")] = ()
    status: Annotated[_Status, at("status")] = _Status(desired_number_scheduled=0)

    @property
    def desired(self) -> int:
        """Return on how many nodes its controller wants a pod."""
        return self.status.desired_number_scheduled

    @property
    def observed(self) -> bool:
        """Return whether the DaemonSet controller has seen this spec, so that its ControllerRevision exists."""
        return self.status.observed_generation == self.generation

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
        selected = self.node_selector.items() <= labels.items()
        matched = not self.terms or any(term.matches(node.name, labels) for term in self.terms)
        return selected and matched and self.untolerated(node) is None

    def untolerated(self, node: Node) -> Taint | None:
        """Return the first taint of a node that its pods do not tolerate."""
        taints = (taint for taint in node.taints if not any(each.tolerates(taint) for each in self.tolerations))
        return next(taints, None)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod with these labels is one of this DaemonSet's."""
        return bool(self.selector) and self.selector.items() <= labels.items()


def _revision_hash(labels: Labels) -> str:
    found = labels.get(names.REVISION_HASH_LABEL)
    if not found:
        raise MalformedObjectError(f"metadata.labels: no {names.REVISION_HASH_LABEL}")
    return found


class _Data(Value, frozen=True):
    class Spec(Value, frozen=True):
        template: _Template | None = None

    spec: Spec = Spec()


def _recorded(data: _Data | None) -> tuple[Labels, Mapping[str, str]] | None:
    template = data.spec.template if data is not None else None
    return (template.metadata.labels, _images(template.spec.containers)) if template is not None else None


class Revision(Namespaced, frozen=True):
    """A ControllerRevision of a DaemonSet."""

    owner_uid: Annotated[str, made(owner_uid, OWNERS)]
    hash: Annotated[str, made(_revision_hash, At(("metadata", "labels"), Labels, NOTHING))]
    """The pods that are made from it carry it as a label."""
    created: Annotated[Time, at("metadata", "creationTimestamp")]
    template: Annotated[tuple[Labels, Mapping[str, str]] | None, made(_recorded, At(("data",), _Data | None, None))]
    """Labels and images of the pod template that it records; None if the API server sent none."""
    revision: Annotated[Count, at("revision")] = 0

    def records(self, daemonset: DaemonSet) -> bool:
        """Return whether it can be the revision of the DaemonSet's current template."""
        return self.template in (None, (daemonset.template_labels, daemonset.images))


read_daemonset, read_revision = reader(DaemonSet), reader(Revision)
