"""Objects that plans read."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates it
from typing import TYPE_CHECKING, Any

from hook.objects.decoding import NOTHING, Count, Labels, Text, Value
from hook.objects.parts import Namespaced
from hook.objects.scheduling import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DisruptionBudget", "Namespaced", "Pod", "PodSpec", "Requirement", "Selector"]


class Resources(Value, frozen=True):
    limits: Mapping[str, Any] = NOTHING
    requests: Mapping[str, Any] = NOTHING


class Container(Value, frozen=True):
    resources: Resources = Resources()

    @property
    def resource_names(self) -> Iterable[str]:
        """Return the names of the resources that it requests."""
        return (*self.resources.limits, *self.resources.requests)


class Volume(Value, frozen=True):
    empty_dir: dict[str, Any] | None = None


class PodSpec(Value, frozen=True):
    node_name: Text | None = None
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()


class PodStatus(Value, frozen=True):
    phase: Text = ""


class Pod(Value, frozen=True):
    metadata: Namespaced
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Selector(Value, frozen=True):
    """A label selector."""

    match_labels: Labels = NOTHING
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether an object with these labels is selected. An empty selector selects every object."""
        exact = self.match_labels.items() <= labels.items()
        return exact and all(requirement.met_by(labels) for requirement in self.match_expressions)


class BudgetSpec(Value, frozen=True):
    selector: Selector | None = None


class BudgetStatus(Value, frozen=True):
    disruptions_allowed: Count = 0


class DisruptionBudget(Value, frozen=True):
    metadata: Namespaced
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def exhausted(self) -> bool:
        """Return whether it allows no disruption now."""
        return not self.status.disruptions_allowed

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Return whether it protects a pod. Without a selector it protects none (K8S ``policy/v1``)."""
        selector = self.spec.selector
        return namespace == self.metadata.namespace and selector is not None and selector.matches(labels)
