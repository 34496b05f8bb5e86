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
from hook.decide.decide import chosen, indexed, succeeded
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase, headline
from hook.decide.state import Timers
from hook.errors import ClusterError, PermissionDeniedError
from hook.format import as_text
from hook.kube import retry
from hook.objects.decoding import MalformedObjectError
from hook.run import report, status, statusobject
from hook.run.loop import ReconcileLoop
from hook.run.report import LOST_SECONDS, ProgressReporter
from hook.run.status import spec_hash
from hook.run.statusobject import StatusPhase
from hook.run.workloads import WorkloadObserver

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Fleet
    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.kube.events import EventRecorder, Job
    from hook.run.status import ControllerStatus, LeaseStatus
    from hook.run.statusobject import StatusObject

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
    """One run of the Job. It keeps the last decision for the report."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a run is made of
        self,
        api: Api,
        cache: Cache,
        settings: Settings,
        recorder: EventRecorder,
        job: Job | None,
        status_object: StatusObject | None = None,
    ) -> None:
        self._api, self._cache, self._settings, self._recorder, self._job = api, cache, settings, recorder, job
        self._status_object = status_object
        self._reporter = ProgressReporter(recorder, job.reference if job else None)
        self._loop = ReconcileLoop(api, cache, settings, self._reporter, self._started)
        self.workloads = WorkloadObserver(api, cache, settings, status_object, silent=settings.dry_run)
        self._delegation: Delegation | None = None
        self._confirm_after = 0.0
        self.last = self._loop.last

    @property
    def restarted(self) -> int:
        """Return how many plugins this run restarted."""
        return self._loop.restarter.restarted

    def run(self, lease_observer: LeaseObserver | None = None) -> Outcome:
        """Run until done, or until the controller that is observed takes over.

        Raises ClusterError if the cluster cannot be read or written.
        """
        if lease_observer is not None:
            self._delegation = Delegation(self._cache, self._settings, self._loop, lease_observer)
        self._cache.end = time.monotonic() + self._left
        decision = self._late()
        if decision is None:
            self._cache.watch_fleet()
            decision = self._reconcile()
        self.last = decision = self._with_cause(decision)
        return Outcome(decision, self._exit_code(decision))

    def _late(self) -> Decision | None:
        """Return the decision on a run whose time is up before the cluster could be read, else None."""
        if self._api.now() < self._deadline:
            return None
        message = "the time is up before the cluster could be read"
        return Decision(Phase.DEADLINE, Reason.TIME_UP, message, stack=self._settings.drivers[0])

    def _reconcile(self) -> Decision:
        while True:
            snapshots = self._loop.observe()
            if snapshots is None:
                if late := self._late():
                    return late
                # Retry discovery that failed before.
                self._cache.watch_fleet()
                self._loop.await_sync()
                continue
            self._loop.begin(self._started)
            self.last = decision = self._loop.decide(snapshots)
            self._reporter.report(decision, self._deadline - self._api.now(), self._estimate)
            if self._status_object is not None:
                self._status_object.show(decision, snapshots, self._settings)
            if self._settings.dry_run:
                self._log_dry_run(decision)
            final = decision if self._settings.dry_run else self._final(decision)
            self.workloads.observe(
                snapshots, self._loop.memories, now=final is not None and final.phase is not Phase.DEADLINE
            )
            if final is not None:
                return final
            if self._delegation is None:
                self._loop.act(decision, self._left)
            self._loop.rest()

    def _estimate(self) -> int | None:
        """Return the estimated seconds for the remaining nodes. A Job that delegates ends before they are verified."""
        from hook.plan.timing import remaining_seconds  # noqa: PLC0415 - most Jobs end before the first summary

        now = self._api.now()
        return None if self._delegation else remaining_seconds(self._loop.fleets, self.last, self._settings, now)

    def _final(self, decision: Decision) -> Decision | None:
        """Return the final decision, once the run may end; else None."""
        if self._delegation is None:
            return self._confirmed(decision) if decision.final else None
        if decision.phase is Phase.DEADLINE:
            return self._delegation.late(decision)
        confirmed = self._confirmed(decision) if decision.final else None
        return confirmed or self._delegation.delegated(decision, self._api.now(), self._left)

    def _with_cause(self, decision: Decision) -> Decision:
        """Return the decision, with the cause if the time ran out while the cache was out of sync."""
        lost = self._cache.out_of_sync
        if decision.phase is not Phase.DEADLINE or lost is None or lost.seconds < LOST_SECONDS:
            return decision
        return replace(decision, message=f"{decision.message}; {lost}", cause=Reason.API_UNREACHABLE)

    def _log_dry_run(self, decision: Decision) -> None:
        for action in decision.actions:
            pod = action.pod
            log.info("dry run: would delete pod %s/%s: %s", pod.namespace, pod.name, pod.because)

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
            again = self._cache.read_consistently(self._left)
            second = self._loop.decide_in_full(again)
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

    def show_end(self, outcome: Outcome, run_id: str) -> bool:
        """Write the end of the run to the status object. It is written once more if the API server was busy.

        Return whether the run may end: a gate would let others pass if a delegation is not written.
        """
        if self._status_object is None:
            return True
        decision, exit_code = outcome.decision, outcome.exit_code
        left = (self._left + self._settings.margin.total_seconds()) / 2
        seconds = min(STATUS_SECONDS, left) if exit_code in RESULTS else 0.0
        self._status_object.end(decision, None if exit_code in RESULTS else StatusPhase.UNKNOWN, seconds)
        if exit_code == 0 and self._delegation is not None and decision.reason is Reason.DELEGATED:
            spec = statusobject.delegated(self._delegation.spec_hashes)
            run = {"startedRunId": run_id, "succeededRunId": "", "delegatedRunId": run_id, "delegatedSpec": spec}
            return self._status_object.note_run(seconds, **run)
        if exit_code == 0 and decision.phase is not Phase.DEADLINE:
            self._status_object.note_run(seconds, startedRunId=run_id, succeededRunId=run_id)
        return True

    def stop_events(self) -> None:
        """Stop without an Event about the end. Flush the Events of the last restarts."""
        self._loop.stop_events()
        self.workloads.stop()

    def report_end(self, decision: Decision) -> None:
        """Write Events about the end of the run."""
        self._recorder.flush()
        note = headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision)}"
        subjects = [self._job.reference] if self._job else []
        if self.restarted or decision.unhappy:
            subjects += self._loop.subjects.values()
        for subject in subjects:
            self._recorder.event(subject, decision.reason, note, warning=decision.unhappy)
        self._recorder.shutdown(self._left + self._settings.margin.total_seconds())
        self.workloads.shutdown(self._left + self._settings.margin.total_seconds())


LOOK_SECONDS: Final = 2.0
"""Time between two reads of the Lease: the renewal interval of a leader."""
ANSWER_SECONDS: Final = 5.0
"""Timeout of one read of the Lease."""
ALIVE_SECONDS: Final = 20.0
"""Time without a renewal after which the leader is gone: it loses the Lease after 15 s."""
NOT_READ: Final = "has not read the fleet yet, or cannot"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a Job can delegate to the controller."""

    blocker: str
    """Why not. Empty if it can."""
    lease: LeaseStatus | None = None


class LeaseObserver:
    """Observes the controller's Lease. The controller is alive if it renews the Lease. No clocks are compared."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._where = api, (namespace, name)
        self._next = float("-inf")
        self._began: float | None = None
        """When the Lease was first seen with a holder."""
        self._renewed_at = float("-inf")
        self._lease: LeaseStatus | None = None
        self._trouble = ""

    def readiness(self, wanted: Mapping[str, str]) -> Readiness:
        """Return whether an active controller has observed these spec hashes. Raises PermissionDeniedError."""
        if time.monotonic() >= self._next:
            self._read()
            self._next = time.monotonic() + LOOK_SECONDS
        lease, name = self._lease, "/".join(self._where)
        if self._trouble or lease is None:
            return Readiness(self._trouble or f"there is no Lease {name}: no controller has run yet")
        now = time.monotonic()
        if not lease.holder or now - self._renewed_at > ALIVE_SECONDS:
            if lease.holder and self._began is not None and now - self._began <= ALIVE_SECONDS:
                return Readiness(f"checking whether controller {lease.holder} still renews the Lease {name}")
            last = f" (the last leader was {lease.holder})" if lease.holder else ""
            return Readiness(f"no controller is active: the Lease {name} is not renewed{last}")
        if lease.status is None:
            return Readiness(f"controller {lease.holder} leads, but {lease.problem}")
        behind = NOT_READ if lease.outdated else _behind(lease.status, wanted)
        return Readiness(f"controller {lease.holder} {behind}" if behind else "", lease)

    def _read(self) -> None:
        retrier = retry.retrying(retry.WRITE, time.sleep)
        try:
            lease = retrier(status.get_lease, self._api, *self._where, ANSWER_SECONDS)
        except PermissionDeniedError:
            raise
        except (ClusterError, MalformedObjectError) as error:
            self._trouble = f"the Lease {'/'.join(self._where)} cannot be read: {error}"
            return
        self._trouble = ""
        if lease is not None and lease.holder and self._began is None:
            self._began = time.monotonic()
        if lease is not None and self._lease is not None and lease.renewal != self._lease.renewal:
            self._renewed_at = time.monotonic()
        self._lease = lease


def _behind(observed: ControllerStatus, wanted: Mapping[str, str]) -> str:
    """Return why a controller has not observed these spec hashes, or ""."""
    unknown = sorted(wanted.keys() - observed.spec_hashes.keys())
    if unknown:
        return f"does not refresh driver {unknown[0]}" if observed.spec_hashes else NOT_READ
    other = [driver for driver, spec in wanted.items() if observed.spec_hashes[driver] != spec]
    return f"has not observed this spec of driver {other[0]} yet" if other else ""


class Delegation:
    """Decides when a Job may leave the restarts to the controller."""

    def __init__(self, cache: Cache, settings: Settings, loop: ReconcileLoop, lease_observer: LeaseObserver) -> None:
        self._cache, self._settings, self._loop, self._lease_observer = cache, settings, loop, lease_observer
        self._blocker = ""
        """Why the controller does not take over."""
        self.spec_hashes: Mapping[str, str] = {}
        """The spec hashes that the controller must observe."""

    def late(self, decision: Decision) -> Decision:
        """Return the decision at the deadline, with its cause if the Job waited for the controller alone."""
        if not self._blocker:
            return decision
        message = f"the time is up, and no controller took over: {self._blocker}"
        return replace(decision, message=message, cause=Reason.CONTROLLER_MISSING)

    def delegated(self, decision: Decision, now: datetime, left: float) -> Decision | None:
        """Return the final decision once an active controller has observed the rendered spec, else None."""
        wanted = self._spec_hashes(self._loop.fleets, now)
        if wanted is None:
            self._blocker = ""
            return None
        self.spec_hashes = wanted
        found = self._lease_observer.readiness(wanted)
        if found.blocker != self._blocker:
            self._blocker = found.blocker
            log.info("waiting for the controller: %s", found.blocker)
        if found.lease is None or found.lease.status is None or found.blocker or not self._confirmed(wanted, now, left):
            return None
        eta, remaining = found.lease.status.eta_seconds, found.lease.status.remaining
        about = f", about {as_text(timedelta(seconds=eta))}" if eta is not None else ""
        message = f"delegated to controller {found.lease.holder}, {remaining} nodes remaining{about}"
        return replace(decision, phase=Phase.DONE, reason=Reason.DELEGATED, message=message, actions=())

    def _spec_hashes(self, fleets: Mapping[str, Fleet], now: datetime) -> dict[str, str] | None:
        """Return the spec hash of each driver; None while one is not rendered, or may be rendered again."""
        hashes: dict[str, str] = {}
        for stack in chosen(self._settings):
            fleet = fleets[stack.name]
            if done.nothing_to_protect(fleet.context) is not None:
                continue
            found = spec_hash(fleet)
            if not found or done.operator_blocker(fleet, Timers(self._loop.memories[stack.name], now)):
                return None
            hashes[stack.name] = found
        return hashes

    def _confirmed(self, wanted: dict[str, str], now: datetime, left: float) -> bool:
        """Return whether a second, consistent read gives the same spec hashes. A watch may be behind."""
        try:
            again = indexed(self._cache.read_consistently(left), self._settings)
            return self._spec_hashes(again, now) == wanted
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm the spec yet: %s", error)
            return False
