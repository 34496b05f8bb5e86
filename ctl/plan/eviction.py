"""Which pods an upgrade controller cannot evict from a node, or drain.

The controller uses kubectl's drain helper for both (LIB ``pkg/upgrade/pod_manager.go``, ``drain_manager.go``). The
helper refuses a pod without a controller or with local data unless the policy allows it. It retries a pod that a
PodDisruptionBudget protects until the time is up. An eviction of GPU pods also refuses pods of a DaemonSet; a drain
passes over them, and over static pods. One refused pod fails the upgrade of its node. If GPU pods are refused and the
policy enables it, the node is drained instead.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hook.objects.decoding import NOTHING, Count, Labels, Reader, Text, Value, reads
from hook.objects.parts import Namespaced  # noqa: TC001
from hook.objects.scheduling import Requirement  # noqa: TC001 - msgspec reads the types

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


class _PodSpec(Value, frozen=True):
    node_name: Text | None = None
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class _PodStatus(Value, frozen=True):
    phase: Text = ""


class _Pod(Value, frozen=True):
    metadata: Namespaced
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Selector(Value, frozen=True):
    match_labels: Labels = NOTHING
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Return whether an object with these labels is selected. An empty selector selects every object."""
        exact = self.match_labels.items() <= labels.items()
        return exact and all(requirement.met_by(labels) for requirement in self.match_expressions)


class _BudgetSpec(Value, frozen=True):
    selector: _Selector | None = None


class _BudgetStatus(Value, frozen=True):
    disruptions_allowed: Count = 0


class DisruptionBudget(Value, frozen=True):
    """A PodDisruptionBudget."""

    metadata: Namespaced
    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    def selects(self, namespace: str, labels: Labels) -> bool:
        """Return whether it protects a pod. Without a selector it protects none (K8S ``policy/v1``)."""
        selector = self.spec.selector
        return namespace == self.metadata.namespace and selector is not None and selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Workload:
    """A running or pending pod that an upgrade removes from its node."""

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


@dataclass(frozen=True, slots=True)
class Pods:
    """What was read of pods."""

    with_gpus: Sequence[Workload] = ()
    drained: Mapping[str, Sequence[Workload]] = field(default_factory=dict)
    """By the selector of a drain: the pods that it selects."""
    unread: str = ""
    """Why pods, or their PodDisruptionBudgets, were not read."""


def reader(resources: tuple[str, ...] | None = None) -> Reader[Workload | None]:
    """Return a reader that keeps only scheduled pods that request such resources, or any, and have not ended."""
    return Reader(_Pod, partial(_workload, resources))


def _workload(resources: tuple[str, ...] | None, pod: _Pod) -> Workload | None:
    spec = pod.spec
    if not spec.node_name or pod.status.phase not in ("Pending", "Running"):
        return None
    if resources is not None and not any(container.requests_any(resources) for container in spec.containers):
        return None
    return Workload(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=spec.node_name,
        controller=pod.metadata.owner.kind,
        local_data=any(volume.empty_dir is not None for volume in spec.volumes),
        labels=pod.metadata.labels,
    )


@reads(DisruptionBudget)
def disruption_budget(budget: DisruptionBudget) -> DisruptionBudget | None:
    """Keep a PodDisruptionBudget only if it allows no disruption now."""
    return None if budget.status.disruptions_allowed else budget


def protected(pods: Iterable[Workload], budgets: Iterable[DisruptionBudget]) -> list[Workload]:
    """Record on each pod the exhausted budget that protects it."""
    exhausted = list(budgets)
    return [
        replace(pod, protected_by=budget.metadata.name)
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
