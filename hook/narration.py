"""Tell people what changes while a run goes on: one line a change, one summary now and then."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook import report
from hook.core.reason import Trait
from hook.core.reasons import EventReason
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from hook.acting import Deed
    from hook.cluster.contact import Lost
    from hook.cluster.events import Findable, Subject, Teller
    from hook.cluster.regarding import Regarding
    from hook.core.reasons import Reason
    from hook.core.verdicts import Decision, Judgement

log = logging.getLogger(__name__)

SUMMARY_SECONDS: Final = 30.0
ONE_BY_ONE: Final = 3
"""Up to so many nodes that change alike get a line each; more share one."""
NAMED: Final = 8
"""Nodes that a shared line names."""
TOLD_BESIDE: Final = 10
"""Failed nodes that an object of the deployer's is told of: whoever shows it shows all its events, with the end's."""
LOST_SECONDS: Final = 5.0
"""A shorter loss of contact is nothing to tell: watches break off now and then, and are back at once."""
PASSING: Final = frozenset({NodeState.RESTARTING, NodeState.VERIFYING})
"""States that last seconds; the restart and the verified plugin are told, what is between on request."""


class Narrator:
    """Remembers what was told, so that nothing is told twice in a row."""

    def __init__(self, teller: Teller, owner: Subject | None, regarding: Sequence[Regarding] = ()) -> None:
        self.teller, self.owner, self.regarding = teller, owner, regarding
        self._beside = 0
        self._told: dict[tuple[str, str, str], tuple[NodeState, Reason]] = {}
        self._reason: Reason | None = None
        self.last_summary = time.monotonic()
        self._lost_since: float | None = None

    def tell_contact(self, lost: Lost | None) -> None:
        """Say once that what is shown may be long past, and once that it is not any more."""
        if lost is not None and lost.seconds >= LOST_SECONDS and self._lost_since is None:
            self._lost_since = lost.since
            log.warning("%s; nothing is restarted until it can be read again", lost)
        elif lost is None and self._lost_since is not None:
            log.info("the cluster can be read again, after %.0f s", time.monotonic() - self._lost_since)
            self._lost_since = None

    def tell_deed(self, deed: Deed, consumer: Subject | None) -> None:
        """Tell of a restart, on the consumer that it was of and on what runs us."""
        for subject in filter(None, (consumer, self.owner)):
            self.teller.tell(subject, EventReason.STALE_PLUGIN_RESTARTED, deed.note, about=deed.about)

    def tell(self, decision: Decision, left: timedelta) -> None:
        """Log what changed since the last decision and, at times, where the run stands."""
        self.tell_changes(decision)
        if not decision.final and self._reason != decision.reason:
            self._reason = decision.reason
            log.info("waiting (%s): %s", decision.reason, decision.message)
        if not decision.final and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision, f", {left.total_seconds():.0f} s left")

    def tell_changes(self, decision: Decision) -> None:
        """Log which nodes stand differently than they did."""
        changed: dict[tuple[str, NodeState, Reason], list[Judgement]] = {}
        detail = report.details(decision)
        for one in decision.judgements:
            standing = (one.state, one.reason)
            if self._told.get((one.stack, one.node, one.consumer)) != standing:
                self._told[one.stack, one.node, one.consumer] = standing
                told = replace(one, message=detail(one))
                changed.setdefault((one.stack, *standing), []).append(told)
        for alike in changed.values():
            _log_change(alike)
            if alike[0].state is NodeState.FAILED:
                self._tell_of_failure(alike[0])

    def _tell_of_failure(self, judged: Judgement) -> None:
        """Tell it on what runs us, and the first few where the deployer's users look while they wait."""
        told_on: list[Findable] = [self.owner] if self.owner else []
        if self._beside < TOLD_BESIDE:
            self._beside += 1
            told_on += self.regarding
        about = f"{judged.stack}/{judged.node}"
        for subject in told_on:
            self.teller.tell(subject, EventReason.NODE_FAILED, _sentence(judged), about=about, warning=True)

    def forget_all_but(self, decision: Decision) -> None:
        """Forget nodes that are gone: they would pile up for months."""
        known = {(one.stack, one.node, one.consumer) for one in decision.judgements}
        self._told = {key: standing for key, standing in self._told.items() if key in known}

    def summarise(self, decision: Decision, left: str = "") -> None:
        """Log where the run stands, and tell it on what runs us."""
        self.last_summary = time.monotonic()
        log.info("waiting%s: %s (%s)", left, decision.message, report.counts_sentence(decision))
        if self.owner:
            self.teller.tell(self.owner, EventReason.WAITING_FOR_DRIVER, decision.message)


def _sentence(judged: Judgement) -> str:
    return f"node {judged.node}: {judged.state} ({judged.reason}): {judged.message}"


def _log_change(alike: list[Judgement]) -> None:
    first = alike[0]
    level = logging.DEBUG if _passing(first) else logging.INFO
    level = logging.WARNING if first.state is NodeState.FAILED else level
    if len(alike) > ONE_BY_ONE:
        nodes = ", ".join(one.node for one in alike[:NAMED]) + (", …" if len(alike) > NAMED else "")
        facts = {"nodes": [one.node for one in alike], "state": first.state, "reason": first.reason}
        log.log(
            level,
            "%d nodes: %s (%s), such as: %s [%s]",
            len(alike), first.state, first.reason, first.message, nodes,
            extra={"facts": facts},
        )  # fmt: skip
        return
    for one in alike:
        facts = {"node": one.node, "state": one.state, "reason": one.reason}
        log.log(level, "%s", _sentence(one), extra={"facts": facts})


def _passing(judged: Judgement) -> bool:
    return judged.state in PASSING or Trait.PASSING in judged.reason.traits
