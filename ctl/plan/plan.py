"""Plan an upgrade: its duration, its cost, and what would block it; and format the plan for users."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace as updated

from ctl.plan import pools, timing
from ctl.plan.eviction import Pods
from ctl.plan.obstacles import obstacles
from ctl.plan.result import NoPlan, Plan, PoolPlan, Range, Target, Timeouts
from hook import __version__
from hook.decide import end
from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.format import aligned, as_text, escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ctl.plan.pools import Pool
    from ctl.plan.result import Budget, Capacity, Reloads, Spread, Step
    from hook.decide.fleet import Fleet
    from hook.decide.result import Blocker
    from hook.objects.views import Snapshot
    from hook.settings import Settings

OPERATOR_START: Final = timedelta(minutes=1)
"""From the change of a policy to the first node. Measured: 22 s, with a new operator that first acquires its Lease."""
ALLOWANCE_SECONDS: Final = 120
"""Time in which the deployment tool deletes the previous Job, and the kubelet pulls the image and starts the pod. The
chart's NOTES use the same number."""
ROUNDED_TO_SECONDS: Final = 300
"""Timeouts are multiples of five minutes, because they are estimates."""
LABEL_WIDTH: Final = 10
COLUMNS: Final = ("SEVERITY", "OBSTACLE", "POOL", "MESSAGE")


@dataclass(frozen=True, slots=True)
class Options:
    """Input of a plan in addition to the snapshot."""

    target: timedelta | None = None
    """The time within which all nodes are to be done, if the user asked for one."""
    pods: Pods = field(default_factory=Pods)


def make_plan(snapshot: Snapshot, settings: Settings, now: datetime, options: Options) -> Plan:
    """Plan an upgrade of every node."""
    found = _pools(index(snapshot, settings), now)
    if not isinstance(found, list):
        return Plan(__version__, None, None, NoPlan(*found), ())
    planned = tuple(_pool_plan(pool, options) for pool in found)
    window = _longest([pool.window for pool in planned])
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
    cordoned = set(pool.cordoned)
    waiting = [name for name in pool.nodes if name not in cordoned]
    budget = pool.budget(len(waiting))
    reloads, step = timing.measure(pool)
    manual = pool.manual and pool.nodes
    turns = None if manual else _turns(len(waiting), budget.at_once, first=bool(cordoned))
    plan = PoolPlan(
        name=pool.name,
        nodes=pool.nodes,
        excluded=pool.excluded,
        budget=budget,
        reloads=reloads,
        step=step,
        turns=turns,
        window=None if turns is None else step.times(turns),
        capacity=pools.capacity(pool, waiting, budget.at_once, step),
        obstacles=(),
        target=None if options.target is None else _target(pool, waiting, budget, step, options.target),
    )
    return updated(plan, obstacles=obstacles(pool, plan, options.pods))


def _turns(waiting: int, at_once: int, *, first: bool) -> int | None:
    """Count turns. Nodes that were cordoned before are upgraded in the first turn, in addition to the others."""
    if not waiting:
        return int(first)
    return ceil(waiting / at_once) if at_once else None


def _target(pool: Pool, waiting: Sequence[str], budget: Budget, step: Step, window: timedelta) -> Target:
    """Find the lowest parallelism that finishes in time with slow steps."""
    seconds = window.total_seconds()
    if pool.manual and pool.nodes:
        return Target(
            seconds, f"no parallelism is enough: the operator does not replace driver pods here ({pool.manual})"
        )
    if seconds < step.slow:
        return Target(seconds, f"no parallelism is enough: one slow node takes {step.slow:.0f} s")
    turns = int(seconds // step.slow)
    at_once = ceil(len(waiting) / turns)
    counts = {name: count for name, (count, _source) in pools.gpu_counts(pool).items()}
    enough = 0 < at_once <= budget.at_once or not waiting
    return Target(
        seconds,
        "the current limits are enough" if enough else f"{len(waiting)} nodes in at most {turns} turns",
        possible=True,
        change=not enough,
        at_once=at_once,
        parallel=at_once + len(budget.stuck),
        unavailable=at_once + len(budget.lost) if budget.unavailable else None,
        gpus=pools.worst(counts, waiting, at_once),
    )


def _longest(windows: Sequence[Range | None]) -> Range | None:
    """Return the longest window; None if one never ends, or there is none."""
    known = [window for window in windows if window is not None]
    if not known or len(known) < len(windows):
        return None
    return Range(max(window.typical for window in known), max(window.slow for window in known))


def run_seconds(window: Range, settings: Settings) -> float:
    """Return the seconds that a run needs to wait for the whole upgrade in a slow case."""
    settling = (
        OPERATOR_START + settings.advanced.operator_quiet + settings.advanced.policy_grace + settings.plugin_timeout
    )
    return window.slow + settling.total_seconds()


def _timeouts(window: Range, settings: Settings) -> Timeouts:
    """Return the timeouts. None is shorter than the chart's default, because a longer one has no cost."""
    inner = max(_rounded(run_seconds(window, settings)), int(settings.timeout.total_seconds()))
    outer = inner + ALLOWANCE_SECONDS
    return Timeouts(
        timeout=_duration(inner),
        helm=f"--timeout {_duration(outer)}",
        helmfile=f"timeout: {outer}",
        flux=f"timeout: {_duration(outer)}",
    )


def _rounded(seconds: float) -> int:
    return ceil(seconds / ROUNDED_TO_SECONDS) * ROUNDED_TO_SECONDS


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that fits, as Helm and Flux read it."""
    size, unit = next((size, unit) for size, unit in ((3600, "h"), (60, "m"), (1, "s")) if seconds % size == 0)
    return f"{seconds // size}{unit}"


def as_json(plan: Plan) -> dict[str, Any]:
    """Return everything, for programs."""
    values: dict[str, Any] = msgspec.to_builtins(plan)
    return values


def table(plan: Plan) -> list[str]:
    """Return the lines for users."""
    lines: list[str] = []
    if plan.nothing is not None:
        lines += [f"nothing to plan ({plan.nothing.reason}): {plan.nothing.message}", ""]
    for pool in plan.pools:
        lines += [pool.name, *(f"  {label:<{LABEL_WIDTH}} {text}" for label, text in _facts(pool))]
        lines.append("")
    findings = [(pool.name, finding) for pool in plan.pools for finding in pool.obstacles]
    rows = [(finding.severity, finding.obstacle, name, finding.message) for name, finding in findings]
    lines += [*aligned([COLUMNS, *rows]), ""] if rows else []
    lines += [f"Next ({finding.obstacle}): {finding.remedy}" for _name, finding in findings if finding.remedy]
    lines += _conclusion(plan)
    return [escaped(line) for line in lines]


def _conclusion(plan: Plan) -> list[str]:
    if not plan.pools:
        return []
    if plan.window is None or plan.timeouts is None:
        return ["Window: no end without manual action; a pool above does not finish, so no timeout is enough."]
    found = plan.timeouts
    chart = f"this chart's timeout {found.timeout}"
    tools = f"Helm {found.helm}; helmfile {found.helmfile}; Flux {found.flux}; Argo CD has none by default"
    return [f"Window: {_both(plan.window)}.", f"Timeouts: {chart}; {tools}."]


def _facts(pool: PoolPlan) -> Iterator[tuple[str, str]]:
    excluded = f"; {len(pool.excluded)} excluded" if pool.excluded else ""
    yield "nodes", f"{len(pool.nodes)} reload{excluded}"
    yield "at once", _limits(pool.budget)
    yield "a reload", _reload(pool.reloads)
    pauses = pool.step.measured
    how = f"measured: {pauses.samples} steps of the last upgrade" if pauses else "assumed, see below"
    yield "a step", f"{_both(pool.step)} ({how})"
    turns = "1 turn" if pool.turns == 1 else f"{pool.turns} turns"
    window = f"{_both(pool.window)} ({turns})" if pool.window else "no end without manual action"
    yield "window", window
    yield "capacity", _capacity(pool.capacity)
    if pool.target is not None:
        yield f"in {_time(pool.target.seconds)}", _advice(pool.target)


def _limits(budget: Budget) -> str:
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


def _advice(target: Target) -> str:
    if not target.possible:
        return target.reason
    gpus = f", {target.gpus} GPUs unavailable" if target.gpus else ""
    if not target.change:
        return f"{target.reason}: {target.at_once} at once{gpus}"
    unavailable = f" and maxUnavailable {target.unavailable} or more" if target.unavailable else ""
    return f"{target.at_once} at once: set maxParallelUpgrades {target.parallel}{unavailable} ({target.reason}{gpus})"


def _spread(value: Spread) -> str:
    return f"{_time(value.median)} (p90 {_time(value.p90)})"


def _both(value: Range) -> str:
    return (
        _time(value.typical) if value.typical == value.slow else f"{_time(value.typical)}, {_time(value.slow)} if slow"
    )


def _time(seconds: float) -> str:
    return as_text(timedelta(seconds=ceil(seconds)))
