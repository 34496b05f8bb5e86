"""Observe, decide, act, until a verdict. The only place where the core meets the cluster."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hook import report
from hook.acting import Actor
from hook.cluster import events
from hook.core import messages
from hook.core.decide import succeeded
from hook.core.memory import Memory
from hook.core.reasons import EventReason, Reason
from hook.core.together import Seen, chosen, decide_all, look_first
from hook.core.verdicts import Decision, DeletePod, Verdict
from hook.errors import ClusterError, PermissionDeniedError
from hook.narration import LOST_SECONDS, Narrator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from hook.acting import Deed
    from hook.cluster.api import Api
    from hook.cluster.events import Teller
    from hook.cluster.jobs import Job
    from hook.cluster.observer import Observer
    from hook.core.verdicts import Action, StalePod
    from hook.settings import Settings

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
"""Graces and quiet times end without an event; a second is precise enough for them."""
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two decisions while events pour in; keeps the reaction under a second."""
PAUSE_FACTOR: Final = 4
"""Rest four times as long as a decision took, within the bound above."""
CONFIRM_AGAIN_SECONDS: Final = 5.0
"""Between two confirming reads, each of which lists the whole fleet."""
EXIT_FAILED: Final = 3
EXIT_DEADLINE: Final = 124
"""As ``timeout(1)`` and cert-manager's startupapicheck have it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    decision: Decision
    exit_code: int


class Runner:
    """One run. Keeps the last decision, so that whatever ends it can report."""

    def __init__(self, api: Api, observer: Observer, settings: Settings, teller: Teller, job: Job | None) -> None:
        self._api, self._observer, self._settings, self._teller, self._job = api, observer, settings, teller, job
        self._started = job.started if job else api.now()
        self._memories = {stack.name: Memory(started=self._started) for stack in chosen(settings)}
        self._narrator = Narrator(teller, job)
        self._subjects: dict[str, events.Subject] = {}
        self._confirm_after = 0.0
        self._actor = Actor(api)
        self.last = Decision(Verdict.WAIT, Reason.NODES_PENDING, "nothing was read yet")

    @property
    def restarted(self) -> int:
        """How many plugins this run restarted."""
        return self._actor.restarted

    def run(self) -> Outcome:
        """Run to the end. Raises ClusterError if the cluster cannot be read or written for good."""
        self._observer.look_at_intent()
        decision = self._await_sync()
        if decision is None:
            decision = look_first(self._observer.snapshot(), self._settings)
        if decision is None:
            self._observer.look_at_fleet()
            decision = self._loop()
        self.last = decision = self._with_what_was_not_seen(decision)
        return Outcome(decision, self._exit_code(decision))

    def _await_sync(self) -> Decision | None:
        """Wait for the first lists; None once they are in."""
        while not self._observer.synced:
            if self._api.now() >= self._deadline:
                return Decision(Verdict.DEADLINE, Reason.TIME_UP, "the time is up before the cluster could be read")
            self._narrator.tell_contact(self._observer.lost)
            self._observer.wait(TICK_SECONDS)
        return None

    def _loop(self) -> Decision:
        while True:
            seen = self._observe()
            if isinstance(seen, Decision):
                return seen
            self._settle(seen)
            started = time.monotonic()
            decision, self._memories = decide_all(seen, self._memories, self._settings, self._api.now())
            took = time.monotonic() - started
            self.last = decision
            self._narrator.tell_contact(self._observer.lost)
            self._narrator.tell(decision, self._deadline - self._api.now())
            if self._settings.dry_run:
                self._tell_what_would_be_done(decision)
                return decision
            if decision.final and (final := self._confirmed(decision)):
                return final
            self._act(decision)
            time.sleep(min(LONGEST_PAUSE_SECONDS, PAUSE_FACTOR * took))
            self._observer.wait(TICK_SECONDS)

    def _with_what_was_not_seen(self, decision: Decision) -> Decision:
        """Name the cause where the time ran out while the API server could not be read."""
        lost = self._observer.lost
        if decision.verdict is not Verdict.DEADLINE or lost is None or lost.seconds < LOST_SECONDS:
            return decision
        return replace(decision, message=f"{decision.message}; {lost}", cause=Reason.API_UNREACHABLE)

    def _tell_what_would_be_done(self, decision: Decision) -> None:
        for action in decision.actions:
            if isinstance(action, DeletePod):
                log.info(
                    "dry run: would delete pod %s/%s: %s", action.pod.namespace, action.pod.name, action.pod.because
                )
            else:
                log.info("dry run: would restart the rollout of %s/%s", action.namespace, action.name)

    def _observe(self) -> Seen | Decision:
        """Give snapshots in which the pods of every consumer are seen; they may have come just now."""
        while True:
            if late := self._await_sync():
                return late
            consumers = self._observer.look_closer()
            self._subjects = {ds.uid: events.daemonset(ds) for found in consumers.values() for ds in found}
            if self._observer.synced:
                return self._observer.snapshot()

    def _confirmed(self, decision: Decision) -> Decision | None:
        """Believe an end only if a second, consistent read agrees: a watch may be behind, or cut off."""
        if decision.verdict is Verdict.DEADLINE:
            return decision
        if self._api.now() >= self._deadline:
            message = f"the time is up, and a second read could not confirm: {messages.headline(decision)}"
            return replace(decision, verdict=Verdict.DEADLINE, reason=Reason.TIME_UP, message=message)
        if time.monotonic() < self._confirm_after:
            return None
        self._confirm_after = time.monotonic() + CONFIRM_AGAIN_SECONDS
        try:
            again = self._observer.read_again(self._left)
            second, _memories = decide_all(again, self._memories, self._settings, self._api.now())
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm %s yet: %s", decision.verdict, error)
            return None
        if second.verdict is not decision.verdict:
            log.info("a second read does not agree: %s", messages.headline(second))
            return None
        return second

    def _act(self, decision: Decision) -> None:
        """Do what was decided, unless what it was decided upon may be long past."""
        if self._observer.lost is None:
            self._account(self._actor.act(decision.actions, self._left))

    def _settle(self, seen: Seen) -> None:
        """Learn what came of writes whose answer was lost."""
        self._account(self._actor.settle({pod.uid for one in seen.values() for pod in one.consumer_pods if pod.live}))

    def _account(self, deeds: Iterable[Deed]) -> None:
        """Remember each deed at once, then tell them: events come last, so that they hold up no restart."""
        told: list[Deed] = []
        for deed in deeds:
            self._remember(deed)
            told += [deed] if deed.note else []
        for deed in told:
            subjects = (self._subjects.get(deed.daemonset_uid), self._job.subject if self._job else None)
            for subject in filter(None, subjects):
                self._teller.tell(subject, EventReason.STALE_PLUGIN_RESTARTED, deed.note, about=deed.about)

    def _remember(self, deed: Deed) -> None:
        """Note what was asked for, with every stack that asked: otherwise it would ask again."""
        for stack, node, pod in _restarted_by(deed.action):
            memory = self._memories[stack]
            trouble = deed.trouble
            asked = memory.troubled(pod, trouble) if trouble else memory.asked(node, pod, self._api.now(), deed.refused)
            self._memories[stack] = asked

    @property
    def _left(self) -> float:
        """Seconds until the deadline."""
        return (self._deadline - self._api.now()).total_seconds()

    @property
    def _deadline(self) -> datetime:
        return self._settings.deadline(self._started)

    def _exit_code(self, decision: Decision) -> int:
        if self._settings.dry_run and decision.verdict is Verdict.WAIT:
            return 0
        if succeeded(decision, self._settings):
            return 0
        return EXIT_DEADLINE if decision.verdict is Verdict.DEADLINE else EXIT_FAILED

    def tell_end(self, decision: Decision) -> None:
        """Put the end of the run where deployers look."""
        self._teller.last_words()
        note = messages.headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision)}"
        if self._job:
            self._teller.tell(self._job.subject, decision.reason, note, warning=decision.unhappy)
        if self.restarted or decision.unhappy:
            for subject in self._subjects.values():
                self._teller.tell(subject, decision.reason, note, warning=decision.unhappy)


def _restarted_by(action: Action) -> Iterator[tuple[str, str, StalePod]]:
    """Give the pods that an action restarts, with their nodes, for each stack that asked for it."""
    for one in (action, *action.also):
        pods = ((one.node, one.pod),) if isinstance(one, DeletePod) else one.pods
        yield from ((one.stack, node, pod) for node, pod in pods)
