"""Plan an upgrade: its duration, its cost, and what would block it.

The schema ``docs/plan.schema.json`` describes the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.config import OnMissingPlugin
from hook.decide import done
from hook.decide.decide import chosen
from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.format import aligned, as_text, clean
from hook.plan import obstacles, timing
from hook.plan import pools as budgets
from hook.plan.pools import split
from hook.plan.result import Answer, Plan, PoolPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Fleet
    from hook.decide.result import Blocker
    from hook.objects.views import Snapshot
    from hook.plan.obstacles import Workload
    from hook.plan.pools import Pool
    from hook.plan.result import Budget, Capacity, Range, Reloads, Spread

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


def make_plan(seen: Mapping[str, Snapshot], settings: Settings, now: datetime, asked: Asked) -> Plan:
    """Plan an upgrade of every node of the selected stacks."""
    pools: list[PoolPlan] = []
    nothing: list[tuple[str, Reason, str]] = []
    # The upgrade does not depend on whether a plugin is installed already.
    regardless = replace(settings, on_missing_plugin=OnMissingPlugin.WAIT)
    for stack in chosen(settings):
        fleet = index(seen[stack.name], regardless, stack)
        found = _planned(fleet, now, asked)
        if isinstance(found, tuple):
            nothing.append((stack.name, *found))
        else:
            pools += found
    settling = OPERATOR_START + settings.operator_quiet + settings.policy_grace + settings.plugin_timeout
    return Plan(tuple(pools), tuple(nothing), settling.total_seconds())


def _planned(fleet: Fleet, now: datetime, asked: Asked) -> list[PoolPlan] | Blocker:
    """Plan one stack, or return why there is nothing to plan."""
    if absent := done.nothing_to_protect(fleet.context):
        return absent
    if fleet.policy is None:
        return _without_policy(fleet)
    pools = split(fleet, fleet.policy, now)
    if any(pool.nodes for pool in pools):
        return [_pool_plan(pool, asked) for pool in pools]
    left = [node for pool in pools for node in pool.excluded]
    why = f": {left[0].node}: {left[0].message}" if left else ""
    message = (
        f"none of {len(left)} nodes with {fleet.stack.device} reloads a driver of the {fleet.stack.operator.title}"
    )
    return Reason.NO_ELIGIBLE_NODE, message + why


def _without_policy(fleet: Fleet) -> Blocker:
    kind = fleet.stack.policy.kind
    for malformed in fleet.seen.malformed:
        if malformed.kind == kind:
            return Reason.MALFORMED_OBJECT, f"{kind} {malformed.name}: {malformed.problem}"
    return Reason.NO_POLICY, f"there is no {kind}, so no operator reloads drivers"


def _pool_plan(pool: Pool, asked: Asked) -> PoolPlan:
    cordoned = set(pool.cordoned)
    waiting = [name for name in pool.nodes if name not in cordoned]
    budget = budgets.budget(pool.policy, len(pool.managed), len(waiting), pool.lost, pool.stuck)
    measured = timing.measured(pool.pods, pool.fleet)
    step = timing.step(measured)
    lost = budgets.lost(pool, waiting, budget.at_once, step)
    found = PoolPlan(
        stack=pool.fleet.stack.name,
        name=pool.name,
        nodes=pool.nodes,
        excluded=pool.excluded,
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
    counts = {name: count for name, (count, _source) in budgets.of_nodes(pool).items()}
    enough = 0 < at_once <= budget.at_once or not waiting
    return Answer(
        target,
        at_once,
        "the current limits are enough" if enough else f"{len(waiting)} nodes in at most {turns} turns",
        change=not enough,
        parallel=at_once + len(budget.stuck),
        unavailable=at_once + len(budget.lost) if budget.unavailable else None,
        gpus=budgets.worst(counts, waiting, at_once),
    )


ALLOWANCE_SECONDS: Final = 120
"""Time in which the deployment tool deletes the previous Job, and the kubelet pulls the image and starts the pod. The
chart's NOTES use the same number."""
ROUND_SECONDS: Final = 300
"""Timeouts are multiples of five minutes, because they are estimates."""
LABEL_WIDTH: Final = 10
OBSTACLES: Final = ("SEVERITY", "OBSTACLE", "POOL", "MESSAGE")


def table(plan: Plan, settings: Settings) -> list[str]:
    """Return the lines for users."""
    lines: list[str] = []
    for stack, reason, message in plan.nothing:
        lines += [f"{stack}: nothing to plan ({reason}): {message}", ""]
    for pool in plan.pools:
        lines += [f"{pool.stack}: {pool.name}", *(f"  {label:<{LABEL_WIDTH}} {text}" for label, text in _facts(pool))]
        lines.append("")
    warned = [(pool.name, obstacle) for pool in plan.pools for obstacle in pool.obstacles]
    rows = [(obstacle.severity, obstacle.obstacle, name, obstacle.message) for name, obstacle in warned]
    lines += [*aligned([OBSTACLES, *rows]), ""] if rows else []
    lines += [f"Next ({obstacle.obstacle}): {obstacle.remedy}" for _name, obstacle in warned if obstacle.remedy]
    lines += _conclusion(plan, settings)
    return [clean(line) for line in lines]


def as_json(plan: Plan, settings: Settings) -> dict[str, Any]:
    """Return everything, for programs."""
    return {
        "version": __version__,
        "window": _range(plan.window),
        "timeouts": timeouts(plan, settings),
        "nothing": [{"stack": stack, "reason": reason, "message": message} for stack, reason, message in plan.nothing],
        "pools": [_pool(pool) for pool in plan.pools],
    }


def timeouts(plan: Plan, settings: Settings) -> dict[str, Any] | None:
    """Return the timeouts for the chart and for each deployment tool; None if no time is enough.

    No timeout is shorter than the chart's default, because a longer one has no cost.
    """
    if plan.run_seconds is None:
        return None
    inner = max(ceil(plan.run_seconds / ROUND_SECONDS) * ROUND_SECONDS, int(settings.timeout.total_seconds()))
    outer = inner + ALLOWANCE_SECONDS
    longest = max((pool.step.slow for pool in plan.pools), default=0)
    stalls = longest >= settings.stall_timeout.total_seconds() > 0
    return {
        "timeout": _duration(inner),
        "stallTimeout": _duration(ceil(2 * longest / ROUND_SECONDS) * ROUND_SECONDS) if stalls else None,
        "helm": f"--timeout {_duration(outer)}",
        "helmfile": f"timeout: {outer}",
        "flux": f"timeout: {_duration(outer)}",
        "argocd": None,
    }


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that fits, as Helm and Flux read it."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if seconds % size == 0)
    return f"{seconds // size}{unit}"


def _conclusion(plan: Plan, settings: Settings) -> list[str]:
    if not plan.pools:
        return []
    found = timeouts(plan, settings)
    if plan.window is None or found is None:
        return ["Window: no end without manual action; a pool above does not finish, so no timeout is enough."]
    stall = f", stallTimeout {found['stallTimeout']}" if found["stallTimeout"] else ""
    chart = f"this chart's timeout {found['timeout']}{stall}"
    tools = f"Helm {found['helm']}; helmfile {found['helmfile']}; Flux {found['flux']}; Argo CD has none by default"
    return [f"Window: {_both(plan.window)}.", f"Timeouts: {chart}; {tools}."]


def _facts(pool: PoolPlan) -> Iterator[tuple[str, str]]:
    left = f"; {len(pool.excluded)} excluded" if pool.excluded else ""
    yield "nodes", f"{len(pool.nodes)} reload{left}"
    yield "at once", _limits(pool)
    yield "a reload", _reload(pool.reloads)
    steps = pool.reloads.steps
    how = f"measured: {steps.samples} steps of the last upgrade" if steps else "assumed, see below"
    yield "a step", f"{_both(pool.step)} ({how})"
    turns = "1 turn" if pool.batches == 1 else f"{pool.batches} turns"
    window = f"{_both(pool.window)} ({turns})" if pool.window else "no end without manual action"
    yield "window", window
    yield "capacity", _capacity(pool.capacity)
    if pool.answer is not None:
        yield f"in {_time(pool.answer.seconds)}", _target(pool.answer)


def _limits(pool: PoolPlan) -> str:
    budget = pool.budget
    parallel = f"maxParallelUpgrades {budget.parallel or '0, no limit'}"
    unavailable = f", maxUnavailable {budget.unavailable}, {budget.allowed} of {budget.total} nodes"
    lost = f", {len(budget.lost)} of them already unavailable" if budget.lost else ""
    return f"{budget.at_once} ({parallel}{unavailable if budget.unavailable else ''}{lost})"


def _reload(reloads: Reloads) -> str:
    if reloads.loading is None:
        return f"unknown: none of {reloads.pods} driver pods shows it"
    samples = f"{reloads.loading.samples} of {reloads.pods} driver pods"
    loading = f"{_spread(reloads.loading)} from the driver container's start to Ready ({samples})"
    if reloads.whole is None:
        return f"{loading}; unloading unknown"
    return f"{loading}; {_spread(reloads.whole)} with unloading ({reloads.whole.samples})"


def _capacity(capacity: Capacity) -> str:
    if not capacity.sources:
        return "unknown: no node shows how many GPUs it has"
    sources = ", ".join(f"{source}: {count} nodes" for source, count in capacity.sources.items())
    hours = f", {capacity.hours.typical:.1f} GPU-hours in all" if capacity.hours else ""
    share = f"at most {capacity.at_once} of {capacity.gpus} GPUs unavailable at once ({capacity.percent:.1f} %)"
    return f"{share}{hours} ({sources})"


def _target(answer: Answer) -> str:
    if answer.at_once is None:
        return answer.reason
    gpus = f", {answer.gpus} GPUs unavailable" if answer.gpus else ""
    if not answer.change:
        return f"{answer.reason}: {answer.at_once} at once{gpus}"
    unavailable = f" and maxUnavailable {answer.unavailable} or more" if answer.unavailable else ""
    return f"{answer.at_once} at once: set maxParallelUpgrades {answer.parallel}{unavailable} ({answer.reason}{gpus})"


def _pool(pool: PoolPlan) -> dict[str, Any]:
    reloads = pool.reloads
    return {
        "stack": pool.stack,
        "name": pool.name,
        "nodes": list(pool.nodes),
        "leftAlone": [
            {"node": excluded.node, "reason": excluded.reason, "message": excluded.message}
            for excluded in pool.excluded
        ],
        "limits": _json_limits(pool.budget),
        "reload": {
            "pods": reloads.pods,
            "loading": _json_spread(reloads.loading),
            "withUnloading": _json_spread(reloads.whole),
        },
        "step": {"measured": _json_spread(reloads.steps), **(_range(pool.step) or {})},
        "turns": pool.batches,
        "window": _range(pool.window),
        "capacity": _json_capacity(pool.capacity),
        "obstacles": [
            {
                "obstacle": warned.obstacle,
                "severity": warned.severity,
                "message": warned.message,
                "remedy": warned.remedy,
                "nodes": list(warned.nodes),
            }
            for warned in pool.obstacles
        ],
        "target": _json_target(pool.answer),
    }


def _json_limits(budget: Budget) -> dict[str, Any]:
    return {
        "maxParallelUpgrades": budget.parallel,
        "maxUnavailable": budget.unavailable or None,
        "maxUnavailableNodes": budget.allowed,
        "managedNodes": budget.total,
        "unavailable": list(budget.lost),
        "failed": list(budget.stuck),
        "atOnce": budget.at_once,
    }


def _json_capacity(capacity: Capacity) -> dict[str, Any]:
    return {
        "gpus": capacity.gpus,
        "gpusAway": capacity.at_once,
        "percent": round(capacity.percent, 2),
        "gpuHours": _hours(capacity.hours),
        "sources": dict(capacity.sources),
        "unknownNodes": list(capacity.unknown),
    }


def _json_target(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "seconds": answer.seconds,
        "possible": answer.at_once is not None,
        "change": answer.change,
        "atOnce": answer.at_once,
        "maxParallelUpgrades": answer.parallel,
        "maxUnavailable": answer.unavailable,
        "gpusAway": answer.gpus,
        "reason": answer.reason,
    }


def _range(value: Range | None) -> dict[str, float] | None:
    return None if value is None else {"typicalSeconds": value.typical, "slowSeconds": value.slow}


def _hours(value: Range | None) -> dict[str, float] | None:
    return None if value is None else {"typical": round(value.typical, 2), "slow": round(value.slow, 2)}


def _json_spread(value: Spread | None) -> dict[str, float] | None:
    if value is None:
        return None
    return {"medianSeconds": value.median, "p90Seconds": value.p90, "samples": value.samples}


def _spread(value: Spread) -> str:
    return f"{_time(value.median)} (p90 {_time(value.p90)})"


def _both(value: Range) -> str:
    return (
        _time(value.typical) if value.typical == value.slow else f"{_time(value.typical)}, {_time(value.slow)} if slow"
    )


def _time(seconds: float) -> str:
    return as_text(timedelta(seconds=ceil(seconds)))
