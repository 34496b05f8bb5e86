"""A run that leaves the restarts to a follower: it ends as soon as that one has seen what is to be done.

Nothing is restarted here, and no deployer is held for the hours that a large fleet takes. What the run vouches for
is that the intent of now is rendered, that no second render can follow, and that somebody alive has seen exactly
this, and may act upon it.
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
from hook.core.together import chosen
from hook.core.verdicts import Verdict
from hook.errors import ClusterError, PermissionDeniedError
from hook.flags.kinds import as_text
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
"""As often as a leader renews."""
ANSWER_SECONDS: Final = 5.0
ALIVE_SECONDS: Final = 20.0
"""A leader whose Lease did not change for so long is gone: it would have lost it after 15 s."""
NO_LOOK: Final = "has not looked at the fleet yet, or cannot"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of the follower."""

    why: str
    """Why nothing can be handed over to it; empty if it can."""
    led: Led | None = None


class Lookout:
    """Looks at the follower's Lease. It is alive if the Lease is renewed while we look: no clocks are compared."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._where = api, (namespace, name)
        self._next = float("-inf")
        self._began: float | None = None
        """When a holder was seen first."""
        self._renewed_at = float("-inf")
        self._led: Led | None = None
        self._trouble = ""

    def standing(self, epochs: Mapping[str, str]) -> Standing:
        """Say whether a living follower serves these intents. Raises PermissionDeniedError."""
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + LOOK_SECONDS
        led, lease = self._led, "/".join(self._where)
        if self._trouble or led is None:
            return Standing(self._trouble or f"there is no Lease {lease}: no follower was ever there")
        now = time.monotonic()
        if not led.holder or now - self._renewed_at > ALIVE_SECONDS:
            if led.holder and self._began is not None and now - self._began <= ALIVE_SECONDS:
                return Standing(f"looking whether follower {led.holder} still renews the Lease {lease}")
            last = f" (the last one was {led.holder})" if led.holder else ""
            return Standing(f"no follower is alive: the Lease {lease} is not renewed{last}")
        if led.record is None:
            return Standing(f"follower {led.holder} leads, but {led.problem}")
        behind = NO_LOOK if led.inherited else _behind(led.record, epochs)
        return Standing(f"follower {led.holder} {behind}" if behind else "", led)

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
    """Say what keeps a follower from serving these intents."""
    unknown = sorted(epochs.keys() - record.epochs.keys())
    if unknown:
        return f"does not serve stack {unknown[0]}" if record.epochs else NO_LOOK
    other = [stack for stack, wanted in epochs.items() if record.epochs[stack] != wanted]
    if other:
        return f"has not seen this intent of stack {other[0]} yet"
    stopped = sorted(epochs.keys() & record.breakers.keys())
    return f"restarts nothing, its circuit breaker is open: {record.breakers[stopped[0]].why}" if stopped else ""


class Handover(Runner):
    """Waits for the intent to be rendered, and for a living follower that has seen it."""

    lookout: Lookout
    """Whom to hand over to."""
    _missing = ""

    def _act(self, _decision: Decision) -> None:
        """Leave it to the follower."""

    def _final(self, decision: Decision, seen: Seen) -> Decision | None:
        if decision.verdict is Verdict.DEADLINE and self._missing:
            message = f"the time is up, and nobody took over: {self._missing}"
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
            log.info("waiting for the follower: %s", found.why)
        if found.led is None or found.led.record is None or found.why or not self._again(epochs):
            return None
        record = found.led.record
        about = f", about {as_text(timedelta(seconds=record.about))}" if record.about is not None else ""
        message = f"handed over to {found.led.holder}, {record.to_go} nodes to go{about}"
        return replace(decision, verdict=Verdict.DONE, reason=Reason.HANDED_OVER, message=message, actions=())

    def _epochs(self, seen: Seen) -> dict[str, str] | None:
        """Name the intents that are to be served; None while one is not rendered, or may be rendered again."""
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
        """Whether a second, consistent read shows the same: a watch may be behind."""
        try:
            return self._epochs(self._observer.read_again(self._left)) == epochs
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm the intent yet: %s", error)
            return False
