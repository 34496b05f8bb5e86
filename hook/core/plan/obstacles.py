"""What would keep an upgrade from going on, slow it, or make the plan less sure; each with what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.core.messages import explained, words
from hook.core.plan.reloads import REQUEUE
from hook.core.plan.values import Obstacle, Severity, Warned
from hook.core.plan.workloads import refusal
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
    """List the obstacles of a pool, what blocks first."""
    found = [
        *_manual(pool),
        *_limits(pool, budget),
        *_nodes(pool, budget),
        *_pods(pool, workloads, unread),
        *_figures(pool, reloads, capacity),
    ]
    return tuple(sorted(found, key=lambda one: list(Severity).index(one.severity)))


def _manual(pool: Pool) -> Iterator[Warned]:
    if pool.manual and pool.nodes:
        yield Warned(
            Obstacle.AUTO_UPGRADE_OFF,
            BLOCKS,
            f"nothing rotates driver pods here ({pool.manual}): each of {len(pool.nodes)} nodes waits for a person",
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
            f"one node at a time, although {', '.join(pool.policy.elsewhere)} is set: no upgrade controller reads that",
            f"set maxParallelUpgrades and maxUnavailable in {pool.where}",
        )
    if pool.policy.waits_for:
        forever = "without an end" if not pool.policy.wait_seconds else f"up to {pool.policy.wait_seconds} s"
        yield Warned(
            Obstacle.WAITS_FOR_PODS,
            SLOWS,
            f"each node first waits, {forever}, for pods with {pool.policy.waits_for} to complete; that is not planned",
        )


def _used_up(pool: Pool, budget: Budget) -> Warned:
    """Say by what all places are taken; the nodes are what to look at."""
    if budget.stuck and 0 < budget.parallel <= len(budget.stuck):
        message = f"all {budget.parallel} places (maxParallelUpgrades) are held by failed nodes: {some(budget.stuck)}"
        return Warned(Obstacle.LIMIT_USED_UP, BLOCKS, message, "put the failed nodes back", budget.stuck)
    taken = f", and {len(budget.lost)} are unavailable already: {some(budget.lost)}" if budget.lost else ""
    limit = f"maxUnavailable {budget.unavailable}" if budget.unavailable else "no limit"
    message = f"{limit} lets {budget.allowed} of {budget.total} nodes be unavailable{taken}: no node can begin"
    return Warned(
        Obstacle.LIMIT_USED_UP,
        BLOCKS,
        message,
        f"uncordon or mend them, or raise maxUnavailable in {pool.where}",
        budget.lost,
    )


def _nodes(pool: Pool, budget: Budget) -> Iterator[Warned]:
    stack = pool.fleet.stack
    if missing := _incomplete(pool):
        yield Warned(
            Obstacle.DRIVER_PODS_MISSING,
            BLOCKS,
            f"{missing}: the upgrade controller does nothing, on any node, while a driver pod is missing",
            f"kubectl get daemonsets,pods -A -l {words(stack)['drivers']} -o wide",
        )
    if budget.stuck:
        yield Warned(
            Obstacle.UPGRADE_FAILED,
            BLOCKS,
            f"the last upgrade failed on {some(budget.stuck)}: not upgraded, and a place each is taken",
            explained(Reason.UPGRADE_FAILED, budget.stuck[0], stack=stack).steps,
            budget.stuck,
        )
    silent = tuple(name for name in pool.managed if (node := pool.node(name)) is not None and not node.ready)
    if silent:
        yield Warned(
            Obstacle.NODES_NOT_READY,
            BLOCKS,
            f"{some(silent)} NotReady: counted as unavailable, and a place that such a node gets is not given back",
            f"kubectl describe node {silent[0]}",
            silent,
        )
    if cordoned := tuple(name for name in budget.lost if name not in (*silent, *budget.stuck)):
        yield Warned(
            Obstacle.NODES_CORDONED,
            SLOWS,
            f"{some(cordoned)} cordoned: counted as unavailable for the whole upgrade; upgraded first, in no place",
            f"Look: kubectl describe node {cordoned[0]} "
            f"To fix, if new pods may run there again: kubectl uncordon {cordoned[0]}",
            cordoned,
        )
    yield from _not_upgraded(pool)


def _not_upgraded(pool: Pool) -> Iterator[Warned]:
    """Tell of nodes that this upgrade passes over, or of which the one that is under way has passed some."""
    if pool.left_alone:
        reasons = sorted({one.reason.value for one in pool.left_alone})
        names = tuple(one.node for one in pool.left_alone)
        yield Warned(
            Obstacle.NODES_LEFT_ALONE, NOTE, f"not upgraded: {some(names)} ({', '.join(reasons)})", nodes=names
        )
    if to_come := tuple(pool.to_come):
        message = f"an upgrade is going on, {some(to_come)} to come; the plan is for a whole one"
        yield Warned(Obstacle.UPGRADE_UNDER_WAY, NOTE, message, nodes=to_come)


def _incomplete(pool: Pool) -> str:
    """Name a driver DaemonSet with fewer, or more, pods than it wants (LIB ``BuildState``)."""
    pods = [pod.owner_uid for on_node in pool.fleet.driver_pods.values() for pod in on_node]
    for daemonset in pool.fleet.drivers.values():
        if (there := pods.count(daemonset.uid)) != daemonset.desired:
            return f"{daemonset} wants {daemonset.desired} pods and has {there}"
    return ""


def _pods(pool: Pool, workloads: Sequence[Workload] | None, unread: str) -> Iterator[Warned]:
    if not pool.fleet.stack.upgrade.evicts:
        return
    if unread:
        message = f"whether GPU pods would be evicted was not, or not wholly, looked at: {unread}"
        yield Warned(Obstacle.PODS_NOT_READ, NOTE, message)
    nodes = set(pool.nodes)
    refused = [(pod, why) for pod in workloads or () if pod.node in nodes and (why := refusal(pod, pool.policy))]
    if not refused:
        return
    names = tuple(sorted({pod.node for pod, _why in refused}))
    then = "drains the node instead" if pool.policy.drains else "fails the node"
    first, why = refused[0]
    message = f"{len(refused)} GPU pods would not be evicted, which {then} ({some(names)}); {first} {why}"
    yield Warned(
        Obstacle.PODS_NOT_EVICTABLE,
        SLOWS if pool.policy.drains else BLOCKS,
        message,
        f"delete them before, or set podDeletion in {pool.where}",
        names,
    )


def _figures(pool: Pool, reloads: Reloads, capacity: Capacity) -> Iterator[Warned]:
    """Say what makes the figures less sure."""
    if unreadable := pool.fleet.seen.unreadable:
        one = unreadable[0]
        message = (
            f"{len(unreadable)} objects cannot be read and do not count, such as {one.kind} {one.name}: {one.problem}"
        )
        yield Warned(Obstacle.UNREADABLE, NOTE, message)
    if not pool.nodes:
        return
    if not pool.fleet.consumers.named:
        yield Warned(
            Obstacle.NO_CONSUMER, NOTE, f"no {pool.fleet.stack.consumer.noun} is installed, so none turns stale"
        )
    if reloads.loading is None:
        message = (
            f"none of {reloads.pods} driver pods tells how long its driver took: a reload may be longer than a step"
        )
        yield Warned(Obstacle.RELOADS_UNKNOWN, NOTE, message)
    if reloads.steps is None:
        message = (
            "no upgrade of this fleet can be seen in its driver pods, so a step is taken to be a reload, rounded up to "
            f"the {REQUEUE:.0f} s after which the upgrade controller looks again; evictions come on top"
        )
        yield Warned(Obstacle.STEP_IS_ASSUMED, NOTE, message)
    if capacity.unknown:
        message = f"nothing says how many GPUs are in {some(capacity.unknown)}: they count as none"
        yield Warned(Obstacle.GPUS_UNKNOWN, NOTE, message, nodes=capacity.unknown)
