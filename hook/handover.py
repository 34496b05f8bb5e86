"""Run of the Job in delegate mode: it leaves the restarts to the controller, and ends once that has observed the spec.

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

from hook.cluster import followers, retry
from hook.core import operator
from hook.core.decide import first_look, index
from hook.core.following import epoch
from hook.core.memory import Timers
from hook.core.reasons import Reason
from hook.core.sentences import as_text
from hook.core.together import chosen
from hook.core.verdicts import Verdict
from hook.errors import ClusterError, PermissionDeniedError
from hook.objects.decoding import MalformedObjectError
from hook.run import Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.cluster.api import Api
    from hook.cluster.followers import Led
    from hook.core.following import Following
    from hook.core.together import Seen
    from hook.core.verdicts import Decision

log = logging.getLogger(__name__)

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
    led: Led | None = None


class Lookout:
    """Observes the controller's Lease. The controller is alive if it renews the Lease. No clocks are compared."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._where = api, (namespace, name)
        self._next = float("-inf")
        self._began: float | None = None
        """When the Lease was first seen with a holder."""
        self._renewed_at = float("-inf")
        self._led: Led | None = None
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
            led = retrier(followers.led, self._api, *self._where, ANSWER_SECONDS)
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


def _behind(record: Following, epochs: Mapping[str, str]) -> str:
    """Return why a controller has not observed these spec hashes, or does not act, or ""."""
    unknown = sorted(epochs.keys() - record.epochs.keys())
    if unknown:
        return f"does not refresh stack {unknown[0]}" if record.epochs else NO_LOOK
    other = [stack for stack, wanted in epochs.items() if record.epochs[stack] != wanted]
    if other:
        return f"has not observed this spec of stack {other[0]} yet"
    stopped = sorted(epochs.keys() & record.breakers.keys())
    return f"restarts nothing, its circuit breaker is open: {record.breakers[stopped[0]].why}" if stopped else ""


class Handover(Runner):
    """Waits until the policy is rendered and an active controller has observed it."""

    lookout: Lookout
    """Observes the controller to delegate to."""
    _missing = ""

    def _act(self, _decision: Decision) -> None:
        """Do nothing: the controller executes restarts."""

    def _final(self, decision: Decision, seen: Seen) -> Decision | None:
        if decision.verdict is Verdict.DEADLINE and self._missing:
            message = f"the time is up, and no controller took over: {self._missing}"
            return replace(decision, message=message, cause=Reason.FOLLOWER_MISSING)
        return super()._final(decision, seen) or self._handed_over(decision, seen)

    def _handed_over(self, decision: Decision, seen: Seen) -> Decision | None:
        epochs = self._epochs(seen)
        if epochs is None:
            self._missing = ""
            return None
        found = self.lookout.standing(epochs)
        if found.why != self._missing:
            self._missing = found.why
            log.info("waiting for the controller: %s", found.why)
        if found.led is None or found.led.record is None or found.why or not self._again(epochs):
            return None
        record = found.led.record
        about = f", about {as_text(timedelta(seconds=record.about))}" if record.about is not None else ""
        message = f"delegated to controller {found.led.holder}, {record.to_go} nodes remaining{about}"
        return replace(decision, verdict=Verdict.DONE, reason=Reason.HANDED_OVER, message=message, actions=())

    def _epochs(self, seen: Seen) -> dict[str, str] | None:
        """Return the spec hash of each stack; None while one is not rendered, or may be rendered again."""
        epochs: dict[str, str] = {}
        for stack in chosen(self._settings):
            if first_look(seen[stack.name], self._settings, stack) is not None:
                continue
            fleet = index(seen[stack.name], self._settings, stack, seen.get(stack.after))
            now = self._api.now()
            named = epoch(fleet)
            if not named or operator.unsettled(fleet, Timers(self._rounds.memories[stack.name], now), now):
                return None
            epochs[stack.name] = named
        return epochs

    def _again(self, epochs: dict[str, str]) -> bool:
        """Return whether a second, consistent read gives the same spec hashes. A watch may be behind."""
        try:
            return self._epochs(self._observer.read_again(self._left)) == epochs
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm the spec yet: %s", error)
            return False
