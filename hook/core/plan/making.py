"""Make a plan from a snapshot: every selected stack, pool by pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Final

from hook.core import gates
from hook.core.fleet import index
from hook.core.plan import budget as budgets
from hook.core.plan import capacity, obstacles, reloads
from hook.core.plan.pools import split
from hook.core.plan.values import Answer, Plan, PoolPlan
from hook.core.reasons import Reason
from hook.core.together import chosen
from hook.settings import WhenAbsent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.plan.pools import Pool
    from hook.core.plan.values import Budget, Range
    from hook.core.plan.workloads import Workload
    from hook.core.verdicts import Hold
    from hook.objects.views import Snapshot
    from hook.settings import Settings

OPERATOR_START: Final = timedelta(minutes=1)
"""From the change of a policy to the first node. Measured: 22 s, with a new operator that first acquires its Lease."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Input of a plan in addition to the snapshot."""

    target: timedelta | None = None
    """The time within which all nodes are to be done, if the user asked for one."""
    workloads: Sequence[Workload] | None = None
    """Pods that use GPUs; None if they were not read."""
    unread: str = ""
    """Why the pods, or their PodDisruptionBudgets, were not read."""


def plan(seen: Mapping[str, Snapshot], settings: Settings, now: datetime, asked: Asked) -> Plan:
    """Plan an upgrade of every node of the selected stacks."""
    pools: list[PoolPlan] = []
    nothing: list[tuple[str, Reason, str]] = []
    # The upgrade does not depend on whether a plugin is installed already.
    regardless = replace(settings, when_absent=WhenAbsent.WAIT)
    for stack in chosen(settings):
        fleet = index(seen[stack.name], stack, regardless)
        found = _planned(fleet, now, asked)
        if isinstance(found, tuple):
            nothing.append((stack.name, *found))
        else:
            pools += found
    settling = OPERATOR_START + settings.operator_quiet + settings.policy_grace + settings.plugin_timeout
    return Plan(tuple(pools), tuple(nothing), settling.total_seconds())


def _planned(fleet: Fleet, now: datetime, asked: Asked) -> list[PoolPlan] | Hold:
    """Plan one stack, or return why there is nothing to plan."""
    if absent := gates.nothing_to_protect(fleet):
        return absent
    if fleet.policy is None:
        return _without_policy(fleet)
    pools = split(fleet, fleet.policy, now)
    if any(pool.nodes for pool in pools):
        return [_pool_plan(pool, asked) for pool in pools]
    left = [node for pool in pools for node in pool.left_alone]
    why = f": {left[0].node}: {left[0].message}" if left else ""
    message = (
        f"none of {len(left)} nodes with {fleet.stack.device} reloads a driver of the {fleet.stack.operator.title}"
    )
    return Reason.NO_ELIGIBLE_NODE, message + why


def _without_policy(fleet: Fleet) -> Hold:
    kind = fleet.stack.policy.kind
    for unreadable in fleet.seen.unreadable:
        if unreadable.kind == kind:
            return Reason.UNREADABLE, f"{kind} {unreadable.name}: {unreadable.problem}"
    return Reason.NO_POLICY, f"there is no {kind}, so no operator reloads drivers"


def _pool_plan(pool: Pool, asked: Asked) -> PoolPlan:
    cordoned = set(pool.cordoned)
    waiting = [name for name in pool.nodes if name not in cordoned]
    budget = budgets.budget(pool.policy, len(pool.managed), len(waiting), pool.lost, pool.stuck)
    measured = reloads.measured(pool.pods, pool.fleet)
    step = reloads.step(measured)
    lost = capacity.lost(pool, waiting, budget.at_once, step)
    found = PoolPlan(
        stack=pool.fleet.stack.name,
        name=pool.name,
        nodes=pool.nodes,
        left_alone=pool.left_alone,
        budget=budget,
        reloads=measured,
        step=step,
        batches=None if pool.manual else _turns(len(waiting), budget.at_once, first=bool(cordoned)),
        capacity=lost,
        obstacles=obstacles.of(pool, budget, measured, lost, asked.workloads, asked.unread),
    )
    if asked.target is None:
        return found
    return replace(found, answer=_answer(pool, waiting, budget, step, asked.target.total_seconds()))


def _turns(waiting: int, at_once: int, *, first: bool) -> int | None:
    """Count turns. Nodes that were cordoned before are upgraded in the first turn, in addition to the others."""
    if not waiting:
        return int(first)
    return ceil(waiting / at_once) if at_once else None


def _answer(pool: Pool, waiting: Sequence[str], budget: Budget, step: Range, target: float) -> Answer:
    """Find the lowest parallelism that finishes in time with slow steps."""
    if pool.manual:
        return Answer(target, None, f"no parallelism is enough: nothing rotates driver pods here ({pool.manual})")
    if target < step.slow:
        return Answer(target, None, f"no parallelism is enough: one slow node takes {step.slow:.0f} s")
    turns = int(target // step.slow)
    at_once = ceil(len(waiting) / turns)
    counts = {name: count for name, (count, _source) in capacity.of_nodes(pool).items()}
    enough = 0 < at_once <= budget.at_once or not waiting
    return Answer(
        target,
        at_once,
        "the current limits are enough" if enough else f"{len(waiting)} nodes in at most {turns} turns",
        change=not enough,
        parallel=at_once + len(budget.stuck),
        unavailable=at_once + len(budget.lost) if budget.unavailable else None,
        gpus=capacity.worst(counts, waiting, at_once),
    )
