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

from hook.decide.decide import chosen, indexed, look_first
from hook.decide.reasons import EventReason, Reason
from hook.decide.result import Decision, Phase, headline
from hook.errors import UnreachableError
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.election import LeaderElectionConfig, LeaderElector
from hook.kube.events import own_deployment
from hook.plan.timing import about
from hook.run import report
from hook.run.health import LOST_SECONDS, serve
from hook.run.loop import LONGEST_PAUSE_SECONDS, TICK_SECONDS, ReconcileLoop
from hook.run.metrics import Telemetry
from hook.run.report import ProgressReporter
from hook.run.status import ControllerStatus, Opened, Record, epoch, remaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.decide import Seen
    from hook.decide.fleet import Fleet
    from hook.decide.state import Breaker
    from hook.kube.client import Api
    from hook.kube.events import EventRecorder, ObjectReference
    from hook.run.loop import RestartResult

log = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 300.0
"""Time between two summaries of a fleet that waits. The log of a controller is kept for days."""
CALM: Final = frozenset({Phase.DONE, Phase.SKIP})


class ControllerReporter(ProgressReporter):
    """Progress reporter of the controller."""

    def __init__(self, recorder: EventRecorder, owner: ObjectReference | None) -> None:
        super().__init__(recorder, owner)
        self._standing: tuple[Phase, Reason] | None = None
        self._open: frozenset[str] = frozenset()
        self._restarted = 0

    def tell_moment(self, decision: Decision, restarted: int, plugins: Iterable[ObjectReference]) -> None:
        """Report what changed since the last reconcile. `restarted` is the total of this leader."""
        self.tell_changes(decision)
        self.forget_all_but(decision)
        standing = (decision.phase, decision.reason)
        if standing != self._standing:
            self._standing = standing
            level = logging.WARNING if decision.unhappy else logging.INFO
            log.log(level, "%s", headline(decision))
            if decision.unhappy:
                self._tell_all((), decision.reason, f"{decision.message} {report.next_step(decision)}", warning=True)
        if decision.phase in CALM and restarted != self._restarted:
            self._restarted = restarted
            self._tell_all(plugins, decision.reason, headline(decision))
        if decision.phase not in CALM and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision)

    def tell_breakers(self, breakers: Mapping[str, Breaker], plugins: Iterable[ObjectReference]) -> None:
        """Report breakers that opened or closed since the last reconcile."""
        now_open = {stack: breaker for stack, breaker in breakers.items() if breaker.opened_at is not None}
        for stack in now_open.keys() - self._open:
            why = f"stack {stack}: {now_open[stack].why}"
            log.error("circuit breaker: open, nothing is restarted: %s", why)
            self._tell_all(plugins, Reason.BREAKER_OPEN, why, warning=True)
        for stack in self._open - now_open.keys():
            log.warning("circuit breaker: closed, plugins of stack %s are restarted again", stack)
            self._tell_all(plugins, EventReason.BREAKER_CLOSED, f"plugins of stack {stack} are restarted again")
        self._open = frozenset(now_open)

    def _tell_all(self, plugins: Iterable[ObjectReference], reason: str, note: str, *, warning: bool = False) -> None:
        for subject in filter(None, (self.owner, *plugins)):
            self.recorder.event(subject, reason, note, warning=warning)


QUIET_SECONDS: Final = 5.0
"""Longest wait between two reconciles while nothing changes and nothing is left to do. Watches report changes; only
grace periods end without one."""
SILENT_SECONDS: Final = 600.0
"""Time without an answer about the Lease after which a standby exits. A new process reads the cluster's certificate
again, which may have been replaced."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of the controller: its Lease, and the Deployment that gets its Events."""

    election: LeaderElectionConfig
    workload: str = ""


class Controller:
    """The controller process. It keeps the last decision for the report."""

    def __init__(self, api: Api, settings: Settings, identity: Identity, telemetry: Telemetry) -> None:
        self._api, self._settings, self._identity, self._telemetry = api, settings, identity, telemetry
        self.lease = LeaderElector(api, identity.election, telemetry.trying)
        self._serving: Leading | None = None

    @property
    def last(self) -> Decision:
        """Return the last decision."""
        waiting = Decision(Phase.WAIT, Reason.NODES_PENDING, "the cluster has not been read yet")
        return self._serving.rounds.last if self._serving else waiting

    @property
    def restarted(self) -> int:
        """Return how many plugins this process restarted."""
        return self._serving.rounds.restarter.restarted if self._serving else 0

    def run(self) -> NoReturn:
        """Run as standby, then as leader, until an error ends the process. Raises HookError."""
        self._api.before_write = self.lease.fence
        self.lease.start()
        self._stand_by()
        log.info("leading: the Lease %s/%s is held", self.lease.config.namespace, self.lease.config.name)
        self._telemetry.leading(True)
        self._serving = Leading(self._api, self._settings, self._identity, self.lease, self._telemetry)
        self._serving.run()

    def stop(self) -> None:
        """Flush the Events for a short time, then release the Lease."""
        self._telemetry.leading(False)
        if self._serving:
            # Nothing is written without the Lease, and the next leader does not report these restarts.
            self._serving.rounds.stop_telling()
        self.lease.release()
        if self._serving:
            self._serving.cache.stop()

    def _stand_by(self) -> None:
        logged = ""
        while not self.lease.leading:
            if self.lease.ended:
                self.lease.check()
            if time.monotonic() - self.lease.answered > SILENT_SECONDS:
                raise UnreachableError(f"no answer about the Lease for {SILENT_SECONDS:.0f} s: {self.lease.trouble}")
            now = self.lease.trouble or (f"{self.lease.holder} leads" if self.lease.holder else "")
            if now not in ("", logged):
                logged = now
                log.info("standby: %s", now)
            time.sleep(TICK_SECONDS)


class _Watched(ReconcileLoop):
    """Reconcile loop that counts each restart in the metrics."""

    telemetry: Telemetry
    last_acted: datetime | None = None

    def remember(self, result: RestartResult) -> None:
        """Record the result of a restart in memory and metrics."""
        super().remember(result)
        now = self._api.now()
        self.telemetry.executed(result, now)
        if result.note:
            self.last_acted = now


class Leading:
    """Reconcile loop of the leader."""

    def __init__(
        self, api: Api, settings: Settings, identity: Identity, lease: LeaderElector, telemetry: Telemetry
    ) -> None:
        self._api, self._settings, self._lease, self._telemetry = api, settings, lease, telemetry
        self.cache = Cache(api, chosen(settings), settings, retry.CONTROLLER)
        owner = own_deployment(api, identity.election.namespace, identity.workload)
        recorder = events.EventRecorder(api, identity.election.identity, silent=False)
        self._reporter = ControllerReporter(recorder, owner)
        self.rounds = _Watched(api, self.cache, settings, self._reporter, api.now())
        self.rounds.telemetry = telemetry
        self._record = Record(lease)

    def run(self) -> NoReturn:
        """Reconcile until an error ends the process. Raises HookError."""
        self.cache.watch_policies()
        self._await_something_to_protect()
        self.cache.watch_fleet()
        while True:
            self._lease.check()
            seen = self.rounds.observe()
            if seen is None:
                # Retry discovery that failed at the start.
                self.cache.watch_fleet()
                self._wait()
            else:
                self._round(seen)

    def _await_something_to_protect(self) -> None:
        """Watch only policies and DaemonSets while these show that there is nothing to refresh."""
        while True:
            self._lease.check()
            if not self.cache.synced:
                self._wait()
                continue
            seen = self.cache.snapshot()
            if look_first(seen, self._settings) is None:
                return
            self._finish(self.rounds.decide(seen), {}, None)
            # A decision here takes too little time to measure a pause by it, so pause for a fixed time.
            time.sleep(LONGEST_PAUSE_SECONDS)
            self.rounds.rest(QUIET_SECONDS)

    def _wait(self) -> None:
        self._telemetry.waiting(self.cache.out_of_sync)
        self.rounds.await_sight()

    def _round(self, seen: Seen) -> None:
        decision = self.rounds.decide(seen)
        self._lease.check()
        # All writes must end before another replica can take the Lease over.
        results = self.rounds.act(decision, self._lease.remaining)
        fleets = indexed(seen, self._settings)
        written = self._finish(decision, self._epochs(fleets), self._left(fleets, decision))
        busy = results or decision.actions or decision.phase is Phase.WAIT or not written
        self.rounds.rest(TICK_SECONDS if busy else QUIET_SECONDS)

    def _epochs(self, fleets: dict[str, Fleet]) -> dict[str, str]:
        """Return the spec hash of each stack; none while the cache is out of sync."""
        if self.cache.out_of_sync is not None and self.cache.out_of_sync.seconds > LOST_SECONDS:
            return {}
        return {stack: epoch(fleet) for stack, fleet in fleets.items()}

    def _left(self, fleets: dict[str, Fleet], decision: Decision) -> int | None:
        """Return the estimated seconds for the remaining nodes; None while a breaker is open."""
        stopped = any(memory.breaker.opened_at is not None for memory in self.rounds.memories.values())
        return None if stopped else about(fleets, decision, self._settings, self._api.now())

    def _finish(self, decision: Decision, epochs: dict[str, str], left: int | None) -> bool:
        """Publish the result of a reconcile: metrics, log, Events, Lease. Return whether the Lease has all of it."""
        now = self._api.now()
        memories, plugins = self.rounds.memories, list(self.rounds.subjects.values())
        breakers = {stack: memory.breaker for stack, memory in memories.items()}
        self._telemetry.round(decision, memories, self.cache.out_of_sync, now)
        self._reporter.tell_breakers(breakers, plugins)
        self._reporter.tell_moment(decision, self.rounds.restarter.restarted, plugins)
        return self._record.keep(
            ControllerStatus(
                epochs=epochs,
                remaining=remaining(decision),
                about=left,
                restarted=self.rounds.restarter.restarted,
                last_look=now,
                last_acted=self.rounds.last_acted,
                breakers={
                    stack: Opened(breaker.opened_at, breaker.why)
                    for stack, breaker in breakers.items()
                    if breaker.opened_at is not None
                },
                by=self._lease.config.identity,
            )
        )


def identity(namespace: str, lease: str, wanted: str, workload: str) -> Identity:
    """Return the leader election identity: `wanted`, or <hostname>_<random>.

    The host name alone is not unique: pods may share it, and a restarted container has the same. The other process may
    still act as leader.
    """
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    return Identity(LeaderElectionConfig(namespace, lease, wanted or f"{host}_{secrets.token_hex(4)}"), workload)


def begin(api: Api, settings: Settings, who: Identity, listen: str) -> Controller:
    """Start the server for metrics and health, and return the controller. Raises HookError."""
    telemetry = Telemetry(api.counters)
    server = serve(telemetry, listen)
    host = listen.rpartition(":")[0] or "0.0.0.0"  # noqa: S104 - for a log line
    log.info("metrics and health on http://%s:%d", host, server.port)
    return Controller(api, settings, who, telemetry)
