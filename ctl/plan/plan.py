"""Plan an upgrade: its duration, its cost, and what would block it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as updated

from ctl.plan import pools, timing
from ctl.plan.eviction import Pods
from ctl.plan.harm import PassthroughClaims
from ctl.plan.obstacles import obstacles
from ctl.plan.result import NoPlan, Plan, PoolPlan, Range, Target, Timeouts
from hook import __version__
from hook.decide import end
from hook.decide.fleet import index
from hook.decide.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ctl.plan.pools import Pool
    from ctl.plan.result import Budget, Step
    from hook.decide.fleet import Fleet
    from hook.decide.result import Blocker
    from hook.objects import Snapshot
    from hook.settings import Settings

OPERATOR_START: Final = timedelta(minutes=1)
"""From the change of a policy to the first node. Measured: 22 s, with a new operator that first acquires its Lease."""
ALLOWANCE_SECONDS: Final = 120
"""Time in which the deployment tool deletes the previous Job, and the kubelet pulls the image and starts the pod. The
chart's NOTES use the same number."""
ROUNDED_TO_SECONDS: Final = 300
"""Timeouts are multiples of five minutes, because they are estimates."""


@dataclass(frozen=True, slots=True)
class Options:
    """Input of a plan in addition to the snapshot."""

    target: timedelta | None = None
    """The time within which all nodes are to be done, if the user asked for one."""
    pods: Pods = field(default_factory=Pods)
    claims: PassthroughClaims = field(default_factory=PassthroughClaims)


def make_plan(snapshot: Snapshot, settings: Settings, now: datetime, options: Options) -> Plan:
    """Plan an upgrade of every node."""
    found = _pools(index(snapshot, settings), now)
    if not isinstance(found, list):
        return Plan(__version__, None, None, NoPlan(*found), ())
    planned = tuple(_pool_plan(pool, options) for pool in found)
    windows = [pool.window for pool in planned if pool.window is not None]
    window = None
    if len(windows) == len(planned):
        window = Range(max(window.typical for window in windows), max(window.slow for window in windows))
    return Plan(__version__, window, None if window is None else _timeouts(window, settings), None, planned)


def _pools(fleet: Fleet, now: datetime) -> list[Pool] | Blocker:
    """Return the pools, or why there is nothing to plan."""
    absent = end.nothing_to_protect(fleet.context)
    if absent is not None and absent[0] is Reason.NO_PLUGIN:
        # The upgrade does not depend on whether a plugin is installed already.
        absent = end.no_driver(fleet.context)
    if absent is not None:
        return absent
    if fleet.policy is None:
        return _without_policy(fleet)
    if withdrawn := end.withdrawn(fleet.context):
        return withdrawn
    found = pools.split(fleet, fleet.policy, now)
    if any(pool.nodes for pool in found):
        return found
    excluded = [node for pool in found for node in pool.excluded]
    why = f": {excluded[0].node}: {excluded[0].message}" if excluded else ""
    nodes = f"none of {len(excluded)} nodes with {fleet.stack.device}"
    return Reason.NO_ELIGIBLE_NODE, f"{nodes} reloads a driver of the {fleet.stack.operator.title}{why}"


def _without_policy(fleet: Fleet) -> Blocker:
    kind = fleet.stack.policy.kind
    for malformed in fleet.snapshot.malformed:
        if malformed.kind == kind:
            return Reason.MALFORMED_OBJECT, f"{kind} {malformed.name}: {malformed.problem}"
    return Reason.NO_POLICY, f"there is no {kind}, so no operator reloads drivers"


def _pool_plan(pool: Pool, options: Options) -> PoolPlan:
    waiting = _waiting(pool)
    budget = pool.budget(len(waiting))
    reload, step = timing.measure(pool)
    turns = None if pool.manual and pool.nodes else _turns(len(waiting), budget.at_once, first=bool(pool.cordoned))
    plan = PoolPlan(
        name=pool.name,
        nodes=pool.nodes,
        excluded=pool.excluded,
        budget=budget,
        reload=reload,
        step=step,
        turns=turns,
        window=None if turns is None else step.times(turns),
        capacity=pools.capacity(pool, waiting, budget.at_once),
        target=None if options.target is None else _target(pool, waiting, budget, step, options.target),
    )
    return updated(plan, obstacles=obstacles(pool, plan, options.pods, options.claims))


def _waiting(pool: Pool) -> list[str]:
    """Return the nodes that need a place. Those that were cordoned before need none."""
    cordoned = set(pool.cordoned)
    return [name for name in pool.nodes if name not in cordoned]


def _turns(waiting: int, at_once: int, *, first: bool) -> int | None:
    """Count turns. Nodes that were cordoned before are upgraded in the first turn, in addition to the others."""
    if not waiting:
        return int(first)
    return ceil(waiting / at_once) if at_once else None


def _target(pool: Pool, waiting: Sequence[str], budget: Budget, step: Step, window: timedelta) -> Target:
    """Find the lowest parallelism that finishes in time with slow steps."""
    seconds = window.total_seconds()
    if pool.manual and pool.nodes:
        return Target(seconds, f"no parallelism is enough: the operator does not replace driver pods ({pool.manual})")
    if seconds < step.slow:
        return Target(seconds, f"no parallelism is enough: one slow node takes {step.slow:.0f} s")
    turns = int(seconds // step.slow)
    at_once = ceil(len(waiting) / turns)
    enough = 0 < at_once <= budget.at_once or not waiting
    return Target(
        seconds,
        "the current limits are enough" if enough else f"{len(waiting)} nodes in at most {turns} turns",
        at_once=at_once,
        change=not enough,
        parallel=at_once + len(budget.stuck),
        unavailable=at_once + len(budget.lost) if budget.unavailable else None,
        away=pools.capacity(pool, waiting, at_once).away,
    )


def _timeouts(window: Range, settings: Settings) -> Timeouts:
    """Return the timeouts. None is shorter than the chart's default, because a longer one has no cost."""
    settling = settings.advanced.operator_quiet + settings.advanced.policy_grace + settings.plugin_timeout
    needed = window.slow + (OPERATOR_START + settling).total_seconds()
    chart = max(ceil(needed / ROUNDED_TO_SECONDS) * ROUNDED_TO_SECONDS, settings.timeout.total_seconds())
    return Timeouts(chart, chart + ALLOWANCE_SECONDS)


def remaining_seconds(fleet: Fleet, now: datetime) -> float | None:
    """Return how long an upgrade in progress will take; None if no node waits, or the upgrade never ends by itself."""
    longest = 0.0
    for pool in pools.split(fleet, fleet.policy, now) if fleet.policy is not None else ():
        left = len(pool.to_come)
        at_once = pool.budget(left).at_once
        if left and (pool.manual or pool.stuck or not at_once):
            return None
        longest = max(longest, ceil(left / max(at_once, 1)) * timing.measure(pool)[1].typical)
    return longest or None
