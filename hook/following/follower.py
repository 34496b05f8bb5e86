"""Rounds without an end: stand by for the Lease, serve every reload whatever caused it, until told to stop.

Outages, refusals and permissions that are gone are outlived: while they last nothing is restarted, and health and
metrics say so. What ends a follower is what only a new process mends: a Lease that is lost, an answer that nobody
understands, and an API server that does not answer for the Lease for minutes (credentials and trust are read anew).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn

from hook.cluster import events
from hook.cluster.lasting import LastingObserver
from hook.cluster.lease import LEASE_SECONDS, Lease
from hook.cluster.workload import own_workload
from hook.core.following import Following, Opened, epoch, to_go
from hook.core.plan.remaining import about
from hook.core.reasons import Reason
from hook.core.together import chosen, indexed, look_first
from hook.core.verdicts import Decision, Verdict
from hook.errors import UnreachableError
from hook.following.health import LOST_SECONDS
from hook.following.record import Record
from hook.following.telling import Chronicler
from hook.rounds import LONGEST_PAUSE_SECONDS, TICK_SECONDS, Rounds

if TYPE_CHECKING:
    from datetime import datetime

    from hook.acting import Deed
    from hook.cluster.api import Api
    from hook.cluster.leaselock import Terms
    from hook.core.fleet import Fleet
    from hook.core.together import Seen
    from hook.following.telemetry import Telemetry
    from hook.settings import Settings

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 5.0
"""Between two rounds while nothing changes and nothing is to be done: what changes is told by the watches, and only
graces end by themselves."""
SILENT_SECONDS: Final = 600.0
"""Who stands by ends after so long without any answer about the Lease: a new process reads the cluster's certificate
anew, which may have been replaced."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who follows: which Lease it wants, and the Deployment whose events tell its story."""

    terms: Terms
    workload: str = ""


class Follower:
    """One process. Keeps the last decision, so that whatever ends it can report."""

    def __init__(self, api: Api, settings: Settings, identity: Identity, telemetry: Telemetry) -> None:
        self._api, self._settings, self._identity, self._telemetry = api, settings, identity, telemetry
        self.lease = Lease(api, identity.terms, telemetry.trying)
        self._serving: Serving | None = None

    @property
    def last(self) -> Decision:
        """The last decision."""
        waiting = Decision(Verdict.WAIT, Reason.NODES_PENDING, "nothing was read yet")
        return self._serving.rounds.last if self._serving else waiting

    @property
    def restarted(self) -> int:
        """How many plugins it restarted."""
        return self._serving.rounds.actor.restarted if self._serving else 0

    def run(self) -> NoReturn:
        """Follow until something ends it. Raises HookError."""
        self._api.before_write = self.lease.permit
        self.lease.start()
        self._stand_by()
        log.info("leading: the Lease %s/%s is held", self._identity.terms.namespace, self._identity.terms.name)
        self._telemetry.leading(True)
        self._serving = Serving(self._api, self._settings, self._identity, self.lease, self._telemetry)
        self._serving.run()

    def stop(self) -> None:
        """Write what waits, for a moment, then nothing any more, and give the Lease back."""
        self._telemetry.leading(False)
        if self._serving:
            # Without the Lease nothing more is written, and who has it next does not tell what we did.
            self._serving.rounds.stop_telling()
        self.lease.release()
        if self._serving:
            self._serving.observer.stop()

    def _stand_by(self) -> None:
        told = ""
        while not self.lease.leading:
            if self.lease.ended:
                self.lease.check()
            if time.monotonic() - self.lease.answered > SILENT_SECONDS:
                raise UnreachableError(f"no answer about the Lease for {SILENT_SECONDS:.0f} s: {self.lease.trouble}")
            now = self.lease.trouble or (f"{self.lease.holder} leads" if self.lease.holder else "")
            if now not in ("", told):
                told = now
                log.info("standing by: %s", now)
            self.lease.wait(TICK_SECONDS)


class _Watched(Rounds):
    """Rounds that note each deed where others can see it."""

    telemetry: Telemetry
    last_acted: datetime | None = None

    def remember(self, deed: Deed) -> None:
        """Note what was asked for."""
        super().remember(deed)
        now = self._api.now()
        self.telemetry.deed(deed, now)
        if deed.note:
            self.last_acted = now


class Serving:
    """What a leader does."""

    def __init__(self, api: Api, settings: Settings, identity: Identity, lease: Lease, telemetry: Telemetry) -> None:
        self._api, self._settings, self._lease, self._telemetry = api, settings, lease, telemetry
        self.observer = LastingObserver(api, chosen(settings), settings)
        owner = own_workload(api, identity.terms.namespace, identity.workload)
        teller = events.Teller(api, identity.terms.identity, silent=False)
        self._chronicler = Chronicler(teller, owner)
        self.rounds = _Watched(api, self.observer, settings, self._chronicler, api.now())
        self.rounds.telemetry = telemetry
        self._record = Record(lease)

    def run(self) -> NoReturn:
        """Serve. Raises HookError."""
        self._go_on_from(self._record.found())
        self.observer.look_at_intent()
        self._await_something_to_protect()
        self.observer.look_at_fleet()
        while True:
            self._lease.check()
            seen = self.rounds.observe()
            if seen is None:
                # What could not be asked when it began is asked again.
                self.observer.look_at_fleet()
                self._wait()
            else:
                self._round(seen)

    def _go_on_from(self, before: Following) -> None:
        """Take over what another leader left: its breakers stay as they are, and what was done was done."""
        self.rounds.last_acted = before.last_acted
        memories = self.rounds.memories
        self.rounds.memories = {
            stack: replace(memory, breaker=before.breaker(stack)) for stack, memory in memories.items()
        }

    def _await_something_to_protect(self) -> None:
        """Look at policies and DaemonSets alone, for as long as they show that there is nothing else to look at."""
        while True:
            self._lease.check()
            if not self.observer.synced:
                self._wait()
                continue
            seen = self.observer.snapshot()
            if look_first(seen, self._settings) is None:
                return
            # Not what was found there: a breaker that was left open closes by a wish, or in time, here as well.
            self._obey()
            self._finish(self.rounds.decide(seen), {}, None)
            # What turns here costs next to nothing, so its own time is no measure of how long others are left alone.
            time.sleep(LONGEST_PAUSE_SECONDS)
            self.rounds.rest(QUIET_SECONDS)

    def _wait(self) -> None:
        self._telemetry.waiting(self.observer.lost)
        self.rounds.await_sight()

    def _round(self, seen: Seen) -> None:
        self._obey()
        decision = self.rounds.decide(seen)
        self._lease.check()
        # Nobody else may take over before a write that is sent now has come to its end.
        deeds = self.rounds.act(decision, LEASE_SECONDS - self._lease.age)
        fleets = indexed(seen, self._settings)
        told = self._finish(decision, self._epochs(fleets), self._left(fleets, decision))
        busy = deeds or decision.actions or decision.verdict is Verdict.WAIT or not told
        self.rounds.rest(TICK_SECONDS if busy else QUIET_SECONDS)

    def _obey(self) -> None:
        """Close what is open, once for each wish."""
        if wish := self._record.wish:
            now = self._api.now()
            memories = self.rounds.memories
            self.rounds.memories = {stack: memory.with_breaker_closed(now) for stack, memory in memories.items()}
            log.warning("a person wishes the circuit breaker to be closed: %s", wish)
            self._record.obey(wish)

    def _epochs(self, fleets: dict[str, Fleet]) -> dict[str, str]:
        """Name the intent of each stack; of none while it is blind: it does not serve what it cannot see."""
        if self.observer.lost is not None and self.observer.lost.seconds > LOST_SECONDS:
            return {}
        return {stack: epoch(fleet) for stack, fleet in fleets.items()}

    def _left(self, fleets: dict[str, Fleet], decision: Decision) -> int | None:
        """Tell how long the rest takes; nobody knows when a breaker closes."""
        stopped = any(memory.breaker.opened_at is not None for memory in self.rounds.memories.values())
        return None if stopped else about(fleets, decision, self._settings, self._api.now())

    def _finish(self, decision: Decision, epochs: dict[str, str], left: int | None) -> bool:
        """Show, tell and write down what a round came to. Gives whether all of it is written."""
        now = self._api.now()
        memories, consumers = self.rounds.memories, list(self.rounds.subjects.values())
        breakers = {stack: memory.breaker for stack, memory in memories.items()}
        self._telemetry.round(decision, memories, self.observer.lost, now)
        self._chronicler.tell_breakers(breakers, consumers)
        self._chronicler.tell_moment(decision, self.rounds.actor.restarted, consumers)
        return self._record.keep(
            Following(
                epochs=epochs,
                to_go=to_go(decision),
                about=left,
                restarted=self.rounds.actor.restarted,
                last_look=now,
                last_acted=self.rounds.last_acted,
                breakers={
                    stack: Opened(breaker.opened_at, breaker.why)
                    for stack, breaker in breakers.items()
                    if breaker.opened_at is not None
                },
                closed={
                    stack: breaker.closed_at
                    for stack, breaker in breakers.items()
                    if breaker.opened_at is None and breaker.closed_at is not None
                },
                by=self._lease.terms.identity,
            )
        )
