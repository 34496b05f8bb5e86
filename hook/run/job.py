"""The Job: run until done, and confirm it by a second read."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hook.decide.reasons import EventReason, Reason
from hook.decide.result import Decision, Phase, headline
from hook.decide.run import deadline, margin, succeeded
from hook.errors import ApiError, UntrustedError
from hook.kube.events import EXIT_SECONDS, FLUSH_SECONDS
from hook.objects.stacks import STACKS
from hook.run import report, workloads
from hook.run.clock import Clock
from hook.run.loop import ReconcileLoop
from hook.run.report import ProgressReporter
from hook.run.statusobject import StatusPhase
from hook.run.workloads import WorkloadObserver

if TYPE_CHECKING:
    from datetime import datetime

    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.kube.events import EventRecorder
    from hook.kube.own import Job
    from hook.run.statusobject import StatusObject
    from hook.run.taints import TaintKeeper
    from hook.settings import Settings

log = logging.getLogger(__name__)

CONFIRM_AGAIN_SECONDS: Final = 5.0
"""Time between two confirming reads."""
EXIT_FAILED: Final = 3
EXIT_DEADLINE: Final = 124
"""Exit code at the deadline, as of ``timeout(1)`` and cert-manager's startupapicheck."""
RESULTS: Final = frozenset({0, EXIT_FAILED, EXIT_DEADLINE})
"""Exit codes of a run that has a result. After any other one the Job tries again."""
STATUS_SECONDS: Final = 5.0
"""Time to write the end of a run to the status object, retries included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run."""

    decision: Decision
    exit_code: int


class Runner:
    """One run of the Job."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a run is made of
        self,
        api: Api,
        cache: Cache,
        settings: Settings,
        recorder: EventRecorder,
        job: Job | None,
        status_object: StatusObject | None = None,
        clock: Clock | None = None,
        taints: TaintKeeper | None = None,
    ) -> None:
        self._cache, self._settings, self._recorder, self._job = cache, settings, recorder, job
        self._status_object, self._clock, self._taints = status_object, clock or Clock(), taints
        if job is not None and job.started is not None:
            self._clock.count_from(job.started)
        self._reporter = ProgressReporter(recorder, job.reference if job else None)
        self._loop = ReconcileLoop(api, cache, settings, self._reporter, self._clock)
        self.workloads = WorkloadObserver(cache, settings)
        self._confirm_after = 0.0

    @property
    def last(self) -> Decision:
        """Return the last decision."""
        return self._loop.last

    @property
    def restarted(self) -> int:
        """Return how many plugins this run restarted."""
        return self._loop.restarter.restarted

    def run(self) -> Outcome:
        """Run until done. Raises ApiError if the cluster cannot be read or written."""
        decision = self._late()
        if decision is None:
            self._cache.start()
            if self._taints is not None:
                self._taints.start()
            try:
                decision = self._reconcile()
            except ApiError as error:
                # The patience with an API server that does not answer may end at the same moment as the time.
                late = self._late()
                if late is None or not error.unreachable:
                    raise
                decision = late
        decision = self._with_cause(decision)
        return Outcome(decision, self._exit_code(decision))

    def _late(self) -> Decision | None:
        """Return the decision on a run whose time is up before the cluster could be read, else None."""
        if self._clock.now() < self._deadline:
            return None
        message = "the time is up before the cluster could be read"
        return Decision(Phase.DEADLINE, Reason.TIME_UP, message)

    def _reconcile(self) -> Decision:
        while True:
            snapshot = self._loop.observe()
            if snapshot is None:
                if late := self._late():
                    return late
                self._loop.await_sync()
                continue
            decision = self._loop.decide(snapshot)
            self._reporter.report(decision, self._deadline - self._clock.now())
            if self._settings.dry_run:
                self._log_dry_run(decision)
            elif decision.final:
                decision = self._confirmed(decision)
            ends = decision.final or self._settings.dry_run
            affected = self.workloads.observe(snapshot, now=ends and decision.phase is not Phase.DEADLINE)
            if self._status_object is not None:
                self._status_object.show(decision, affected, snapshot, self._settings)
            if ends:
                return decision
            self._loop.act(decision, self._left)
            if self._taints is not None:
                self._taints.reconcile(decision, self._loop.fleet)
            self._loop.rest()

    def _with_cause(self, decision: Decision) -> Decision:
        """Return the decision, with the cause if the time ran out while the cache was out of sync."""
        lost = self._cache.out_of_sync
        if decision.phase is not Phase.DEADLINE or lost is None or not lost.lasting:
            return decision
        return replace(decision, message=f"{decision.message}; {lost}", cause=Reason.API_UNREACHABLE)

    def _log_dry_run(self, decision: Decision) -> None:
        for action in decision.actions:
            pod = action.pod
            log.info("dry run: would delete pod %s/%s: %s", pod.namespace, pod.name, action.because)

    def _confirmed(self, decision: Decision) -> Decision:
        """Return the final decision if a second, consistent read agrees, because a watch may be behind or broken.

        Otherwise return the same decision as one that waits.
        """
        waiting = replace(decision, phase=Phase.WAIT)
        if decision.phase is Phase.DEADLINE:
            return decision
        if self._clock.now() >= self._deadline:
            message = f"the time is up before a second read confirmed: {headline(decision)}"
            return replace(decision, phase=Phase.DEADLINE, reason=Reason.TIME_UP, message=message)
        if time.monotonic() < self._confirm_after:
            return waiting
        self._confirm_after = time.monotonic() + CONFIRM_AGAIN_SECONDS
        try:
            again = self._cache.read_consistently(self._left)
            second = self._loop.decide_in_full(again)
        except ApiError as error:
            if error.denied or isinstance(error, UntrustedError):
                raise
            log.warning("cannot confirm %s yet: %s", decision.phase, error)
            return waiting
        if second.phase is not decision.phase:
            log.info("a second read of the cluster does not confirm the end: %s", headline(second))
            return waiting
        return second

    @property
    def _left(self) -> float:
        """Return the seconds until the deadline."""
        return (self._deadline - self._clock.now()).total_seconds()

    @property
    def seconds_to_report(self) -> float:
        """Return the seconds until the time of the Job is over. They are for what is written about the end."""
        return self._left + margin(self._settings).total_seconds()

    @property
    def _deadline(self) -> datetime:
        return deadline(self._settings, self._clock.began)

    def _exit_code(self, decision: Decision) -> int:
        if self._settings.dry_run and decision.phase is Phase.WAIT:
            return 0
        if succeeded(decision, self._settings):
            return 0
        return EXIT_DEADLINE if decision.phase is Phase.DEADLINE else EXIT_FAILED

    def show_end(self, outcome: Outcome) -> None:
        """Write the end of the run to the status object. It is written once more if the API server was busy."""
        if self._status_object is None:
            return
        affected = self.workloads.affected
        left = self.seconds_to_report / 2
        if outcome.exit_code in RESULTS:
            self._status_object.end(outcome.decision, affected, seconds=min(STATUS_SECONDS, left))
        else:
            self._status_object.end(outcome.decision, affected, StatusPhase.UNKNOWN, 0.0)

    def stop_events(self) -> None:
        """Stop without an Event about the end. Flush the Events of the last restarts."""
        self._loop.stop_events()

    def report_end(self, decision: Decision) -> None:
        """Write Events about the end of the run."""
        self._recorder.flush()
        note = headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision, STACKS[self._settings.stack])}"
        subjects = [self._job.reference] if self._job else []
        if self.restarted or decision.unhappy:
            subjects += self._loop.subjects.values()
        for subject in subjects:
            self._recorder.event(subject, decision.reason, note, warning=decision.unhappy)
        if self._job and (affected := workloads.note(self.workloads.affected)):
            self._recorder.event(self._job.reference, EventReason.AFFECTED_WORKLOADS, affected, warning=True)
        self._recorder.flush(max(0.0, min(FLUSH_SECONDS, self.seconds_to_report - EXIT_SECONDS)))
