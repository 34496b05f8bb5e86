"""The controller: wait for the Lease, then reconcile until an error ends the process.

The controller survives outages, refusals and missing permissions. While they last it restarts nothing, and health and
metrics report them. It exits where only a new process helps: if it loses the Lease, if a response cannot be decoded, or
if the API server does not answer Lease requests for minutes. A new process reads credentials and certificates again.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from hook.decide.reasons import EventReason, Reason
from hook.decide.result import Decision, Phase, headline
from hook.errors import NO_ANSWER, ApiError, UntrustedError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.election import LeaderElector
from hook.kube.own import own_deployment
from hook.kube.taints import Release
from hook.objects.names import OWN_NAME
from hook.objects.stacks import STACKS
from hook.run import report, workloads
from hook.run.clock import Clock
from hook.run.loop import NOT_READ, TICK_SECONDS, ReconcileLoop
from hook.run.report import ProgressReporter
from hook.run.statusobject import StatusObject
from hook.run.taints import TaintKeeper
from hook.run.telemetry import ControllerState, Telemetry, serve
from hook.run.workloads import WorkloadObserver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hook.decide.workloads import Affected
    from hook.kube.client import Api
    from hook.kube.election import LeaderElectionConfig
    from hook.kube.events import ObjectReference
    from hook.objects import Snapshot
    from hook.objects.stacks import Stack
    from hook.settings import Settings

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 5.0
"""Longest wait between two reconciles while nothing changes and nothing is left to do. Watches report changes; only
grace periods end without one."""
SILENT_SECONDS: Final = 600.0
"""Time without an answer about the Lease after which a standby exits. A new process reads the cluster's certificate
again, which may have been replaced."""
SUMMARY_SECONDS: Final = 300.0
"""Time between two summaries of a fleet that waits. The log of a controller is kept for days."""
CALM: Final = frozenset({Phase.DONE, Phase.SKIP})


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the controller: its Lease, the Deployment that gets its Events, and its status object."""

    election: LeaderElectionConfig
    workload: str = ""
    status_name: str = ""
    """Name of the status object; empty without one."""
    release_name: str = OWN_NAME
    """Name of the release's objects."""


def own_identity() -> str:
    """Return an identity for the leader election: <hostname>_<random>.

    The host name alone is not unique: pods may share it, and a restarted container has the same. The other process may
    still act as leader.
    """
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{secrets.token_hex(4)}"


def begin(api: Api, settings: Settings, who: Identity, listen: str) -> Controller:
    """Start the server for metrics and health, and return the controller. Raises HookError."""
    telemetry = Telemetry(api.counters)
    server = serve(telemetry, listen)
    host = listen.rpartition(":")[0] or "0.0.0.0"  # noqa: S104 - for a log line
    log.info("metrics and health on http://%s:%d", host, server.server_port)
    return Controller(api, settings, who, telemetry)


class Controller:
    """The controller process."""

    def __init__(self, api: Api, settings: Settings, identity: Identity, telemetry: Telemetry) -> None:
        self._api, self._settings, self._identity, self._telemetry = api, settings, identity, telemetry
        self.lease = LeaderElector(api, identity.election, telemetry.health.try_for_the_lease)
        self._leading: Leader | None = None

    @property
    def last(self) -> Decision:
        """Return the last decision."""
        return self._leading.loop.last if self._leading else NOT_READ

    @property
    def restarted(self) -> int:
        """Return how many plugins this process restarted."""
        return self._leading.loop.restarter.restarted if self._leading else 0

    def run(self) -> NoReturn:
        """Run as standby, then as leader, until an error ends the process. Raises HookError."""
        self._api.fence = self.lease.fence
        self.lease.start()
        self._stand_by()
        log.info("leading: the Lease %s/%s is held", self.lease.config.namespace, self.lease.config.name)
        self._telemetry.leading(True)
        self._leading = Leader(self._api, self._settings, self._identity, self.lease, self._telemetry)
        self._leading.run()

    def stop(self) -> None:
        """Flush the Events for a short time, then release the Lease."""
        self._telemetry.leading(False)
        if self._leading:
            # Nothing is written without the Lease, and the next leader does not report these restarts.
            self._leading.loop.stop_events()
        self.lease.release()
        if self._leading:
            self._leading.cache.stop()

    def _stand_by(self) -> None:
        logged = ""
        while not self.lease.leading:
            if self.lease.ended:
                self.lease.check()
            if isinstance(self.lease.trouble, UntrustedError):
                raise self.lease.trouble
            if time.monotonic() - self.lease.answered > SILENT_SECONDS:
                silence = f"no answer about the Lease for {SILENT_SECONDS:.0f} s: {self.lease.trouble}"
                raise ApiError(NO_ANSWER, silence)
            now = str(self.lease.trouble or (f"{self.lease.holder} leads" if self.lease.holder else ""))
            if now not in ("", logged):
                logged = now
                log.info("standby: %s", now)
            self.lease.await_lease(TICK_SECONDS)


class Leader:
    """Reconcile loop of the leader."""

    def __init__(
        self, api: Api, settings: Settings, identity: Identity, lease: LeaderElector, telemetry: Telemetry
    ) -> None:
        self._settings, self._lease, self._telemetry, self._clock = settings, lease, telemetry, Clock()
        self._status_object: StatusObject | None = None
        if identity.status_name:
            self._status_object = StatusObject(api, identity.election.namespace, identity.status_name)
        self.cache = Cache(api, settings, retry.CONTROLLER)
        owner = own_deployment(api, identity.election.namespace, identity.workload)
        recorder = events.EventRecorder(api, identity.election.identity, silent=False)
        progress = ProgressReporter(recorder, owner, on_restart=telemetry.executed)
        self._reporter = StateReporter(progress, STACKS[settings.stack])
        self.loop = ReconcileLoop(api, self.cache, settings, progress, self._clock)
        self.workloads = WorkloadObserver(self.cache, settings)
        release = Release(identity.election.namespace, identity.release_name, "controller")
        self._taints = TaintKeeper(api, settings, release)

    def run(self) -> NoReturn:
        """Reconcile until an error ends the process. Raises HookError."""
        self.cache.start()
        self._taints.start()
        while True:
            self._lease.check()
            snapshot = self.loop.observe()
            if snapshot is None:
                self._wait()
            else:
                self._reconcile(snapshot)

    def _wait(self) -> None:
        self._telemetry.health.wait(self.cache.out_of_sync)
        self.loop.await_sync()

    def _reconcile(self, snapshot: Snapshot) -> None:
        decision = self.loop.decide(snapshot)
        self._lease.check()
        # All writes must end before another replica can take the Lease over.
        results = self.loop.act(decision, self._lease.remaining)
        self._taints.reconcile(decision, self.loop.fleet)
        affected = self.workloads.observe(snapshot)
        restarted = self.loop.restarter.restarted
        state = ControllerState(
            decision, self._clock.now(), affected, self.cache.out_of_sync, restarted, self._taints.oldest
        )
        self._publish(state, snapshot)
        busy = results or decision.actions or decision.phase is Phase.WAIT
        self.loop.rest(TICK_SECONDS if busy else QUIET_SECONDS)

    def _publish(self, state: ControllerState, snapshot: Snapshot) -> None:
        """Show the state in metrics, log, Events and status object."""
        self._telemetry.reconciled(state)
        self._reporter.report(state, list(self.loop.subjects.values()))
        if self._status_object is not None and state.lost is None:
            self._status_object.show(state.decision, state.affected, snapshot, self._settings)


class StateReporter:
    """Reports in log and Events what changed between two states of the controller."""

    def __init__(self, progress: ProgressReporter, stack: Stack) -> None:
        self._progress, self._stack = progress, stack
        self._outcome: tuple[Phase, Reason] | None = None
        self._restarted = 0
        self._affected: frozenset[str] = frozenset()
        """UIDs of the pods in the last Event about affected pods."""

    def report(self, state: ControllerState, plugins: Iterable[ObjectReference]) -> None:
        """Report what changed since the last state, and from time to time a summary."""
        decision, progress = state.decision, self._progress
        progress.report_changes(decision)
        progress.forget_all_but(decision)
        outcome = (decision.phase, decision.reason)
        if outcome != self._outcome:
            self._outcome = outcome
            level = logging.WARNING if decision.unhappy else logging.INFO
            log.log(level, "%s", headline(decision))
            if decision.unhappy:
                step = report.next_step(decision, self._stack)
                self._event((), decision.reason, f"{decision.message} {step}", warning=True)
        if decision.phase in CALM and state.restarted != self._restarted:
            self._restarted = state.restarted
            self._event(plugins, decision.reason, headline(decision))
        if decision.phase not in CALM and time.monotonic() - progress.last_summary >= SUMMARY_SECONDS:
            progress.summarise(decision)
        if not state.affected.unknown:
            self._report_affected(state.affected)

    def _report_affected(self, affected: Affected) -> None:
        """Report affected pods whenever there is one more."""
        before, self._affected = self._affected, frozenset(pod.uid for pod in affected.pods)
        if not self._affected <= before:
            log.warning("%s", workloads.note(affected))
            self._event((), EventReason.AFFECTED_WORKLOADS, workloads.note(affected), warning=True)

    def _event(self, plugins: Iterable[ObjectReference], reason: str, note: str, *, warning: bool = False) -> None:
        for subject in filter(None, (self._progress.owner, *plugins)):
            self._progress.recorder.event(subject, reason, note, warning=warning)
