"""The plan as lines for people."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Final

from hook.format import aligned, as_text, escaped, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctl.plan.result import Budget, Capacity, Plan, PoolPlan, Range, Target

LABEL_WIDTH: Final = 10
COLUMNS: Final = ("SEVERITY", "OBSTACLE", "POOL", "MESSAGE")


def table(plan: Plan) -> list[str]:
    """Return the lines for users."""
    lines: list[str] = []
    if plan.nothing is not None:
        lines += [f"nothing to plan ({plan.nothing.reason}): {plan.nothing.message}", ""]
    for pool in plan.pools:
        lines += [pool.name, *(f"  {label:<{LABEL_WIDTH}} {text}" for label, text in _facts(pool)), ""]
    findings = [(pool.name, finding) for pool in plan.pools for finding in pool.obstacles]
    rows = [(finding.severity, finding.obstacle, name, finding.message) for name, finding in findings]
    lines += [*aligned([COLUMNS, *rows]), ""] if rows else []
    for _name, finding in findings:
        lines += [f"Next ({finding.obstacle}):", f"  {finding.remedy}"] if finding.remedy else []
    lines += _conclusion(plan)
    return [escaped(line) for line in lines]


def _conclusion(plan: Plan) -> list[str]:
    if not plan.pools:
        return []
    if plan.window is None or plan.timeouts is None:
        return ["Window: no end without manual action; a pool above does not finish, so no timeout is enough."]
    chart, tool = (_time(seconds) for seconds in (plan.timeouts.chart, plan.timeouts.tool))
    seconds = f"{plan.timeouts.tool:.0f} s"
    tools = f"{tool} ({seconds}) for Helm, helmfile or Flux; Argo CD has none by default"
    return [f"Window: {_both(plan.window)}.", f"Timeouts: {chart} for this chart (timeout), {tools}."]


def _facts(pool: PoolPlan) -> Iterator[tuple[str, str]]:
    yield "nodes", f"{len(pool.nodes)} reload" + (f"; {len(pool.excluded)} excluded" if pool.excluded else "")
    yield "at once", _limits(pool.budget)
    took = pool.reload
    spread = took and f"{_time(took.median)} (p90 {_time(took.p90)}), from {took.samples} driver pods"
    yield "a reload", spread or "unknown: no driver pod shows it, and it may be longer than a step"
    measured = pool.step.measured
    yield (
        "a step",
        f"{_both(pool.step)} ({f'measured: {measured} steps of the last upgrade' if measured else 'assumed'})",
    )
    turns = "1 turn" if pool.turns == 1 else f"{pool.turns} turns"
    yield "window", f"{_both(pool.window)} ({turns})" if pool.window else "no end without manual action"
    yield "capacity", _capacity(pool.capacity)
    if pool.target is not None:
        yield f"in {_time(pool.target.seconds)}", _advice(pool.target)


def _limits(budget: Budget) -> str:
    parallel = f"maxParallelUpgrades {budget.parallel or '0, no limit'}"
    unavailable = f", maxUnavailable {budget.unavailable}, {budget.allowed} of {budget.total} nodes"
    lost = f", {len(budget.lost)} of them already unavailable" if budget.lost else ""
    return f"{budget.at_once} ({parallel}{unavailable if budget.unavailable else ''}{lost})"


def _capacity(capacity: Capacity) -> str:
    if not capacity.gpus:
        return "unknown: no node shows how many GPUs it has"
    unknown = f"; unknown in {some(capacity.unknown)}" if capacity.unknown else ""
    share = 100 * capacity.away / capacity.gpus
    return f"at most {capacity.away} of {capacity.gpus} GPUs unavailable at once ({share:.0f} %){unknown}"


def _advice(target: Target) -> str:
    if target.at_once is None:
        return target.reason
    gpus = f", {target.away} GPUs unavailable" if target.away else ""
    if not target.change:
        return f"{target.reason}: {target.at_once} at once{gpus}"
    unavailable = f" and maxUnavailable {target.unavailable} or more" if target.unavailable else ""
    return f"{target.at_once} at once: set maxParallelUpgrades {target.parallel}{unavailable} ({target.reason}{gpus})"


def _both(value: Range) -> str:
    typical, slow = _time(value.typical), _time(value.slow)
    return typical if typical == slow else f"{typical}, {slow} if slow"


def _time(seconds: float) -> str:
    return as_text(timedelta(seconds=ceil(seconds)))
