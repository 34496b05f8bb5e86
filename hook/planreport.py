"""Show a plan: for people what matters of each pool, then its obstacles and timeouts; for programs everything.

The JSON is described by ``docs/plan.schema.json``.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.flags.kinds import as_text
from hook.logs import clean
from hook.report import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.core.plan.values import Answer, Budget, Capacity, Plan, PoolPlan, Range, Reloads, Spread
    from hook.settings import Settings

ALLOWANCE_SECONDS: Final = 120
"""A deployer pulls the image, starts the pod and deletes the Job of the run before; the chart's NOTES name it, too."""
ROUND_SECONDS: Final = 300
"""Timeouts are whole multiples of five minutes: nobody reads more into an estimate."""
LABEL_WIDTH: Final = 10
OBSTACLES: Final = ("SEVERITY", "OBSTACLE", "POOL", "WHAT")


def table(plan: Plan, settings: Settings) -> list[str]:
    """Give the lines for people."""
    lines: list[str] = []
    for stack, reason, message in plan.nothing:
        lines += [f"{stack}: nothing to plan ({reason}): {message}", ""]
    for pool in plan.pools:
        lines += [f"{pool.stack}: {pool.name}", *(f"  {label:<{LABEL_WIDTH}} {text}" for label, text in _facts(pool))]
        lines.append("")
    rows = [(one.severity, one.obstacle, pool.name, one.message) for pool in plan.pools for one in pool.obstacles]
    lines += [*aligned([OBSTACLES, *rows]), ""] if rows else []
    lines += [f"Next ({one.obstacle}): {one.remedy}" for pool in plan.pools for one in pool.obstacles if one.remedy]
    lines += _conclusion(plan, settings)
    return [clean(line) for line in lines]


def as_json(plan: Plan, settings: Settings) -> dict[str, Any]:
    """Give everything, for programs."""
    return {
        "version": __version__,
        "window": _range(plan.window),
        "timeouts": timeouts(plan, settings),
        "nothing": [{"stack": stack, "reason": reason, "message": message} for stack, reason, message in plan.nothing],
        "pools": [_pool(pool) for pool in plan.pools],
    }


def timeouts(plan: Plan, settings: Settings) -> dict[str, Any] | None:
    """Give the chart's values and what each deployer needs; None where no time would be enough.

    No less than the chart's own default, which costs nothing.
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
        return ["Window: never by itself; a pool above does not finish, so no timeout would be enough."]
    stall = f", stallTimeout {found['stallTimeout']}" if found["stallTimeout"] else ""
    chart = f"this chart's timeout {found['timeout']}{stall}"
    deployers = f"Helm {found['helm']}; helmfile {found['helmfile']}; Flux {found['flux']}; Argo CD has none by default"
    return [f"Window: {_both(plan.window)}.", f"Timeouts: {chart}; {deployers}."]


def _facts(pool: PoolPlan) -> Iterator[tuple[str, str]]:
    left = f"; {len(pool.left_alone)} left alone" if pool.left_alone else ""
    yield "nodes", f"{len(pool.nodes)} reload{left}"
    yield "at once", _limits(pool)
    yield "a reload", _reload(pool.reloads)
    steps = pool.reloads.steps
    how = f"measured: {steps.samples} steps of the last upgrade" if steps else "assumed, see below"
    yield "a step", f"{_both(pool.step)} ({how})"
    turns = "1 turn" if pool.batches == 1 else f"{pool.batches} turns"
    window = f"{_both(pool.window)} ({turns})" if pool.window else "never ends by itself"
    yield "window", window
    yield "capacity", _capacity(pool.capacity)
    if pool.answer is not None:
        yield f"in {_time(pool.answer.seconds)}", _target(pool.answer)


def _limits(pool: PoolPlan) -> str:
    budget = pool.budget
    parallel = f"maxParallelUpgrades {budget.parallel or '0, no limit'}"
    unavailable = f", maxUnavailable {budget.unavailable}, {budget.allowed} of {budget.total} nodes"
    lost = f", {len(budget.lost)} of them unavailable already" if budget.lost else ""
    return f"{budget.at_once} ({parallel}{unavailable if budget.unavailable else ''}{lost})"


def _reload(reloads: Reloads) -> str:
    if reloads.loading is None:
        return f"unknown: none of {reloads.pods} driver pods tells"
    told = f"{reloads.loading.samples} of {reloads.pods} driver pods"
    loading = f"{_spread(reloads.loading)} from the driver container's start to Ready ({told})"
    if reloads.whole is None:
        return f"{loading}; unloading not told"
    return f"{loading}; {_spread(reloads.whole)} with unloading ({reloads.whole.samples})"


def _capacity(capacity: Capacity) -> str:
    if not capacity.sources:
        return "unknown: nothing says how many GPUs the nodes have"
    sources = ", ".join(f"{source}: {count} nodes" for source, count in capacity.sources.items())
    hours = f", {capacity.hours.typical:.1f} GPU-hours in all" if capacity.hours else ""
    share = f"{capacity.at_once} of {capacity.gpus} GPUs away at the worst moment ({capacity.percent:.1f} %)"
    return f"{share}{hours} ({sources})"


def _target(answer: Answer) -> str:
    if answer.at_once is None:
        return answer.reason
    gpus = f", {answer.gpus} GPUs away" if answer.gpus else ""
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
        "leftAlone": [{"node": one.node, "reason": one.reason, "message": one.message} for one in pool.left_alone],
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
                "obstacle": one.obstacle,
                "severity": one.severity,
                "message": one.message,
                "remedy": one.remedy,
                "nodes": list(one.nodes),
            }
            for one in pool.obstacles
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
