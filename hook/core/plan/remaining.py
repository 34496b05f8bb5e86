"""How long the nodes that are not served yet will take: by this fleet's own reloads, as many at once as now."""

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
"""The most that a healthy plugin takes to come back after its node's driver has settled (10 to 40 s)."""


def about(fleets: Mapping[str, Fleet], decision: Decision, settings: Settings, now: datetime) -> int | None:
    """Give seconds, of all stacks; None where a node waits for a person, so that nobody can tell."""
    to_go = [one for one in decision.judgements if one.state not in TERMINAL]
    if not to_go:
        return 0
    if any(one.state is NodeState.FAILED for one in to_go):
        return None
    longest = 0.0
    for stack, fleet in fleets.items():
        waiting = _without_driver(one for one in to_go if one.stack == stack)
        for pool in split(fleet, fleet.policy, now) if fleet.policy is not None else ():
            seconds = _reloading([name for name in pool.all_nodes if name in waiting], pool)
            if seconds is None:
                return None
            longest = max(longest, seconds)
    stale = sum(bool(one.consumer) for one in to_go)
    return round(longest) + max(1, ceil(stale / _plugins_at_once(len(decision.judgements), settings))) * PLUGIN_SECONDS


def _plugins_at_once(total: int, settings: Settings) -> int:
    bounds = [settings.max_parallel_restarts, settings.max_unavailable.of(total) if settings.max_unavailable else 0]
    return min((bound for bound in bounds if bound), default=total)


def _without_driver(judgements: Iterable[Judgement]) -> frozenset[str]:
    """Give the nodes that were judged no further than their driver."""
    return frozenset(one.node for one in judgements if not one.consumer)


def _reloading(waiting: list[str], pool: Pool) -> float | None:
    """Give seconds until the drivers of these nodes are reloaded: turns of so many at once as the policy lets."""
    if not waiting:
        return 0.0
    stuck = set(pool.stuck) | {one.node for one in pool.left_alone}
    if pool.manual or stuck & set(waiting):
        return None
    budget = budgets.budget(pool.policy, len(pool.managed), len(waiting), pool.lost, pool.stuck)
    if not budget.at_once:
        return None
    return ceil(len(waiting) / budget.at_once) * reloads.step(reloads.measured(pool.pods, pool.fleet)).typical
