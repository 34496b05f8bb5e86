"""Obstacles of an upgrade: what blocks it, slows it, or makes the plan less certain; each with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.core.plan.reloads import REQUEUE
from hook.core.plan.values import Obstacle, Severity, Warned
from hook.core.plan.workloads import refusal
from hook.core.reason import explained, words
from hook.core.reasons import Reason
from hook.core.sentences import some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.core.plan.pools import Pool
    from hook.core.plan.values import Budget, Capacity, Reloads
    from hook.core.plan.workloads import Workload

BLOCKS, SLOWS, NOTE = Severity.BLOCKS, Severity.SLOWS, Severity.NOTE


def of(  # noqa: PLR0913, PLR0917 - everything that a plan is made of
    pool: Pool,
    budget: Budget,
    reloads: Reloads,
    capacity: Capacity,
    workloads: Sequence[Workload] | None,
    unread: str,
) -> tuple[Warned, ...]:
    """List the obstacles of a pool. Those that block the upgrade come first."""
    found = [
        *_manual(pool),
        *_limits(pool, budget),
        *_nodes(pool, budget),
        *_pods(pool, workloads, unread),
        *_figures(pool, reloads, capacity),
    ]
    return tuple(sorted(found, key=lambda warned: list(Severity).index(warned.severity)))


def _manual(pool: Pool) -> Iterator[Warned]:
    if pool.manual and pool.nodes:
        yield Warned(
            Obstacle.AUTO_UPGRADE_OFF,
            BLOCKS,
            f"nothing rotates driver pods here ({pool.manual}): {len(pool.nodes)} nodes wait for an administrator",
            f"set autoUpgrade in {pool.where}, or drain each node and delete its driver pod",
        )


def _limits(pool: Pool, budget: Budget) -> Iterator[Warned]:
    if budget.allowed is None:
        yield Warned(
            Obstacle.LIMIT_INVALID,
            BLOCKS,
            f"maxUnavailable {budget.unavailable} is neither a number nor a percentage: the upgrade controller stops",
            f"set maxUnavailable in {pool.where}, such as 10 or 25%",
        )
    elif not budget.at_once and pool.nodes:
        yield _used_up(pool, budget)
    if pool.policy.elsewhere and budget.parallel == 1:
        yield Warned(
            Obstacle.LIMIT_ELSEWHERE,
            SLOWS,
            f"one node at a time: {', '.join(pool.policy.elsewhere)} is set, but no upgrade controller reads it",
            f"set maxParallelUpgrades and maxUnavailable in {pool.where}",
        )
    if pool.policy.waits_for:
        limit = f"up to {pool.policy.wait_seconds} s" if pool.policy.wait_seconds else "without a time limit"
        yield Warned(
            Obstacle.WAITS_FOR_PODS,
            SLOWS,
            f"each node first waits ({limit}) until pods with {pool.policy.waits_for} complete; the plan ignores that",
        )


def _used_up(pool: Pool, budget: Budget) -> Warned:
    """Return what takes all places, with the nodes to look at."""
    if budget.stuck and 0 < budget.parallel <= len(budget.stuck):
        message = f"failed nodes hold all {budget.parallel} places (maxParallelUpgrades): {some(budget.stuck)}"
        return Warned(Obstacle.LIMIT_USED_UP, BLOCKS, message, "put the failed nodes back", budget.stuck)
    taken = f", and {len(budget.lost)} are unavailable already: {some(budget.lost)}" if budget.lost else ""
    limit = f"maxUnavailable {budget.unavailable}" if budget.unavailable else "no limit"
    message = f"{limit} allows {budget.allowed} of {budget.total} nodes to be unavailable{taken}: no node can begin"
    return Warned(
        Obstacle.LIMIT_USED_UP,
        BLOCKS,
        message,
        f"repair or uncordon them, or raise maxUnavailable in {pool.where}",
        budget.lost,
    )


def _nodes(pool: Pool, budget: Budget) -> Iterator[Warned]:
    stack = pool.fleet.stack
    if missing := _incomplete(pool):
        yield Warned(
            Obstacle.DRIVER_PODS_MISSING,
            BLOCKS,
            f"{missing}: the upgrade controller upgrades no node while a driver pod is missing",
            f"kubectl get daemonsets,pods -A -l {words(stack)['drivers']} -o wide",
        )
    if budget.stuck:
        yield Warned(
            Obstacle.UPGRADE_FAILED,
            BLOCKS,
            f"the last upgrade failed on {some(budget.stuck)}: not upgraded, and each one keeps a place",
            explained(Reason.UPGRADE_FAILED, budget.stuck[0], stack=stack).steps,
            budget.stuck,
        )
    silent = tuple(name for name in pool.managed if (node := pool.node(name)) is not None and not node.ready)
    if silent:
        yield Warned(
            Obstacle.NODES_NOT_READY,
            BLOCKS,
            f"{some(silent)} NotReady: counted as unavailable, and such a node keeps the place that it gets",
            f"kubectl describe node {silent[0]}",
            silent,
        )
    if cordoned := tuple(name for name in budget.lost if name not in (*silent, *budget.stuck)):
        yield Warned(
            Obstacle.NODES_CORDONED,
            SLOWS,
            f"{some(cordoned)} cordoned: counted as unavailable for the whole upgrade; upgraded first, without a place",
            f"Look: kubectl describe node {cordoned[0]} "
            f"To fix, if new pods may run there again: kubectl uncordon {cordoned[0]}",
            cordoned,
        )
    yield from _not_upgraded(pool)


def _not_upgraded(pool: Pool) -> Iterator[Warned]:
    """Yield the nodes that the upgrade passes over, and those that an upgrade in progress has not reached."""
    if pool.left_alone:
        reasons = sorted({excluded.reason.value for excluded in pool.left_alone})
        names = tuple(excluded.node for excluded in pool.left_alone)
        yield Warned(
            Obstacle.NODES_LEFT_ALONE, NOTE, f"not upgraded: {some(names)} ({', '.join(reasons)})", nodes=names
        )
    if to_come := tuple(pool.to_come):
        message = f"an upgrade is in progress, {some(to_come)} remaining; the plan is for a complete upgrade"
        yield Warned(Obstacle.UPGRADE_UNDER_WAY, NOTE, message, nodes=to_come)


def _incomplete(pool: Pool) -> str:
    """Name a driver DaemonSet whose number of pods is not the desired one (LIB ``BuildState``)."""
    pods = [pod.owner_uid for on_node in pool.fleet.driver_pods.values() for pod in on_node]
    for daemonset in pool.fleet.drivers.values():
        if (there := pods.count(daemonset.uid)) != daemonset.desired:
            return f"{daemonset} wants {daemonset.desired} pods and has {there}"
    return ""


def _pods(pool: Pool, workloads: Sequence[Workload] | None, unread: str) -> Iterator[Warned]:
    if not pool.fleet.stack.upgrade.evicts:
        return
    if unread:
        message = f"the plan does not know (all) GPU pods that cannot be evicted: {unread}"
        yield Warned(Obstacle.PODS_NOT_READ, NOTE, message)
    nodes = set(pool.nodes)
    refused = [(pod, why) for pod in workloads or () if pod.node in nodes and (why := refusal(pod, pool.policy))]
    if not refused:
        return
    names = tuple(sorted({pod.node for pod, _why in refused}))
    then = "the node is drained instead" if pool.policy.drains else "the upgrade of the node fails"
    first, why = refused[0]
    message = f"{len(refused)} GPU pods cannot be evicted, so {then} ({some(names)}); {first} {why}"
    yield Warned(
        Obstacle.PODS_NOT_EVICTABLE,
        SLOWS if pool.policy.drains else BLOCKS,
        message,
        f"delete them before the upgrade, or set podDeletion in {pool.where}",
        names,
    )


def _figures(pool: Pool, reloads: Reloads, capacity: Capacity) -> Iterator[Warned]:
    """Yield what makes the figures less certain."""
    if unreadable := pool.fleet.seen.unreadable:
        first = unreadable[0]
        message = f"{len(unreadable)} malformed objects are ignored, such as {first.kind} {first.name}: {first.problem}"
        yield Warned(Obstacle.UNREADABLE, NOTE, message)
    if not pool.nodes:
        return
    if not pool.fleet.consumers.named:
        yield Warned(
            Obstacle.NO_CONSUMER, NOTE, f"no {pool.fleet.stack.consumer.noun} is installed, so none becomes stale"
        )
    if reloads.loading is None:
        message = (
            f"none of {reloads.pods} driver pods shows how long its driver took: a reload may be longer than a step"
        )
        yield Warned(Obstacle.RELOADS_UNKNOWN, NOTE, message)
    if reloads.steps is None:
        message = (
            "the driver pods show no earlier upgrade, so a step is assumed to be one reload, rounded up to a multiple "
            f"of the {REQUEUE:.0f} s after which the upgrade controller checks again; evictions take additional time"
        )
        yield Warned(Obstacle.STEP_IS_ASSUMED, NOTE, message)
    if capacity.unknown:
        message = f"the number of GPUs in {some(capacity.unknown)} is unknown and counts as zero"
        yield Warned(Obstacle.GPUS_UNKNOWN, NOTE, message, nodes=capacity.unknown)
