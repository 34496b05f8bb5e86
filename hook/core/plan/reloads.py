"""How long things took the last time, by the driver pods that are there.

A pod tells when its driver container started and when it became Ready (``ContainersReady``), to a second; its init
containers tell when the unloading began. The beginnings of successive reloads tell how long a node keeps its place
in an upgrade: longer than its reload, because the upgrade controller looks only now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final

from hook.core import eligibility, freshness
from hook.core.plan.values import Range, Reloads, Spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.stack import Stack
    from hook.objects.views import Pod, Revision

REQUEUE: Final = 120.0
"""Seconds after which the upgrade controller looks again (GO and NO ``controllers/upgrade_controller.go``,
``plannedRequeueInterval``). Nothing wakes it when a driver pod becomes Ready."""
LONGEST_START: Final = timedelta(hours=1)
"""A driver's start-up probe gives up after 21 minutes. A Ready that came much later is that of a kubelet which
restarted, and says nothing."""
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""Reloads further apart than this are two stories: a reboot, a node that joined."""
FEWEST_STEPS: Final = 2
"""One pause between two nodes may be chance."""


@dataclass(frozen=True, slots=True)
class Reload:
    """One driver pod's last start."""

    began: datetime
    """Of the unloading where the pod tells it, else the same as ``started``."""
    started: datetime
    ready: datetime
    told_all: bool
    """The pod tells when the unloading began."""

    @property
    def loading(self) -> float:
        """Seconds from the driver container's start to Ready."""
        return (self.ready - self.started).total_seconds()

    @property
    def whole(self) -> float:
        """Seconds from the beginning of the unloading, as far as it is known."""
        return (self.ready - self.began).total_seconds()


def measured(pods: Sequence[Pod], fleet: Fleet) -> Reloads:
    """Measure by the live driver pods of one pool."""
    live = [pod for pod in eligibility.live_pods(pods) if pod.node]
    found = [(pod, reload) for pod in live if (reload := of_pod(pod, fleet.stack)) is not None]
    return Reloads(
        loading=spread(reload.loading for _pod, reload in found),
        whole=spread(reload.whole for _pod, reload in found if reload.told_all),
        steps=_steps(found, fleet),
        pods=len(live),
    )


def step(reloads: Reloads) -> Range:
    """Give how long a node keeps its place: as measured, else a reload rounded up to the controller's next look."""
    took = reloads.whole or reloads.loading
    typical, slow = (took.median, took.p90) if took else (0.0, 0.0)
    if reloads.steps is None:
        return Range(_until_looked(typical), _until_looked(slow))
    return Range(max(reloads.steps.median, typical), max(reloads.steps.p90, slow))


def of_pod(pod: Pod, stack: Stack) -> Reload | None:
    """Read one pod's last start; None where it does not tell, or cannot have been so."""
    started, ready = freshness.driver_started(pod, stack), pod.containers_ready_since
    if started is None or ready is None or ready - started > LONGEST_START:
        return None
    began = _unloading_began(pod, started)
    return Reload(began or started, started, ready, told_all=began is not None)


def spread(values: Iterable[float]) -> Spread | None:
    """Give median and 90th percentile (nearest rank: a value that was measured); None of nothing."""
    known = sorted(values)
    if not known:
        return None
    return Spread(_rank(known, 0.5), _rank(known, 0.9), len(known))


def _rank(known: Sequence[float], share: float) -> float:
    return known[ceil(share * len(known)) - 1]


def _until_looked(seconds: float) -> float:
    return REQUEUE * max(1, ceil(seconds / REQUEUE))


def _unloading_began(pod: Pod, started: datetime) -> datetime | None:
    """Give the start of the pod's first init container, if it is of the same start as the driver container's."""
    moments = [
        one.finished_at - timedelta(seconds=one.lasted)
        for one in pod.init_containers
        if one.finished_at is not None and one.lasted is not None
    ]
    crashed = [one.last_finished_at for one in pod.containers if one.last_finished_at is not None]
    began = min(moments, default=None)
    if began is None or started - began > LONGEST_START or any(end > began for end in crashed):
        return None
    return began


def _steps(found: Sequence[tuple[Pod, Reload]], fleet: Fleet) -> Spread | None:
    """Measure the pauses between the beginnings of reloads in the last rotation, if there was one.

    Reloads that overlap went side by side, and are one turn.
    """
    rotated = sorted(
        (reload for pod, reload in found if _in_rotation(pod, reload, fleet.newest.get(pod.owner_uid))),
        key=lambda reload: reload.began,
    )
    turns: list[datetime] = []
    busy_until: datetime | None = None
    for reload in rotated:
        if busy_until is not None and reload.began > busy_until + LONGEST_PAUSE:
            break
        # Whole seconds: one that begins in the second in which the last one became ready came after it.
        if busy_until is None or reload.began >= busy_until:
            turns.append(reload.began)
        busy_until = max(reload.ready, busy_until or reload.ready)
    pauses = [(later - earlier).total_seconds() for earlier, later in pairwise(turns)]
    return spread(pauses) if len(pauses) >= FEWEST_STEPS else None


def _in_rotation(pod: Pod, reload: Reload, newest: Revision | None) -> bool:
    """Whether a pod replaced another one: of a DaemonSet's first revision none did, they were installed."""
    return newest is not None and newest.revision > 1 and pod.hash == newest.hash and reload.began >= newest.created
