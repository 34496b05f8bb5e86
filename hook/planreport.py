"""Format a plan: for users the main facts of each pool, its obstacles and timeouts; for programs everything.

The schema ``docs/plan.schema.json`` describes the JSON.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from hook import __version__
from hook.core.sentences import aligned, as_text, clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.core.plan.values import Answer, Budget, Capacity, Plan, PoolPlan, Range, Reloads, Spread
    from hook.settings import Settings

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
    left = f"; {len(pool.left_alone)} excluded" if pool.left_alone else ""
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
            for excluded in pool.left_alone
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
