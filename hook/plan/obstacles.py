"""What would block or slow an upgrade: pods, disruption budgets, settings; with a remedy each.

The controller evicts with kubectl's drain helper (LIB ``pkg/upgrade/pod_manager.go``). The helper always refuses pods
of a DaemonSet. It refuses a pod without a controller or with local data unless the policy allows it. It retries a pod
that a PodDisruptionBudget protects until the time is up. One refused pod fails the upgrade of its node, or causes a
drain of the node if the policy enables that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hook.decide.explain import explained, words
from hook.decide.reasons import Reason
from hook.format import some
from hook.objects import wire
from hook.objects.decoding import Reader, reads
from hook.plan.result import Finding, Obstacle, Severity
from hook.plan.timing import REQUEUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hook.plan.limits import UpgradePolicy
    from hook.plan.pools import Pool
    from hook.plan.result import Budget, PoolPlan


BLOCKS, SLOWS, NOTE = Severity.BLOCKS, Severity.SLOWS, Severity.NOTE


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
    labels: dict[str, str] = field(default_factory=dict)
    protected_by: str = ""
    """A PodDisruptionBudget that allows no disruption now."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def reader(resources: tuple[str, ...]) -> Reader[Workload | None]:
    """Return a reader that keeps only scheduled pods that request such resources and have not ended."""
    return Reader(wire.Pod, partial(_workload, resources))


def _workload(resources: tuple[str, ...], pod: wire.Pod) -> Workload | None:
    spec = pod.spec or wire.PodSpec()
    if not spec.node_name or pod.status is None or pod.status.phase not in ("Pending", "Running"):
        return None
    if not any(name.startswith(resources) for container in spec.containers or () for name in container.resource_names):
        return None
    return Workload(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=spec.node_name,
        controller=pod.metadata.owner.kind or "",
        local_data=any(volume.empty_dir is not None for volume in spec.volumes or ()),
        labels=pod.metadata.labels or {},
    )


@reads(wire.DisruptionBudget)
def disruption_budget(budget: wire.DisruptionBudget) -> wire.DisruptionBudget | None:
    """Keep a PodDisruptionBudget only if it allows no disruption now."""
    return budget if budget.exhausted else None


def protected(pods: Iterable[Workload], budgets: Iterable[wire.DisruptionBudget]) -> list[Workload]:
    """Record on each pod the exhausted budget that protects it."""
    exhausted = list(budgets)
    return [
        replace(pod, protected_by=budget.metadata.name)
        if (budget := next((budget for budget in exhausted if budget.selects(pod.namespace, pod.labels)), None))
        else pod
        for pod in pods
    ]


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


def obstacles(pool: Pool, plan: PoolPlan, workloads: Sequence[Workload] | None, unread: str) -> tuple[Finding, ...]:
    """List the obstacles of a pool. Those that block the upgrade come first."""
    found = [
        *_manual(pool),
        *_limits(pool, plan.budget),
        *_nodes(pool, plan.budget),
        *_pods(pool, workloads, unread),
        *_figures(pool, plan),
    ]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _manual(pool: Pool) -> Iterator[Finding]:
    if pool.manual and pool.nodes:
        yield Finding(
            Obstacle.AUTO_UPGRADE_OFF,
            BLOCKS,
            f"nothing rotates driver pods here ({pool.manual}): {len(pool.nodes)} nodes wait for an administrator",
            f"set autoUpgrade in {pool.where}, or drain each node and delete its driver pod",
        )


def _limits(pool: Pool, budget: Budget) -> Iterator[Finding]:
    if budget.allowed is None:
        yield Finding(
            Obstacle.LIMIT_INVALID,
            BLOCKS,
            f"maxUnavailable {budget.unavailable} is neither a number nor a percentage: the upgrade controller stops",
            f"set maxUnavailable in {pool.where}, such as 10 or 25%",
        )
    elif not budget.at_once and pool.nodes:
        yield _used_up(pool, budget)
    if pool.policy.misplaced and budget.parallel == 1:
        yield Finding(
            Obstacle.LIMIT_ELSEWHERE,
            SLOWS,
            f"one node at a time: {', '.join(pool.policy.misplaced)} is set, but no upgrade controller reads it",
            f"set maxParallelUpgrades and maxUnavailable in {pool.where}",
        )
    if pool.policy.waits_for:
        limit = f"up to {pool.policy.wait_seconds} s" if pool.policy.wait_seconds else "without a time limit"
        yield Finding(
            Obstacle.WAITS_FOR_PODS,
            SLOWS,
            f"each node first waits ({limit}) until pods with {pool.policy.waits_for} complete; the plan ignores that",
        )


def _used_up(pool: Pool, budget: Budget) -> Finding:
    """Return the finding that no place is left, with the nodes that hold the places."""
    if budget.stuck and 0 < budget.parallel <= len(budget.stuck):
        message = f"failed nodes hold all {budget.parallel} places (maxParallelUpgrades): {some(budget.stuck)}"
        return Finding(Obstacle.LIMIT_USED_UP, BLOCKS, message, "put the failed nodes back", budget.stuck)
    taken = f", and {len(budget.lost)} are unavailable already: {some(budget.lost)}" if budget.lost else ""
    limit = f"maxUnavailable {budget.unavailable}" if budget.unavailable else "no limit"
    message = f"{limit} allows {budget.allowed} of {budget.total} nodes to be unavailable{taken}: no node can begin"
    return Finding(
        Obstacle.LIMIT_USED_UP,
        BLOCKS,
        message,
        f"repair or uncordon them, or raise maxUnavailable in {pool.where}",
        budget.lost,
    )


def _nodes(pool: Pool, budget: Budget) -> Iterator[Finding]:
    stack = pool.fleet.stack
    if missing := _incomplete(pool):
        yield Finding(
            Obstacle.DRIVER_PODS_MISSING,
            BLOCKS,
            f"{missing}: the upgrade controller upgrades no node while a driver pod is missing",
            f"kubectl get daemonsets,pods -A -l {words(stack)['drivers']} -o wide",
        )
    if budget.stuck:
        yield Finding(
            Obstacle.UPGRADE_FAILED,
            BLOCKS,
            f"the last upgrade failed on {some(budget.stuck)}: not upgraded, and each one keeps a place",
            explained(Reason.UPGRADE_FAILED, budget.stuck[0], stack=stack).steps,
            budget.stuck,
        )
    silent = tuple(name for name in pool.managed if (node := pool.node(name)) is not None and not node.ready)
    if silent:
        yield Finding(
            Obstacle.NODES_NOT_READY,
            BLOCKS,
            f"{some(silent)} NotReady: counted as unavailable, and such a node keeps the place that it gets",
            f"kubectl describe node {silent[0]}",
            silent,
        )
    if cordoned := tuple(name for name in budget.lost if name not in (*silent, *budget.stuck)):
        yield Finding(
            Obstacle.NODES_CORDONED,
            SLOWS,
            f"{some(cordoned)} cordoned: counted as unavailable for the whole upgrade; upgraded first, without a place",
            f"Look: kubectl describe node {cordoned[0]} "
            f"To fix, if new pods may run there again: kubectl uncordon {cordoned[0]}",
            cordoned,
        )
    yield from _not_upgraded(pool)


def _not_upgraded(pool: Pool) -> Iterator[Finding]:
    """Yield the nodes that the upgrade passes over, and those that an upgrade in progress has not reached."""
    if pool.excluded:
        reasons = sorted({excluded.reason.value for excluded in pool.excluded})
        names = tuple(excluded.node for excluded in pool.excluded)
        yield Finding(
            Obstacle.NODES_LEFT_ALONE, NOTE, f"not upgraded: {some(names)} ({', '.join(reasons)})", nodes=names
        )
    if to_come := tuple(pool.to_come):
        message = f"an upgrade is in progress, {some(to_come)} remaining; the plan is for a complete upgrade"
        yield Finding(Obstacle.UPGRADE_UNDER_WAY, NOTE, message, nodes=to_come)


def _incomplete(pool: Pool) -> str:
    """Name a driver DaemonSet whose number of pods is not the desired one (LIB ``BuildState``)."""
    pods = [pod.owner_uid for on_node in pool.fleet.driver_pods.values() for pod in on_node]
    for daemonset in pool.fleet.drivers.values():
        if (there := pods.count(daemonset.uid)) != daemonset.desired:
            return f"{daemonset} wants {daemonset.desired} pods and has {there}"
    return ""


def _pods(pool: Pool, workloads: Sequence[Workload] | None, unread: str) -> Iterator[Finding]:
    if not pool.fleet.stack.upgrade.evicts:
        return
    if unread:
        message = f"the plan does not know (all) GPU pods that cannot be evicted: {unread}"
        yield Finding(Obstacle.PODS_NOT_READ, NOTE, message)
    nodes = set(pool.nodes)
    refused = [(pod, why) for pod in workloads or () if pod.node in nodes and (why := refusal(pod, pool.policy))]
    if not refused:
        return
    names = tuple(sorted({pod.node for pod, _why in refused}))
    then = "the node is drained instead" if pool.policy.drains else "the upgrade of the node fails"
    first, why = refused[0]
    message = f"{len(refused)} GPU pods cannot be evicted, so {then} ({some(names)}); {first} {why}"
    yield Finding(
        Obstacle.PODS_NOT_EVICTABLE,
        SLOWS if pool.policy.drains else BLOCKS,
        message,
        f"delete them before the upgrade, or set podDeletion in {pool.where}",
        names,
    )


def _figures(pool: Pool, plan: PoolPlan) -> Iterator[Finding]:
    """Yield what makes the figures less certain."""
    if malformed := pool.fleet.snapshot.malformed:
        first = malformed[0]
        message = f"{len(malformed)} malformed objects are ignored, such as {first.kind} {first.name}: {first.problem}"
        yield Finding(Obstacle.MALFORMED_OBJECT, NOTE, message)
    if not pool.nodes:
        return
    if not pool.fleet.plugins.named:
        message = f"no {pool.fleet.stack.plugin.noun} is installed, so none becomes stale"
        yield Finding(Obstacle.NO_PLUGIN, NOTE, message)
    if plan.reloads.loading is None:
        pods = f"none of {plan.reloads.pods} driver pods"
        message = f"{pods} shows how long its driver took: a reload may be longer than a step"
        yield Finding(Obstacle.RELOADS_UNKNOWN, NOTE, message)
    if plan.step.measured is None:
        message = (
            "the driver pods show no earlier upgrade, so a step is assumed to be one reload, rounded up to a multiple "
            f"of the {REQUEUE:.0f} s after which the upgrade controller checks again; evictions take additional time"
        )
        yield Finding(Obstacle.STEP_IS_ASSUMED, NOTE, message)
    if unknown := plan.capacity.unknown:
        message = f"the number of GPUs in {some(unknown)} is unknown and counts as zero"
        yield Finding(Obstacle.GPUS_UNKNOWN, NOTE, message, nodes=unknown)
