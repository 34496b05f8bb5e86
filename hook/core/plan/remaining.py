"""Estimate how long the remaining nodes take, from this fleet's own reloads and current limits."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from hook.core.gates import TERMINAL
from hook.core.plan import budget as budgets
from hook.core.plan import reloads
from hook.core.plan.pools import split
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.plan.pools import Pool
    from hook.core.verdicts import Decision, Judgement
    from hook.settings import Settings

PLUGIN_SECONDS: Final = 40
"""The longest time that a healthy plugin takes to become verified after its node's driver has settled (10 to 40 s)."""


def about(fleets: Mapping[str, Fleet], decision: Decision, settings: Settings, now: datetime) -> int | None:
    """Return the remaining seconds of all stacks; None if a node waits for an administrator."""
    remaining = [judged for judged in decision.judgements if judged.state not in TERMINAL]
    if not remaining:
        return 0
    if any(judged.state is NodeState.FAILED for judged in remaining):
        return None
    longest = 0.0
    for stack, fleet in fleets.items():
        waiting = _without_driver(judged for judged in remaining if judged.stack == stack)
        for pool in split(fleet, fleet.policy, now) if fleet.policy is not None else ():
            seconds = _reloading([name for name in pool.all_nodes if name in waiting], pool)
            if seconds is None:
                return None
            longest = max(longest, seconds)
    stale = sum(bool(judged.consumer) for judged in remaining)
    return round(longest) + max(1, ceil(stale / _plugins_at_once(len(decision.judgements), settings))) * PLUGIN_SECONDS


def _plugins_at_once(total: int, settings: Settings) -> int:
    bounds = [settings.max_parallel_restarts, settings.max_unavailable.of(total) if settings.max_unavailable else 0]
    return min((bound for bound in bounds if bound), default=total)


def _without_driver(judgements: Iterable[Judgement]) -> frozenset[str]:
    """Return the nodes whose driver is not settled."""
    return frozenset(judged.node for judged in judgements if not judged.consumer)


def _reloading(waiting: list[str], pool: Pool) -> float | None:
    """Return the seconds until the drivers of these nodes are reloaded, in turns of as many as the policy allows."""
    if not waiting:
        return 0.0
    stuck = set(pool.stuck) | {excluded.node for excluded in pool.left_alone}
    if pool.manual or stuck & set(waiting):
        return None
    budget = budgets.budget(pool.policy, len(pool.managed), len(waiting), pool.lost, pool.stuck)
    if not budget.at_once:
        return None
    return ceil(len(waiting) / budget.at_once) * reloads.step(reloads.measured(pool.pods, pool.fleet)).typical
