"""Pods that use GPUs, and which of them the upgrade controller would not evict.

It evicts with kubectl's drain helper (LIB ``pkg/upgrade/pod_manager.go``): a pod without a controller or with local
data is refused unless the policy says otherwise, a DaemonSet's pod always; one that a PodDisruptionBudget protects is
tried until the time is up. One refused pod fails its whole node, or drains it where the policy has that on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.core.fields import flag, items, mapping, number, required, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hook.core.fields import Json
    from hook.objects.policy import UpgradePolicy


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod that runs, or is about to, and asks for GPUs."""

    namespace: str
    name: str
    node: str
    controller: str
    """Kind of its controlling owner; empty where it has none."""
    local_data: bool
    """It has an ``emptyDir`` volume."""
    labels: Mapping[str, str] = field(default_factory=dict)
    protected_by: str = ""
    """A PodDisruptionBudget that allows no disruption now."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def reader(resources: tuple[str, ...]) -> Callable[[Json], Workload | None]:
    """Give a reader that keeps only pods which ask for such resources, on a node, and are not over."""

    def read(obj: Json) -> Workload | None:
        node = text(obj, "spec", "nodeName")
        if not node or text(obj, "status", "phase") not in ("Pending", "Running"):
            return None
        if not any(name.startswith(resources) for name in _resources(obj)):
            return None
        owners = items(obj, "metadata", "ownerReferences")
        return Workload(
            namespace=required(obj, "metadata", "namespace"),
            name=required(obj, "metadata", "name"),
            node=node,
            controller=next((text(one, "kind") for one in owners if flag(one, "controller", default=False)), ""),
            local_data=any("emptyDir" in volume for volume in items(obj, "spec", "volumes")),
            labels={key: text(obj, "metadata", "labels", key) for key in mapping(obj, "metadata", "labels")},
        )

    return read


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a label selector (K8S ``LabelSelectorRequirement``)."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod's labels meet it; an operator that nobody knows is not met."""
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
        """Whether the pod is one of its pods."""
        return pod.namespace == self.namespace and all(one.holds(pod.labels) for one in self.selector)


def protection(obj: Json) -> Protection | None:
    """Read a PodDisruptionBudget; None where it allows a disruption, or has no selector (K8S: no pods then)."""
    if number(obj, "status", "disruptionsAllowed") > 0 or mapping(obj, "spec").get("selector") is None:
        return None
    wanted = mapping(obj, "spec", "selector", "matchLabels")
    exact = (Requirement(key, "In", frozenset({text(wanted, key)})) for key in wanted)
    further = (
        Requirement(text(one, "key"), text(one, "operator"), _values(one.get("values")))
        for one in items(obj, "spec", "selector", "matchExpressions")
    )
    return Protection(required(obj, "metadata", "namespace"), required(obj, "metadata", "name"), (*exact, *further))


def _values(found: object) -> frozenset[str]:
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def protected(pods: Iterable[Workload], protections: Iterable[Protection]) -> list[Workload]:
    """Note on each pod what protects it."""
    known = list(protections)
    found = ((pod, next((one.name for one in known if one.protects(pod)), "")) for pod in pods)
    return [replace(pod, protected_by=name) for pod, name in found]


def refusal(pod: Workload, policy: UpgradePolicy) -> str:
    """Say why a pod would not be evicted; or empty."""
    if pod.controller == "DaemonSet":
        return "belongs to a DaemonSet, whose pods are not evicted"
    if pod.local_data and not policy.delete_empty_dir:
        return "has an emptyDir volume (podDeletion.deleteEmptyDir is off)"
    if not pod.controller and not policy.force:
        return "has no controller (podDeletion.force is off)"
    if pod.protected_by:
        return f"is protected by PodDisruptionBudget {pod.protected_by}, which allows no disruption now"
    return ""


def _resources(obj: Json) -> Iterator[str]:
    for container in items(obj, "spec", "containers"):
        yield from mapping(container, "resources", "limits")
        yield from mapping(container, "resources", "requests")
