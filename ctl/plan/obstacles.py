"""What would block or slow an upgrade: limits, nodes, pods, settings; with a remedy each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ctl.plan.eviction import refused_drain, refused_eviction
from ctl.plan.harm import harms
from ctl.plan.result import Finding, Obstacle, Severity
from ctl.plan.timing import REQUEUE
from hook.decide.reasons import Reason, explained, words
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctl.plan.eviction import Pods, Workload
    from ctl.plan.harm import PassthroughClaims
    from ctl.plan.pools import Pool
    from ctl.plan.result import Budget, PoolPlan


BLOCKS, SLOWS, NOTE = Severity.BLOCKS, Severity.SLOWS, Severity.NOTE


def obstacles(pool: Pool, plan: PoolPlan, pods: Pods, claims: PassthroughClaims) -> tuple[Finding, ...]:
    """List the obstacles of a pool. Those that block the upgrade come first."""
    found = [
        *_manual(pool),
        *_limits(pool, plan.budget),
        *_nodes(pool, plan.budget),
        *_pods(pool, pods),
        *harms(pool.fleet.context, claims),
        *_figures(pool, plan),
    ]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _manual(pool: Pool) -> Iterator[Finding]:
    if pool.manual and pool.nodes:
        yield Finding(
            Obstacle.AUTO_UPGRADE_OFF,
            BLOCKS,
            f"the operator does not replace driver pods here ({pool.manual}): {len(pool.nodes)} nodes wait for an "
            "administrator",
            f"set autoUpgrade in {pool.where}, or drain each node and delete its driver pod",
        )


def _limits(pool: Pool, budget: Budget) -> Iterator[Finding]:
    if not budget.at_once and pool.nodes:
        yield _used_up(pool, budget)
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
        f"repair or uncordon nodes, or set maxUnavailable in {pool.where}, such as 10 or 25%",
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
            explained(Reason.UPGRADE_FAILED, stack, budget.stuck[0]).steps,
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
            f"{some(cordoned)} cordoned: counted as unavailable for the whole upgrade; upgraded first, without a "
            "place. Uncordon them if new pods may run there again",
            f"kubectl uncordon {cordoned[0]}",
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
    pods = [pod.owner_uid for pod in pool.fleet.snapshot.driver_pods]
    for daemonset in (driver.daemonset for driver in pool.fleet.context.drivers.values()):
        if (there := pods.count(daemonset.uid)) != daemonset.desired:
            return f"{daemonset} wants {daemonset.desired} pods and has {there}"
    return ""


def _pods(pool: Pool, pods: Pods) -> Iterator[Finding]:
    if pods.unread and (pool.fleet.stack.upgrade.evicts or pool.policy.drain):
        message = f"the plan does not know (all) pods that cannot be removed from their node: {pods.unread}"
        yield Finding(Obstacle.PODS_NOT_READ, NOTE, message)
    refused = _refused(pool, pods.with_gpus, partial(refused_eviction, deletion=pool.policy.deletion))
    drained = set(pool.nodes)
    if pool.fleet.stack.upgrade.evicts:
        # A node is drained only if its GPU pods could not be evicted.
        drained &= {pod.node for pod, _why in refused}
        yield from _not_evictable(pool, refused)
    if pool.policy.drain is not None:
        every = pods.drained.get(pool.policy.drain.selector, ())
        refused = _refused(pool, every, partial(refused_drain, drain=pool.policy.drain))
        yield from _not_drainable(pool, [(pod, why) for pod, why in refused if pod.node in drained])


def _refused(pool: Pool, pods: Sequence[Workload], refuse: Callable[[Workload], str]) -> list[tuple[Workload, str]]:
    """Return the pods on a pool's nodes that cannot be removed, each with the reason."""
    nodes = set(pool.nodes)
    return [(pod, why) for pod in pods if pod.node in nodes and (why := refuse(pod))]


def _not_evictable(pool: Pool, refused: Sequence[tuple[Workload, str]]) -> Iterator[Finding]:
    if refused:
        then = "the node is drained instead" if pool.policy.drain else "the upgrade of the node fails"
        yield Finding(
            Obstacle.PODS_NOT_EVICTABLE,
            SLOWS if pool.policy.drain else BLOCKS,
            f"{len(refused)} GPU pods cannot be evicted, so {then} ({some(_nodes_of(refused))}); {_first(refused)}",
            f"delete them before the upgrade, or set podDeletion in {pool.where} "
            f"(Helm value driver.upgradePolicy.gpuPodDeletion)",
            _nodes_of(refused),
        )


def _not_drainable(pool: Pool, refused: Sequence[tuple[Workload, str]]) -> Iterator[Finding]:
    if refused:
        names = _nodes_of(refused)
        yield Finding(
            Obstacle.PODS_NOT_DRAINABLE,
            BLOCKS,
            f"{len(refused)} pods cannot be drained, so the upgrade of the node fails ({some(names)}); "
            f"{_first(refused)}",
            f"delete them before the upgrade, or set drain.force, drain.deleteEmptyDir or drain.podSelector in "
            f"{pool.where}",
            names,
        )


def _nodes_of(refused: Sequence[tuple[Workload, str]]) -> tuple[str, ...]:
    return tuple(sorted({pod.node for pod, _why in refused}))


def _first(refused: Sequence[tuple[Workload, str]]) -> str:
    pod, why = refused[0]
    return f"{pod} {why}"


def _figures(pool: Pool, plan: PoolPlan) -> Iterator[Finding]:
    """Yield what makes the figures less certain."""
    if malformed := pool.fleet.snapshot.malformed:
        first = malformed[0]
        message = f"{len(malformed)} malformed objects are ignored, such as {first.kind} {first.name}: {first.problem}"
        yield Finding(Obstacle.MALFORMED_OBJECT, NOTE, message)
    if pool.nodes and not plan.step.measured:
        message = (
            "the driver pods show no earlier upgrade, so a step is assumed to be one reload, rounded up to a multiple "
            f"of the {REQUEUE:.0f} s after which the upgrade controller checks again; evictions take additional time"
        )
        yield Finding(Obstacle.STEP_IS_ASSUMED, NOTE, message)
