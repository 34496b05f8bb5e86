"""Health for the kubelet, and metrics for Prometheus, of the controller.

The reconcile loop and the thread that renews the Lease call these methods. They neither raise nor block.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from typing import TYPE_CHECKING, Final

from prometheus_client import disable_created_metrics

from hook.core.verdicts import Cause, DeletePod
from hook.following.exposition import Metrics, Standing, by_node
from hook.following.health import Health
from hook.following.staleness import Staleness, is_served, is_stale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from hook.acting import Deed
    from hook.cluster.contact import Lost
    from hook.cluster.counters import Counters
    from hook.core.memory import Memory
    from hook.core.together import Memories
    from hook.core.verdicts import Action, Decision, Judgement, StalePod

RESTARTED: Final = "restarted"
REFUSED: Final = "refused"
FAILED: Final = "failed"


class Telemetry:
    """Records what the controller does. Safe to use from several threads."""

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # one more time series per counter, without use
        self._lock = threading.Lock()
        self.health = Health(clock)
        """What /healthz and /readyz show."""
        self._staleness = Staleness()
        self._standing = Standing()
        self._since: datetime | None = None
        """When this replica finished its first reconcile as leader."""
        self._metrics = Metrics(counters, lambda: self._standing, self._lost_seconds)

    @property
    def registry(self) -> CollectorRegistry:
        """Return the registry for /metrics."""
        return self._metrics.registry

    def trying(self, trouble: str = "") -> None:
        """Record a Lease request, with its error if it failed."""
        self.health.try_for_the_lease(trouble)

    def leading(self, leading: bool) -> None:
        """Record that the Lease was acquired or lost. A standby has no metrics of the fleet."""
        self.health.lead(leading=leading)
        with self._lock:
            self._metrics.leader.set(leading)
            self._staleness, self._standing, self._since = Staleness(), Standing(), None

    def waiting(self, lost: Lost | None) -> None:
        """Record that the cache is not synced, so no reconcile can finish."""
        self.health.wait(lost)

    def round(self, decision: Decision, memories: Memories, lost: Lost | None, now: datetime) -> None:
        """Record a finished reconcile; `now` is by the API server's clock."""
        with self._lock:
            self._since = self._since or now
            for recovery in self._staleness.update(decision.judgements, now):
                self._metrics.stale.labels(recovery.stack).observe(max(recovery.after.total_seconds(), 0.0))
            breakers = {stack: _is_open(memory) for stack, memory in memories.items()}
            self._standing = Standing(
                nodes=by_node(decision.judgements),
                plugins=_by_stack(filter(is_served, decision.judgements), memories),
                stale=_by_stack(filter(is_stale, decision.judgements), memories),
                oldest={stack: since for stack in memories if (since := self._staleness.oldest(stack)) is not None},
                breakers=breakers,
            )
            self._metrics.last_round.set_to_current_time()
            self._show_zeros(memories)
        self.health.finish_round(lost, [stack for stack, is_open in breakers.items() if is_open])

    def deed(self, deed: Deed, now: datetime) -> None:
        """Record a restart and its result; `now` is by the API server's clock."""
        result = REFUSED if deed.refused else FAILED if deed.trouble else RESTARTED
        with self._lock:
            for pod in _pods(deed.action):
                self._metrics.restarts.labels(deed.action.stack, pod.cause, result).inc()
                if result == RESTARTED:
                    self._react(deed.action.stack, pod, now)

    def _show_zeros(self, stacks: Iterable[str]) -> None:
        """Create all counters with 0. Prometheus does not see the first increment of a counter that starts with it."""
        for stack in stacks:
            self._metrics.reaction.labels(stack)
            self._metrics.stale.labels(stack)
            for cause in Cause:
                for result in (RESTARTED, REFUSED, FAILED):
                    self._metrics.restarts.labels(stack, cause, result)

    def _react(self, stack: str, pod: StalePod, now: datetime) -> None:
        """Record the reaction time, from when a restart was possible. A retry does not count."""
        if pod.driver_ready is None or pod.again or self._since is None:
            return
        since = max(pod.driver_ready, self._since)
        self._metrics.reaction.labels(stack).observe(max((now - since).total_seconds(), 0.0))

    def _lost_seconds(self) -> float:
        lost = self.health.lost
        return lost.seconds if lost is not None else 0.0


def _by_stack(judgements: Iterable[Judgement], stacks: Iterable[str]) -> dict[str, int]:
    """Return the number of statuses per stack, also 0."""
    found = Tally(status.stack for status in judgements)
    return {stack: found[stack] for stack in stacks}


def _pods(action: Action) -> Iterator[StalePod]:
    """Return the pods that an action restarts. The same restart for other stacks does not count again."""
    if isinstance(action, DeletePod):
        yield action.pod
    else:
        yield from (pod for _node, pod in action.pods)


def _is_open(memory: Memory) -> bool:
    return memory.breaker.opened_at is not None
