"""Which pods an upgrade controller cannot evict from a node, or drain.

The controller uses kubectl's drain helper for both (LIB ``pkg/upgrade/pod_manager.go``, ``drain_manager.go``). The
helper refuses a pod without a controller or with local data unless the policy allows it. It retries a pod that a
PodDisruptionBudget protects until the time is up. An eviction of GPU pods also refuses pods of a DaemonSet; a drain
passes over them, and over static pods. One refused pod fails the upgrade of its node. If GPU pods are refused and the
policy enables it, the node is drained instead.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec.structs import replace

from hook.objects.decoding import NOTHING, Count, Labels, Reader, Text, Value
from hook.objects.parts import OWNERS, Namespaced, Owners, owner
from hook.objects.scheduling import Requirement  # noqa: TC001 - msgspec reads the types
from hook.objects.views import At, at, made, reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctl.plan.limits import Removal

DAEMONSET: Final = "DaemonSet"
STATIC: Final = "Node"
"""Kind of the owner of a static pod's mirror (K8S ``pkg/kubelet/pod/mirror_client.go``)."""


class _Resources(Value, frozen=True):
    limits: Mapping[str, Any] = NOTHING
    requests: Mapping[str, Any] = NOTHING


class _Container(Value, frozen=True):
    resources: _Resources = _Resources()

    def requests_any(self, resources: tuple[str, ...]) -> bool:
        """Return whether it requests a resource whose name begins so."""
        return any(name.startswith(resources) for name in (*self.resources.limits, *self.resources.requests))


class _Volume(Value, frozen=True):
    empty_dir: dict[str, Any] | None = None


_Containers = tuple[_Container, ...]
_Volumes = tuple[_Volume, ...]


class _Selector(Value, frozen=True):
    match_labels: Labels = NOTHING
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether an object with these labels is selected. An empty selector selects every object."""
        exact = self.match_labels.items() <= labels.items()
        return exact and all(requirement.met_by(labels) for requirement in self.match_expressions)


class DisruptionBudget(Namespaced, frozen=True):
    """A PodDisruptionBudget."""

    selector: Annotated[_Selector | None, at("spec", "selector")] = None
    allowed: Annotated[Count, at("status", "disruptionsAllowed")] = 0

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Return whether it protects a pod. Without a selector it protects none (K8S ``policy/v1``)."""
        return namespace == self.namespace and self.selector is not None and self.selector.matches(labels)


def _controller(owners: Owners) -> str:
    return owner(owners).kind


def _has_local_data(volumes: _Volumes) -> bool:
    return any(volume.empty_dir is not None for volume in volumes)


class Workload(Namespaced, frozen=True):
    """A running or pending pod that an upgrade removes from its node."""

    controller: Annotated[str, made(_controller, OWNERS)]
    """Kind of its controlling owner; empty if it has none."""
    local_data: Annotated[bool, made(_has_local_data, At(("spec", "volumes"), _Volumes, ()))]
    """It has an ``emptyDir`` volume."""
    node: Annotated[Text, at("spec", "nodeName")] = ""
    containers: Annotated[_Containers, at("spec", "containers")] = ()
    phase: Annotated[Text, at("status", "phase")] = ""
    labels: Annotated[Labels, at("metadata", "labels")] = NOTHING
    protected_by: str = ""
    """A PodDisruptionBudget that allows no disruption now."""


@dataclass(frozen=True, slots=True)
class Pods:
    """What was read of pods."""

    with_gpus: Sequence[Workload] = ()
    drained: Mapping[str, Sequence[Workload]] = field(default_factory=dict)
    """By the selector of a drain: the pods that it selects."""
    unread: str = ""
    """Why pods, or their PodDisruptionBudgets, were not read."""


def workload_reader(resources: tuple[str, ...] | None = None) -> Reader[Workload | None]:
    """Return a reader that keeps only scheduled pods that request such resources, or any, and have not ended."""

    def keep(pod: Workload) -> Workload | None:
        if not pod.node or pod.phase not in ("Pending", "Running"):
            return None
        if resources is not None and not any(container.requests_any(resources) for container in pod.containers):
            return None
        return pod

    return reader(Workload).keeping(keep)


def _exhausted(budget: DisruptionBudget) -> DisruptionBudget | None:
    return None if budget.allowed else budget


disruption_budget: Final = reader(DisruptionBudget).keeping(_exhausted)
"""Reader of the PodDisruptionBudgets that allow no disruption now."""


def protected(pods: Iterable[Workload], budgets: Iterable[DisruptionBudget]) -> list[Workload]:
    """Record on each pod the exhausted budget that protects it."""
    exhausted = list(budgets)
    return [
        replace(pod, protected_by=budget.name)
        if (budget := next((budget for budget in exhausted if budget.selects(pod.namespace, pod.labels)), None))
        else pod
        for pod in pods
    ]


def refused_eviction(pod: Workload, deletion: Removal) -> str:
    """Return why the upgrade controller cannot evict a GPU pod; empty if it can."""
    if pod.controller == DAEMONSET:
        return "belongs to a DaemonSet, whose pods are not evicted"
    return _refused(pod, deletion, "podDeletion.{0} is off, in Helm gpuPodDeletion.{0}")


def refused_drain(pod: Workload, drain: Removal) -> str:
    """Return why the upgrade controller cannot drain a pod; empty if it can, or if a drain passes over it."""
    return "" if pod.controller in (DAEMONSET, STATIC) else _refused(pod, drain, "drain.{0} is off")


def _refused(pod: Workload, options: Removal, off: str) -> str:
    if pod.local_data and not options.delete_empty_dir:
        return f"has an emptyDir volume ({off.format('deleteEmptyDir')})"
    if not pod.controller and not options.force:
        return f"has no controller ({off.format('force')})"
    if pod.protected_by:
        return f"is protected by PodDisruptionBudget {pod.protected_by}, which allows no disruption now"
    return ""
