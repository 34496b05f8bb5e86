"""Reconcile loop of Job and controller: observe, decide, execute restarts, record their results."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.acting import Actor
from hook.cluster import events
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.together import chosen, decide_all
from hook.core.verdicts import Decision, DeletePod, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from hook.acting import Deed
    from hook.cluster.api import Api
    from hook.cluster.observer import Observer
    from hook.core.together import Seen
    from hook.core.verdicts import Action, StalePod
    from hook.narration import Narrator
    from hook.settings import Settings

TICK_SECONDS: Final = 1.0
"""Longest wait for a change. Grace periods and quiet times end without one."""
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Longest pause between two decisions during many changes. It keeps the reaction time below a second."""
PAUSE_FACTOR: Final = 1
"""Pause after a decision, as a multiple of its duration: half of a CPU during many changes."""
TICK_FACTOR: Final = 10
"""Wait without changes, as a multiple of the duration of a decision (0.4 s for 5,000 nodes): a tenth of a CPU."""
LONGEST_TICK_SECONDS: Final = 5.0
"""Longest wait without changes on a large fleet. Grace periods and the deadline may be late by this; the margin at the
end of a run is longer."""


class Rounds:
    """State of the reconcile loop: memory, and writes whose response was lost."""

    def __init__(self, api: Api, observer: Observer, settings: Settings, narrator: Narrator, started: datetime) -> None:
        self._api, self._observer, self._settings, self._narrator = api, observer, settings, narrator
        self._took = 0.0
        self.actor = Actor(api, lasting=settings.follow)
        self.memories = {stack.name: Memory(started=started) for stack in chosen(settings)}
        self.subjects: dict[str, events.Subject] = {}
        """The plugins' DaemonSets as targets of Events, by UID."""
        self.last = Decision(Verdict.WAIT, Reason.NODES_PENDING, "the cluster has not been read yet")

    def observe(self) -> Seen | None:
        """Return snapshots with the pods of all plugins, or None while the cache is not synced."""
        if not self._observer.synced:
            return None
        consumers = self._observer.look_closer()
        self.subjects = {ds.uid: events.daemonset(ds) for found in consumers.values() for ds in found}
        # A new DaemonSet may need a watch of its pods that is not synced yet.
        return self._observer.snapshot() if self._observer.synced else None

    def begin(self, started: datetime) -> None:
        """Set the start time of the run. The API server's clock is known only after its first response."""
        self.memories = {name: replace(memory, started=started) for name, memory in self.memories.items()}

    def await_sight(self) -> None:
        """Wait a moment for the cache to sync."""
        self._narrator.tell_contact(self._observer.lost)
        self._observer.wait(TICK_SECONDS)

    def decide(self, seen: Seen) -> Decision:
        """Record the results of writes whose response was lost, then decide."""
        live = {pod.uid for snapshot in seen.values() for pod in snapshot.consumer_pods if pod.live}
        self._account(self.actor.settle(live, current=self._observer.lost is None))
        started = time.monotonic()
        self.last, self.memories = decide_all(seen, self.memories, self._settings, self._api.now())
        self._took = time.monotonic() - started
        self._narrator.tell_contact(self._observer.lost)
        return self.last

    def act(self, decision: Decision, left: float) -> list[Deed]:
        """Execute the restarts, unless the cache is out of sync. Return their results."""
        return self._account(self.actor.act(decision.actions, left)) if self._observer.lost is None else []

    def rest(self, seconds: float = TICK_SECONDS) -> None:
        """Wait for the next change, with a pause that limits the CPU usage."""
        time.sleep(min(LONGEST_PAUSE_SECONDS, PAUSE_FACTOR * self._took))
        self._observer.wait(max(seconds, min(LONGEST_TICK_SECONDS, TICK_FACTOR * self._took)))

    def _account(self, results: Iterable[Deed]) -> list[Deed]:
        """Record and report each result at once, because the next restart may end the program."""
        done: list[Deed] = []
        for result in results:
            self.remember(result)
            done.append(result)
            if result.note:
                self._narrator.tell_deed(result, self.subjects.get(result.daemonset_uid))
        return done

    def stop_telling(self) -> None:
        """Flush the Events for a short time, because the kubelet waits for the process to exit."""
        self._narrator.teller.stop()

    def remember(self, deed: Deed) -> None:
        """Record the result of a restart in the memory of each stack that needed it."""
        for stack, node, pod in _restarted_by(deed.action):
            memory = self.memories[stack]
            trouble = deed.trouble
            asked = memory.troubled(pod, trouble) if trouble else memory.asked(node, pod, self._api.now(), deed.refused)
            self.memories[stack] = asked


def _restarted_by(action: Action) -> Iterator[tuple[str, str, StalePod]]:
    """Yield the stack, node and pod of each restart in an action."""
    for each in (action, *action.also):
        pods = ((each.node, each.pod),) if isinstance(each, DeletePod) else each.pods
        yield from ((each.stack, node, pod) for node, pod in pods)
