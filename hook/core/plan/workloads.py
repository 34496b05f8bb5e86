"""Find pods that use GPUs, and those that the upgrade controller cannot evict.

The controller evicts with kubectl's drain helper (LIB ``pkg/upgrade/pod_manager.go``). The helper always refuses pods
of a DaemonSet. It refuses a pod without a controller or with local data unless the policy allows it. It retries a pod
that a PodDisruptionBudget protects until the time is up. One refused pod fails the upgrade of its node, or causes a
drain of the node if the policy enables that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hook.objects import wire
from hook.objects.decoding import Reader, reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.objects.policies import UpgradePolicy


@dataclass(frozen=True, slots=True)
class Workload:
    """A running or pending pod that requests GPUs."""

    namespace: str
    name: str
    node: str
    controller: str
    """Kind of its controlling owner; empty if it has none."""
    local_data: bool
    """It has an ``emptyDir`` volume."""
    labels: Mapping[str, str] = field(default_factory=dict)
    protected_by: str = ""
    """A PodDisruptionBudget that allows no disruption now."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def reader(resources: tuple[str, ...]) -> Reader[Workload | None]:
    """Return a reader that keeps only pods which ask for such resources, on a node, and are not over."""
    return Reader(wire.Pod, partial(_workload, resources))


def _workload(resources: tuple[str, ...], pod: wire.Pod) -> Workload | None:
    spec = pod.spec or wire.PodSpec()
    if not spec.node_name or pod.status is None or pod.status.phase not in ("Pending", "Running"):
        return None
    if not any(name.startswith(resources) for container in spec.containers or () for name in container.asked):
        return None
    return Workload(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=spec.node_name,
        controller=pod.metadata.owner.kind or "",
        local_data=any(volume.empty_dir is not None for volume in spec.volumes or ()),
        labels=pod.metadata.labels or {},
    )


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a label selector (K8S ``LabelSelectorRequirement``)."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod's labels meet the requirement. An unknown operator is never met."""
        there = self.key in labels
        return {
            "In": there and labels.get(self.key, "") in self.values,
            "NotIn": labels.get(self.key) not in self.values,
            "Exists": there,
            "DoesNotExist": not there,
        }.get(self.operator, False)


@dataclass(frozen=True, slots=True)
class Protection:
    """A PodDisruptionBudget that allows no disruption now."""

    namespace: str
    name: str
    selector: tuple[Requirement, ...]

    def protects(self, pod: Workload) -> bool:
        """Return whether this budget selects the pod."""
        return pod.namespace == self.namespace and all(line.holds(pod.labels) for line in self.selector)


@reads(wire.DisruptionBudget)
def protection(budget: wire.DisruptionBudget) -> Protection | None:
    """Read a PodDisruptionBudget; None where it allows a disruption, or has no selector (K8S: no pods then)."""
    allowed = budget.status.disruptions_allowed if budget.status is not None else None
    if allowed or budget.spec is None or budget.spec.selector is None:
        return None
    selector = budget.spec.selector
    exact = (Requirement(key, "In", frozenset({value})) for key, value in (selector.match_labels or {}).items())
    further = (
        Requirement(each.key or "", each.operator or "", frozenset(each.values or ()))
        for each in selector.match_expressions or ()
    )
    return Protection(budget.metadata.namespace, budget.metadata.name, (*exact, *further))


def protected(pods: Iterable[Workload], protections: Iterable[Protection]) -> list[Workload]:
    """Record on each pod the budget that protects it."""
    known = list(protections)
    found = ((pod, next((budget.name for budget in known if budget.protects(pod)), "")) for pod in pods)
    return [replace(pod, protected_by=name) for pod, name in found]


def refusal(pod: Workload, policy: UpgradePolicy) -> str:
    """Return why the upgrade controller cannot evict a pod; empty if it can."""
    if pod.controller == "DaemonSet":
        return "belongs to a DaemonSet, whose pods are not evicted"
    if pod.local_data and not policy.delete_empty_dir:
        return "has an emptyDir volume (podDeletion.deleteEmptyDir is off)"
    if not pod.controller and not policy.force:
        return "has no controller (podDeletion.force is off)"
    if pod.protected_by:
        return f"is protected by PodDisruptionBudget {pod.protected_by}, which allows no disruption now"
    return ""
