"""How long driver reloads took, and how long a node will keep its place in an upgrade.

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

from ctl.plan.result import Spread, Step
from hook.decide import freshness
from hook.decide.fleet import live_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ctl.plan.pools import Pool
    from hook.objects import Pod, Revision
    from hook.objects.stacks import Stack

REQUEUE: Final = 120.0
"""Seconds after which the upgrade controller checks again (GO and NO ``controllers/upgrade_controller.go``,
``plannedRequeueInterval``). Nothing wakes it when a driver pod becomes Ready."""
LONGEST_START: Final = timedelta(hours=1)
"""A driver's start-up probe gives up after 21 minutes. A Ready condition that changed much later comes from a restart
of the kubelet, and is no measurement."""
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""Reloads further apart than this are unrelated, such as a reboot or a node that joined."""
FEWEST_STEPS: Final = 2
"""One pause between two nodes may be a coincidence."""


@dataclass(frozen=True, slots=True)
class Reload:
    """One driver pod's last start."""

    began: datetime
    """When the unloading began, if the pod records that; otherwise when the driver container started."""
    ready: datetime
    complete: bool
    """Whether the pod records when the unloading began."""

    @property
    def seconds(self) -> float:
        """Return how long it took, as far as that is known."""
        return (self.ready - self.began).total_seconds()


def measure(pool: Pool) -> tuple[Spread | None, Step]:
    """Measure the reloads of a pool's live driver pods, and how long each node keeps its place."""
    stack, newest = pool.fleet.stack, pool.fleet.context.newest
    pods = [pod for pod in live_pods(pool.pods) if pod.node]
    found = [(pod, reload) for pod in pods if (reload := _last_reload(pod, stack)) is not None]
    complete = [reload for _pod, reload in found if reload.complete]
    took = spread(reload.seconds for reload in complete or [reload for _pod, reload in found])
    return took, step(
        took, _pauses(reload for pod, reload in found if _in_rotation(pod, reload, newest.get(pod.owner_uid)))
    )


def step(took: Spread | None, pauses: Spread | None) -> Step:
    """Return how long a node keeps its place: as measured, else a reload rounded up to the controller's next check."""
    typical, slow = (took.median, took.p90) if took else (0.0, 0.0)
    if pauses is None:
        return Step(_until_next_check(typical), _until_next_check(slow))
    return Step(max(pauses.median, typical), max(pauses.p90, slow), pauses.samples)


def spread(values: Iterable[float]) -> Spread | None:
    """Return median and 90th percentile (nearest rank, so a measured value); None without values."""
    known = sorted(values)
    return Spread(_rank(known, 0.5), _rank(known, 0.9), len(known)) if known else None


def _rank(known: Sequence[float], share: float) -> float:
    return known[ceil(share * len(known)) - 1]


def _until_next_check(seconds: float) -> float:
    return REQUEUE * max(1, ceil(seconds / REQUEUE))


def _last_reload(pod: Pod, stack: Stack) -> Reload | None:
    """Read the last start of one pod; None if the pod does not record it, or the times are implausible."""
    started, ready = freshness.driver_started(pod, stack), pod.containers_ready_since
    if started is None or ready is None or started + LONGEST_START < ready:
        return None
    began = _unloading_began(pod, started)
    return Reload(began or started, ready, complete=began is not None)


def _unloading_began(pod: Pod, started: datetime) -> datetime | None:
    """Return the start of the pod's first init container, if the driver container did not restart since."""
    moments = [
        container.finished_at - timedelta(seconds=container.lasted)
        for container in pod.init_containers
        if container.finished_at is not None and container.lasted is not None
    ]
    crashed = [container.last_finished_at for container in pod.containers if container.last_finished_at is not None]
    began = min(moments, default=None)
    if began is None or began + LONGEST_START < started or any(end > began for end in crashed):
        return None
    return began


def _pauses(reloads: Iterable[Reload]) -> Spread | None:
    """Measure the pauses between the starts of the last upgrade's reloads. Reloads that overlap are one turn."""
    turns: list[datetime] = []
    busy_until: datetime | None = None
    for reload in sorted(reloads, key=lambda reload: reload.began):
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
