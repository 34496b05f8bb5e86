"""Reconcile loop: read the cache, decide, execute restarts, record the results."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Decision, Phase
from hook.decide.run import decide
from hook.kube import events
from hook.run.restarts import Restarter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hook.decide.fleet import Fleet
    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.objects import Snapshot
    from hook.run.clock import Clock
    from hook.run.report import ProgressReporter
    from hook.run.restarts import RestartResult
    from hook.settings import Settings

TICK_SECONDS: Final = 1.0
"""Longest wait for a change. Grace periods and quiet times end without one."""
DECISION_SECONDS: Final = 1.0
"""Shortest time from a decision on a change to the next: hundreds of objects change in a second while a large fleet
reloads."""
BATCH_SECONDS: Final = 0.2
"""Time from the first change after a wait to the decision, which sees what else changes for the same reason."""

NOT_READ: Final = Decision(Phase.WAIT, Reason.NODES_PENDING, "the cluster has not been read yet")
"""Decision before the first one."""


class ReconcileLoop:
    """State of the reconcile loop: memory, and writes whose response was lost."""

    def __init__(self, api: Api, cache: Cache, settings: Settings, reporter: ProgressReporter, clock: Clock) -> None:
        self._cache, self._settings, self._reporter, self._clock = cache, settings, reporter, clock
        self._next_decision = 0.0
        """The earliest time of the next decision, by the monotonic clock."""
        self.restarter = Restarter(api, lasting=settings.is_controller)
        self.memory = Memory(started=clock.began)
        self._changed: set[str] = set()
        """Nodes whose objects changed between the last two snapshots."""
        self.subjects: dict[str, events.ObjectReference] = {}
        """The plugins' DaemonSets as targets of Events, by UID."""
        self.last = NOT_READ

    def observe(self) -> Snapshot | None:
        """Return a snapshot with the pods of all plugins, or None while the cache is not synced."""
        if not self._cache.synced:
            return None
        plugins = self._cache.watch_plugins()
        self.subjects = {ds.uid: events.daemonset_reference(ds) for ds in plugins}
        # A new DaemonSet may need a watch of its pods that is not synced yet.
        if not self._cache.synced:
            return None
        snapshot, self._changed = self._cache.observe()
        return snapshot

    def await_sync(self) -> None:
        """Wait a moment for the cache to sync."""
        self._reporter.report_sync(self._cache.out_of_sync)
        self._cache.wait(TICK_SECONDS)

    def decide(self, snapshot: Snapshot) -> Decision:
        """Record the results of writes whose response was lost, then decide."""
        if self.restarter.unanswered:
            live = {pod.uid for pod in snapshot.plugin_pods if pod.live}
            self._account(self.restarter.settle(live, current=self._cache.out_of_sync is None))
        if self._changed:
            self._next_decision = time.monotonic() + DECISION_SECONDS
        self.last, self.memory = decide(snapshot, self.memory, self._settings, self._clock.now(), self._changed)
        self._reporter.report_sync(self._cache.out_of_sync)
        return self.last

    @property
    def fleet(self) -> Fleet | None:
        """Return the fleet that the last decision is about."""
        return self.memory.evaluation.fleet if self.memory.evaluation is not None else None

    def decide_in_full(self, snapshot: Snapshot) -> Decision:
        """Evaluate all nodes of a second read. The views of the last decision are freed first: a fleet has many."""
        self.memory = replace(self.memory, evaluation=None)
        return decide(snapshot, self.memory, self._settings, self._clock.now())[0]

    def act(self, decision: Decision, left: float) -> list[RestartResult]:
        """Execute the restarts, unless the cache is out of sync. Return their results."""
        return self._account(self.restarter.act(decision.actions, left)) if self._cache.out_of_sync is None else []

    def rest(self, seconds: float = TICK_SECONDS) -> None:
        """Wait for the next change, and until the next decision may be made."""
        changed = self._cache.wait(seconds)
        time.sleep(max(BATCH_SECONDS * changed, self._next_decision - time.monotonic(), 0.0))

    def _account(self, results: Iterable[RestartResult]) -> list[RestartResult]:
        """Record and report each result at once, because the next restart may end the program."""
        done: list[RestartResult] = []
        for result in results:
            self.remember(result)
            done.append(result)
            self._reporter.report_restart(result, self.subjects.get(result.action.daemonset_uid))
        return done

    def stop_events(self) -> None:
        """Flush the Events for a short time, because the kubelet waits for the process to exit."""
        self._reporter.recorder.flush(events.STOP_SECONDS)

    def remember(self, result: RestartResult) -> None:
        """Record the result of a restart in the memory."""
        memory, action, now = self.memory, result.action, self._clock.now()
        self.memory = (
            memory.troubled(action, now, result.trouble)
            if result.trouble
            else memory.with_restart(action, now, result.refused, result.deleted_at)
        )
