"""Run of the Job: reconcile until done, confirm the end, and report it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hook import report
from hook.cluster.regarding import Regarding
from hook.core.decide import succeeded
from hook.core.reasons import Reason
from hook.core.together import decide_all, look_first
from hook.core.verdicts import Decision, DeletePod, Verdict, headline
from hook.errors import ClusterError, PermissionDeniedError
from hook.narration import LOST_SECONDS, Narrator
from hook.rounds import Rounds

if TYPE_CHECKING:
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.cluster.events import Findable, Teller
    from hook.cluster.jobs import Job
    from hook.cluster.observer import Observer
    from hook.core.together import Seen
    from hook.settings import Settings

log = logging.getLogger(__name__)

CONFIRM_AGAIN_SECONDS: Final = 5.0
"""Time between two confirming reads."""
EXIT_FAILED: Final = 3
EXIT_DEADLINE: Final = 124
"""Exit code at the deadline, as of ``timeout(1)`` and cert-manager's startupapicheck."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run."""

    decision: Decision
    exit_code: int


class Runner:
    """One run of the Job. It keeps the last decision for the report."""

    def __init__(self, api: Api, observer: Observer, settings: Settings, teller: Teller, job: Job | None) -> None:
        self._api, self._observer, self._settings, self._teller, self._job = api, observer, settings, teller, job
        regarding = [Regarding(api, target) for target in settings.regarding]
        self._narrator = Narrator(teller, job.subject if job else None, regarding)
        self._rounds = Rounds(api, observer, settings, self._narrator, self._started)
        self._confirm_after = 0.0
        self.last = self._rounds.last

    @property
    def restarted(self) -> int:
        """Return how many plugins this run restarted."""
        return self._rounds.actor.restarted

    def run(self) -> Outcome:
        """Run until done. Raises ClusterError if the cluster cannot be read or written."""
        self._observer.end = time.monotonic() + self._left
        self._observer.look_at_intent()
        decision = self._first_look()
        if decision is None:
            self._observer.look_at_fleet()
            decision = self._loop()
        self.last = decision = self._with_what_was_not_seen(decision)
        return Outcome(decision, self._exit_code(decision))

    def _first_look(self) -> Decision | None:
        """Wait for the first lists. Return a decision if they prove that the run is pointless."""
        while not self._observer.synced:
            if late := self._late():
                return late
            self._rounds.await_sight()
        return look_first(self._observer.snapshot(), self._settings)

    def _late(self) -> Decision | None:
        """Return the decision on a run whose time is up before the cluster could be read, else None."""
        if self._api.now() < self._deadline:
            return None
        return Decision(Verdict.DEADLINE, Reason.TIME_UP, "the time is up before the cluster could be read")

    def _loop(self) -> Decision:
        while True:
            seen = self._rounds.observe()
            if seen is None:
                if late := self._late():
                    return late
                # Retry discovery that failed before.
                self._observer.look_at_fleet()
                self._rounds.await_sight()
                continue
            self._rounds.begin(self._started)
            self.last = decision = self._rounds.decide(seen)
            self._narrator.tell(decision, self._deadline - self._api.now())
            if self._settings.dry_run:
                self._tell_what_would_be_done(decision)
                return decision
            if final := self._final(decision, seen):
                return final
            self._act(decision)
            self._rounds.rest()

    def _final(self, decision: Decision, _seen: Seen) -> Decision | None:
        """Return the final decision, once the run may end; else None."""
        return self._confirmed(decision) if decision.final else None

    def _act(self, decision: Decision) -> None:
        self._rounds.act(decision, self._left)

    def _with_what_was_not_seen(self, decision: Decision) -> Decision:
        """Return the decision, with the cause if the time ran out while the cache was out of sync."""
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

    def _confirmed(self, decision: Decision) -> Decision | None:
        """Return the final decision if a second, consistent read agrees, else None. A watch may be behind or broken."""
        if decision.verdict is Verdict.DEADLINE:
            return decision
        if self._api.now() >= self._deadline:
            message = f"the time is up before a second read confirmed: {headline(decision)}"
            return replace(decision, verdict=Verdict.DEADLINE, reason=Reason.TIME_UP, message=message)
        if time.monotonic() < self._confirm_after:
            return None
        self._confirm_after = time.monotonic() + CONFIRM_AGAIN_SECONDS
        try:
            again = self._observer.read_again(self._left)
            second, _memories = decide_all(again, self._rounds.memories, self._settings, self._api.now())
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm %s yet: %s", decision.verdict, error)
            return None
        if second.verdict is not decision.verdict:
            log.info("a second read of the cluster does not confirm the end: %s", headline(second))
            return None
        return second

    @property
    def _left(self) -> float:
        """Return the seconds until the deadline."""
        return (self._deadline - self._api.now()).total_seconds()

    @property
    def _started(self) -> datetime:
        """Return the start of the Job, which all its retries share, or of this process."""
        return self._job.started if self._job else self._api.began

    @property
    def _deadline(self) -> datetime:
        return self._settings.deadline(self._started)

    def _exit_code(self, decision: Decision) -> int:
        if self._settings.dry_run and decision.verdict is Verdict.WAIT:
            return 0
        if succeeded(decision, self._settings):
            return 0
        return EXIT_DEADLINE if decision.verdict is Verdict.DEADLINE else EXIT_FAILED

    def stop_telling(self) -> None:
        """Stop without an Event about the end. Flush the Events of the last restarts."""
        self._rounds.stop_telling()

    def tell_end(self, decision: Decision) -> None:
        """Write Events about the end of the run."""
        self._teller.last_words()
        note = headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision)}"
        subjects: list[Findable] = [self._job.subject] if self._job else []
        if self.restarted or decision.unhappy:
            subjects += [*self._rounds.subjects.values(), *self._narrator.regarding]
        for subject in subjects:
            self._teller.tell(subject, decision.reason, note, warning=decision.unhappy)
        self._teller.await_found(self._left + self._settings.margin.total_seconds())
