"""How long driver reloads took, and how long the remaining ones will take.

A pod records when its driver container started and when it became Ready (``ContainersReady``), in whole seconds. Its
init containers record when the unloading began. The starts of successive reloads show how long a node keeps its place
in an upgrade. That is longer than its reload, because the upgrade controller checks only from time to time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final

from ctl.plan.pools import split
from ctl.plan.result import Reloads, Spread, Step
from hook.decide import end, freshness
from hook.decide.end import TERMINAL
from hook.decide.fleet import live_pods
from hook.decide.node import FAILING_TO_START, crashing
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ctl.plan.pools import Pool
    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision, NodeStatus
    from hook.objects.drivers import Stack
    from hook.objects.views import Pod, Revision
    from hook.settings import Settings

REQUEUE: Final = 120.0
"""Seconds after which the upgrade controller checks again (GO and NO ``controllers/upgrade_controller.go``,
``plannedRequeueInterval``). Nothing wakes it when a driver pod becomes Ready."""
LONGEST_START: Final = timedelta(hours=1)
"""A driver's start-up probe gives up after 21 minutes. A Ready condition that changed much later comes from a restart
of the kubelet, and is no measurement."""
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""Reloads further apart than this are unrelated, such as a reboot or a node that joined."""
PLUGIN_SECONDS: Final = 40
"""The longest time that a healthy plugin takes to become verified after its node's driver has settled (10 to 40 s)."""
FEWEST_STEPS: Final = 2
"""One pause between two nodes may be a coincidence."""
ESTIMABLE: Final = frozenset({
    Reason.NODE_NOT_READY_BRIEFLY, Reason.DRIVER_MISSING, Reason.DRIVER_OUTDATED,
    Reason.DRIVER_NOT_READY, Reason.UPGRADE_REQUIRED, Reason.UPGRADE_IN_PROGRESS, Reason.OPERANDS_PAUSED,
    Reason.PLUGIN_STALE, Reason.PLUGIN_QUEUED, Reason.PLUGIN_RESTARTING, Reason.PLUGIN_MISSING, Reason.PLUGIN_STARTING,
    Reason.PLUGIN_NOT_READY, Reason.SLICE_MISSING, Reason.SLICE_OUTDATED,
})  # fmt: skip
"""Reasons that pass by themselves in a time that is known. All others wait for someone, or for something unmeasured."""


@dataclass(frozen=True, slots=True)
class Reload:
    """One driver pod's last start."""

    began: datetime
    """When the unloading began, if the pod records that; otherwise the same as ``started``."""
    started: datetime
    ready: datetime
    complete: bool
    """Whether the pod records when the unloading began."""

    @property
    def loading(self) -> float:
        """Return the seconds from the driver container's start to Ready."""
        return (self.ready - self.started).total_seconds()

    @property
    def whole(self) -> float:
        """Return the seconds from the start of the unloading to Ready, as far as it is known."""
        return (self.ready - self.began).total_seconds()


def measure(pool: Pool) -> tuple[Reloads, Step]:
    """Measure the live driver pods of a pool."""
    live = [pod for pod in live_pods(pool.pods) if pod.node]
    found = [(pod, reload) for pod in live if (reload := _last_reload(pod, pool.fleet.stack)) is not None]
    reloads = Reloads(
        loading=spread(reload.loading for _pod, reload in found),
        whole=spread(reload.whole for _pod, reload in found if reload.complete),
        pods=len(live),
    )
    return reloads, step(reloads, _pauses(found, pool.fleet))


def step(reloads: Reloads, pauses: Spread | None) -> Step:
    """Return how long a node keeps its place: as measured, else a reload rounded up to the controller's next check."""
    took = reloads.whole or reloads.loading
    typical, slow = (took.median, took.p90) if took else (0.0, 0.0)
    if pauses is None:
        return Step(_until_next_check(typical), _until_next_check(slow))
    return Step(max(pauses.median, typical), max(pauses.p90, slow), pauses)


def _last_reload(pod: Pod, stack: Stack) -> Reload | None:
    """Read the last start of one pod; None if the pod does not record it, or the times are implausible."""
    started, ready = freshness.driver_started(pod, stack), pod.containers_ready_since
    if started is None or ready is None or ready - started > LONGEST_START:
        return None
    began = _unloading_began(pod, started)
    return Reload(began or started, started, ready, complete=began is not None)


def spread(values: Iterable[float]) -> Spread | None:
    """Return median and 90th percentile (nearest rank, so a measured value); None without values."""
    known = sorted(values)
    if not known:
        return None
    return Spread(_rank(known, 0.5), _rank(known, 0.9), len(known))


def _rank(known: Sequence[float], share: float) -> float:
    return known[ceil(share * len(known)) - 1]


def _until_next_check(seconds: float) -> float:
    return REQUEUE * max(1, ceil(seconds / REQUEUE))


def _unloading_began(pod: Pod, started: datetime) -> datetime | None:
    """Return the start of the pod's first init container, if the driver container did not restart since."""
    moments = [
        container.finished_at - timedelta(seconds=container.lasted)
        for container in pod.init_containers
        if container.finished_at is not None and container.lasted is not None
    ]
    crashed = [container.last_finished_at for container in pod.containers if container.last_finished_at is not None]
    began = min(moments, default=None)
    if began is None or started - began > LONGEST_START or any(end > began for end in crashed):
        return None
    return began


def _pauses(found: Sequence[tuple[Pod, Reload]], fleet: Fleet) -> Spread | None:
    """Measure the pauses between the starts of reloads in the last upgrade, if there was one.

    Reloads that overlap are one turn.
    """
    rotated = sorted(
        (reload for pod, reload in found if _in_rotation(pod, reload, fleet.context.newest.get(pod.owner_uid))),
        key=lambda reload: reload.began,
    )
    turns: list[datetime] = []
    busy_until: datetime | None = None
    for reload in rotated:
        if busy_until is not None and reload.began > busy_until + LONGEST_PAUSE:
            break
        # Times are whole seconds: a reload that begins in the second of the previous one's Ready came after it.
        if busy_until is None or reload.began >= busy_until:
            turns.append(reload.began)
        busy_until = max(reload.ready, busy_until or reload.ready)
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(turns)]
    return spread(pauses) if len(pauses) >= FEWEST_STEPS else None


def _in_rotation(pod: Pod, reload: Reload, newest: Revision | None) -> bool:
    """Return whether a pod replaced another one. Pods of a DaemonSet's first revision were installed."""
    return newest is not None and newest.revision > 1 and pod.hash == newest.hash and reload.began >= newest.created


def remaining_seconds(fleet: Fleet, decision: Decision, now: datetime) -> int | None:
    """Return the remaining seconds, including the upgrade labels; None if they cannot be estimated.

    A node that is verified keeps its place in the upgrade until its label is quiet.
    """
    if decision.phase in {Phase.DONE, Phase.SKIP}:
        return 0
    remaining = [status for status in decision.statuses if status.state not in TERMINAL or status.label_pending]
    read = any(status.state is not NodeState.EXCLUDED for status in decision.statuses)
    if (read and end.not_rendered(fleet) is not None) or not all(_is_estimable(status, fleet) for status in remaining):
        return None
    longest = 0.0
    for pool in split(fleet, fleet.policy, now) if remaining and fleet.policy is not None else ():
        seconds = _upgrading(remaining, pool, now)
        if seconds is None:
            return None
        longest = max(longest, seconds)
    unverified = sum(bool(status.plugin) and status.state not in TERMINAL for status in remaining)
    plugins = ceil(unverified / _plugins_at_once(len(decision.statuses), fleet.context.settings)) * PLUGIN_SECONDS
    if _without_driver(remaining):
        return round(longest) + max(plugins, PLUGIN_SECONDS)
    return max(round(longest), plugins)


def _is_estimable(status: NodeStatus, fleet: Fleet) -> bool:
    """Return whether a node advances without an administrator, as far as its reason and its plugin's pod show."""
    if status.state is NodeState.VERIFIED:
        return True
    if status.state is NodeState.FAILED or status.reason not in ESTIMABLE:
        return False
    pods = fleet.nodes[status.node].plugin_pods if status.plugin and status.node in fleet.nodes else ()
    return not any(str(pod) == status.subject and _is_failing(pod) for pod in pods)


def _is_failing(pod: Pod) -> bool:
    waiting = (container.waiting in FAILING_TO_START for container in (*pod.init_containers, *pod.containers))
    return bool(crashing(pod)) or any(waiting)


def _plugins_at_once(total: int, settings: Settings) -> int:
    bounds = [settings.max_parallel_restarts, settings.max_unavailable.of(total) if settings.max_unavailable else 0]
    return min((bound for bound in bounds if bound), default=total) or 1


def _without_driver(statuses: Iterable[NodeStatus]) -> frozenset[str]:
    """Return the nodes whose driver is not settled."""
    return frozenset(status.node for status in statuses if not status.plugin and status.state not in TERMINAL)


def _upgrading(statuses: Iterable[NodeStatus], pool: Pool, now: datetime) -> float | None:
    """Return the seconds until the drivers of a pool are reloaded and its labels are quiet; None if unknown.

    Nodes reload in turns of as many as the policy allows, after those whose labels trail.
    """
    statuses = [status for status in statuses if status.node in set(pool.all_nodes)]
    waiting = _without_driver(statuses)
    trailing = {status.node for status in statuses if status.label_pending} - waiting
    if not waiting and not trailing:
        return 0.0
    stuck = set(pool.stuck) | {excluded.node for excluded in pool.excluded}
    if pool.manual or stuck & (waiting | trailing):
        return None
    reloads, step = measure(pool)
    lag = max((_label_lag(node, pool, step, now) for node in trailing), default=0.0)
    if not waiting:
        return lag
    at_once = pool.budget(len(waiting)).at_once
    if not at_once or (reloads.loading is None and step.measured is None):
        return None
    return lag + ceil(len(waiting) / at_once) * step.typical


def _label_lag(node: str, pool: Pool, step: Step, now: datetime) -> float:
    """Return the seconds until the upgrade controller finishes a node whose driver is settled.

    Nothing wakes the controller when a driver is Ready. If the step is over, it checks again after a while.
    """
    found = (_last_reload(pod, pool.fleet.stack) for pod in live_pods(pool.fleet.drivers_on(node)))
    began = max((reload.began for reload in found if reload is not None), default=now)
    elapsed = max(0.0, (now - began).total_seconds())
    return step.typical - elapsed if elapsed < step.typical else _until_next_check(elapsed) - elapsed
