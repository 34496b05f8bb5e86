"""The Job: run until done, confirm it by a second read, or delegate to the controller.

The Job restarts nothing, and the deployment tool does not wait for the hours that a large fleet takes. The Job succeeds
when three things are true: the operator has rendered the current policy, it will not render a second time, and an
active controller has observed exactly this state.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.decide import done
from hook.decide.decide import chosen, decide_all, first_look, look_first, succeeded
from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, headline
from hook.decide.state import Timers
from hook.errors import ClusterError, PermissionDeniedError
from hook.format import as_text
from hook.kube import retry
from hook.kube.events import Regarding
from hook.objects.decoding import MalformedObjectError
from hook.run import report, status
from hook.run.loop import ReconcileLoop
from hook.run.report import LOST_SECONDS, ProgressReporter
from hook.run.status import epoch

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.decide import Seen
    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.kube.events import EventRecorder, Findable
    from hook.kube.owners import Job
    from hook.run.status import ControllerStatus, LeaseStatus

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

    def __init__(self, api: Api, cache: Cache, settings: Settings, recorder: EventRecorder, job: Job | None) -> None:
        self._api, self._cache, self._settings, self._recorder, self._job = api, cache, settings, recorder, job
        regarding = [Regarding(api, target) for target in settings.regarding]
        self._reporter = ProgressReporter(recorder, job.subject if job else None, regarding)
        self._rounds = ReconcileLoop(api, cache, settings, self._reporter, self._started)
        self._confirm_after = 0.0
        self.last = self._rounds.last

    @property
    def restarted(self) -> int:
        """Return how many plugins this run restarted."""
        return self._rounds.restarter.restarted

    def run(self) -> Outcome:
        """Run until done. Raises ClusterError if the cluster cannot be read or written."""
        self._cache.end = time.monotonic() + self._left
        self._cache.look_at_intent()
        decision = self._first_look()
        if decision is None:
            self._cache.look_at_fleet()
            decision = self._loop()
        self.last = decision = self._with_what_was_not_seen(decision)
        return Outcome(decision, self._exit_code(decision))

    def _first_look(self) -> Decision | None:
        """Wait for the first lists. Return a decision if they prove that the run is pointless."""
        while not self._cache.synced:
            if late := self._late():
                return late
            self._rounds.await_sight()
        return look_first(self._cache.snapshot(), self._settings)

    def _late(self) -> Decision | None:
        """Return the decision on a run whose time is up before the cluster could be read, else None."""
        if self._api.now() < self._deadline:
            return None
        return Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up before the cluster could be read")

    def _loop(self) -> Decision:
        while True:
            seen = self._rounds.observe()
            if seen is None:
                if late := self._late():
                    return late
                # Retry discovery that failed before.
                self._cache.look_at_fleet()
                self._rounds.await_sight()
                continue
            self._rounds.begin(self._started)
            self.last = decision = self._rounds.decide(seen)
            self._reporter.tell(decision, self._deadline - self._api.now())
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
        lost = self._cache.lost
        if decision.phase is not Phase.DEADLINE or lost is None or lost.seconds < LOST_SECONDS:
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
        if decision.phase is Phase.DEADLINE:
            return decision
        if self._api.now() >= self._deadline:
            message = f"the time is up before a second read confirmed: {headline(decision)}"
            return replace(decision, phase=Phase.DEADLINE, reason=Reason.TIME_UP, message=message)
        if time.monotonic() < self._confirm_after:
            return None
        self._confirm_after = time.monotonic() + CONFIRM_AGAIN_SECONDS
        try:
            again = self._cache.read_again(self._left)
            second, _memories = decide_all(again, self._rounds.memories, self._settings, self._api.now())
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm %s yet: %s", decision.phase, error)
            return None
        if second.phase is not decision.phase:
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
        if self._settings.dry_run and decision.phase is Phase.WAIT:
            return 0
        if succeeded(decision, self._settings):
            return 0
        return EXIT_DEADLINE if decision.phase is Phase.DEADLINE else EXIT_FAILED

    def stop_telling(self) -> None:
        """Stop without an Event about the end. Flush the Events of the last restarts."""
        self._rounds.stop_telling()

    def tell_end(self, decision: Decision) -> None:
        """Write Events about the end of the run."""
        self._recorder.flush()
        note = headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision)}"
        subjects: list[Findable] = [self._job.subject] if self._job else []
        if self.restarted or decision.unhappy:
            subjects += [*self._rounds.subjects.values(), *self._reporter.regarding]
        for subject in subjects:
            self._recorder.tell(subject, decision.reason, note, warning=decision.unhappy)
        self._recorder.await_found(self._left + self._settings.margin.total_seconds())


LOOK_SECONDS: Final = 2.0
"""Time between two reads of the Lease: the renewal interval of a leader."""
ANSWER_SECONDS: Final = 5.0
"""Timeout of one read of the Lease."""
ALIVE_SECONDS: Final = 20.0
"""Time without a renewal after which the leader is gone: it loses the Lease after 15 s."""
NO_LOOK: Final = "has not read the fleet yet, or cannot"


@dataclass(frozen=True, slots=True)
class Standing:
    """State of the controller, as its Lease shows it."""

    why: str
    """Why the Job cannot delegate to it. Empty if it can."""
    led: LeaseStatus | None = None


class LeaseObserver:
    """Observes the controller's Lease. The controller is alive if it renews the Lease. No clocks are compared."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._where = api, (namespace, name)
        self._next = float("-inf")
        self._began: float | None = None
        """When the Lease was first seen with a holder."""
        self._renewed_at = float("-inf")
        self._led: LeaseStatus | None = None
        self._trouble = ""

    def standing(self, epochs: Mapping[str, str]) -> Standing:
        """Return whether an active controller has observed these spec hashes. Raises PermissionDeniedError."""
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + LOOK_SECONDS
        led, lease = self._led, "/".join(self._where)
        if self._trouble or led is None:
            return Standing(self._trouble or f"there is no Lease {lease}: no controller has run yet")
        now = time.monotonic()
        if not led.holder or now - self._renewed_at > ALIVE_SECONDS:
            if led.holder and self._began is not None and now - self._began <= ALIVE_SECONDS:
                return Standing(f"checking whether controller {led.holder} still renews the Lease {lease}")
            last = f" (the last leader was {led.holder})" if led.holder else ""
            return Standing(f"no controller is active: the Lease {lease} is not renewed{last}")
        if led.record is None:
            return Standing(f"controller {led.holder} leads, but {led.problem}")
        behind = NO_LOOK if led.inherited else _behind(led.record, epochs)
        return Standing(f"controller {led.holder} {behind}" if behind else "", led)

    def _look(self) -> None:
        retrier = retry.retrying(retry.WRITING, time.sleep)
        try:
            led = retrier(status.led, self._api, *self._where, ANSWER_SECONDS)
        except PermissionDeniedError:
            raise
        except (ClusterError, MalformedObjectError) as error:
            self._trouble = f"the Lease {'/'.join(self._where)} cannot be read: {error}"
            return
        self._trouble = ""
        if led is not None and led.holder and self._began is None:
            self._began = time.monotonic()
        if led is not None and self._led is not None and led.renewal != self._led.renewal:
            self._renewed_at = time.monotonic()
        self._led = led


def _behind(record: ControllerStatus, epochs: Mapping[str, str]) -> str:
    """Return why a controller has not observed these spec hashes, or does not act, or ""."""
    unknown = sorted(epochs.keys() - record.epochs.keys())
    if unknown:
        return f"does not refresh stack {unknown[0]}" if record.epochs else NO_LOOK
    other = [stack for stack, wanted in epochs.items() if record.epochs[stack] != wanted]
    if other:
        return f"has not observed this spec of stack {other[0]} yet"
    stopped = sorted(epochs.keys() & record.breakers.keys())
    return f"restarts nothing, its circuit breaker is open: {record.breakers[stopped[0]].why}" if stopped else ""


class Delegation(Runner):
    """Waits until the policy is rendered and an active controller has observed it."""

    lease_observer: LeaseObserver
    """Observes the controller to delegate to."""
    _missing = ""

    def _act(self, _decision: Decision) -> None:
        """Do nothing: the controller executes restarts."""

    def _final(self, decision: Decision, seen: Seen) -> Decision | None:
        if decision.phase is Phase.DEADLINE and self._missing:
            message = f"the time is up, and no controller took over: {self._missing}"
            return replace(decision, message=message, cause=Reason.CONTROLLER_MISSING)
        return super()._final(decision, seen) or self._handed_over(decision, seen)

    def _handed_over(self, decision: Decision, seen: Seen) -> Decision | None:
        epochs = self._epochs(seen)
        if epochs is None:
            self._missing = ""
            return None
        found = self.lease_observer.standing(epochs)
        if found.why != self._missing:
            self._missing = found.why
            log.info("waiting for the controller: %s", found.why)
        if found.led is None or found.led.record is None or found.why or not self._again(epochs):
            return None
        record = found.led.record
        about = f", about {as_text(timedelta(seconds=record.about))}" if record.about is not None else ""
        message = f"delegated to controller {found.led.holder}, {record.remaining} nodes remaining{about}"
        return replace(decision, phase=Phase.DONE, reason=Reason.DELEGATED, message=message, actions=())

    def _epochs(self, seen: Seen) -> dict[str, str] | None:
        """Return the spec hash of each stack; None while one is not rendered, or may be rendered again."""
        epochs: dict[str, str] = {}
        for stack in chosen(self._settings):
            if first_look(seen[stack.name], self._settings, stack) is not None:
                continue
            fleet = index(seen[stack.name], self._settings, stack, seen.get(stack.after))
            now = self._api.now()
            named = epoch(fleet)
            if not named or done.operator_blocker(fleet, Timers(self._rounds.memories[stack.name], now)):
                return None
            epochs[stack.name] = named
        return epochs

    def _again(self, epochs: dict[str, str]) -> bool:
        """Return whether a second, consistent read gives the same spec hashes. A watch may be behind."""
        try:
            return self._epochs(self._cache.read_again(self._left)) == epochs
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm the spec yet: %s", error)
            return False
