"""Report of the controller: log changes as they happen, and a summary every five minutes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from hook import report
from hook.core.reasons import EventReason, Reason
from hook.core.verdicts import Verdict, headline
from hook.narration import Narrator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.cluster.events import Subject, Teller
    from hook.core.memory import Breaker
    from hook.core.verdicts import Decision

log = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 300.0
"""Time between two summaries of a fleet that waits. The log of a controller is kept for days."""
CALM: Final = frozenset({Verdict.DONE, Verdict.SKIP})


class Chronicler(Narrator):
    """Progress reporter of the controller."""

    def __init__(self, teller: Teller, owner: Subject | None) -> None:
        super().__init__(teller, owner)
        self._standing: tuple[Verdict, Reason] | None = None
        self._open: frozenset[str] = frozenset()
        self._restarted = 0

    def tell_moment(self, decision: Decision, restarted: int, consumers: Iterable[Subject]) -> None:
        """Report what changed since the last reconcile. `restarted` is the total of this leader."""
        self.tell_changes(decision)
        self.forget_all_but(decision)
        standing = (decision.verdict, decision.reason)
        if standing != self._standing:
            self._standing = standing
            level = logging.WARNING if decision.unhappy else logging.INFO
            log.log(level, "%s", headline(decision))
            if decision.unhappy:
                self._tell_all((), decision.reason, f"{decision.message} {report.next_step(decision)}", warning=True)
        if decision.verdict in CALM and restarted != self._restarted:
            self._restarted = restarted
            self._tell_all(consumers, decision.reason, headline(decision))
        if decision.verdict not in CALM and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision)

    def tell_breakers(self, breakers: Mapping[str, Breaker], consumers: Iterable[Subject]) -> None:
        """Report breakers that opened or closed since the last reconcile."""
        now_open = {stack: breaker for stack, breaker in breakers.items() if breaker.opened_at is not None}
        for stack in now_open.keys() - self._open:
            why = f"stack {stack}: {now_open[stack].why}"
            log.error("circuit breaker: open, nothing is restarted: %s", why)
            self._tell_all(consumers, Reason.BREAKER_OPEN, why, warning=True)
        for stack in self._open - now_open.keys():
            log.warning("circuit breaker: closed, plugins of stack %s are restarted again", stack)
            self._tell_all(consumers, EventReason.BREAKER_CLOSED, f"plugins of stack {stack} are restarted again")
        self._open = frozenset(now_open)

    def _tell_all(self, consumers: Iterable[Subject], reason: str, note: str, *, warning: bool = False) -> None:
        for subject in filter(None, (self.owner, *consumers)):
            self.teller.tell(subject, reason, note, warning=warning)
