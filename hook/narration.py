"""Log progress and record Events: one line per change, and a summary from time to time."""

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
"""Up to this many nodes that change alike get a line each; more share one line."""
NAMED: Final = 8
"""Nodes that a shared line names."""
TOLD_BESIDE: Final = 10
"""Failed nodes that are recorded on an object of the deployment tool, which shows them next to the final Event."""
LOST_SECONDS: Final = 5.0
"""A shorter loss of contact is not logged: watches break from time to time, and are restored at once."""
PASSING: Final = frozenset({NodeState.RESTARTING, NodeState.VERIFYING})
"""States that last seconds. They are logged at debug level; the restart and the verified plugin at info level."""


class Narrator:
    """Remembers what was reported, so that nothing is reported twice in a row."""

    def __init__(self, teller: Teller, owner: Subject | None, regarding: Sequence[Regarding] = ()) -> None:
        self.teller, self.owner, self.regarding = teller, owner, regarding
        self._beside = 0
        self._told: dict[tuple[str, str, str], tuple[NodeState, Reason]] = {}
        self._reason: Reason | None = None
        self.last_summary = time.monotonic()
        self._lost_since: float | None = None

    def tell_contact(self, lost: Lost | None) -> None:
        """Log once when the cache is out of sync, and once when it has recovered."""
        if lost is not None and lost.seconds >= LOST_SECONDS and self._lost_since is None:
            self._lost_since = lost.since
            log.warning("%s; nothing is restarted until it can be read again", lost)
        elif lost is None and self._lost_since is not None:
            log.info("the cluster can be read again, after %.0f s", time.monotonic() - self._lost_since)
            self._lost_since = None

    def tell_deed(self, deed: Deed, consumer: Subject | None) -> None:
        """Record a restart as an Event on the plugin's DaemonSet and on our own Job or Deployment."""
        for subject in filter(None, (consumer, self.owner)):
            self.teller.tell(subject, EventReason.STALE_PLUGIN_RESTARTED, deed.note, about=deed.about)

    def tell(self, decision: Decision, left: timedelta) -> None:
        """Log what changed since the last decision, and from time to time a summary."""
        self.tell_changes(decision)
        if not decision.final and self._reason != decision.reason:
            self._reason = decision.reason
            log.info("waiting (%s): %s", decision.reason, decision.message)
        if not decision.final and time.monotonic() - self.last_summary >= SUMMARY_SECONDS:
            self.summarise(decision, f", {left.total_seconds():.0f} s left")

    def tell_changes(self, decision: Decision) -> None:
        """Log the nodes whose state or reason changed."""
        changed: dict[tuple[str, NodeState, Reason], list[Judgement]] = {}
        detail = report.details(decision)
        for judged in decision.judgements:
            standing = (judged.state, judged.reason)
            if self._told.get((judged.stack, judged.node, judged.consumer)) != standing:
                self._told[judged.stack, judged.node, judged.consumer] = standing
                detailed = replace(judged, message=detail(judged))
                changed.setdefault((judged.stack, *standing), []).append(detailed)
        for alike in changed.values():
            _log_change(alike)
            if alike[0].state is NodeState.FAILED:
                self._tell_of_failure(alike[0])

    def _tell_of_failure(self, judged: Judgement) -> None:
        """Record a failure on our own Job or Deployment, and the first few on the objects of the deployment tool."""
        told_on: list[Findable] = [self.owner] if self.owner else []
        if self._beside < TOLD_BESIDE:
            self._beside += 1
            told_on += self.regarding
        about = f"{judged.stack}/{judged.node}"
        for subject in told_on:
            self.teller.tell(subject, EventReason.NODE_FAILED, _sentence(judged), about=about, warning=True)

    def forget_all_but(self, decision: Decision) -> None:
        """Forget nodes that are gone, so that memory does not grow."""
        known = {(judged.stack, judged.node, judged.consumer) for judged in decision.judgements}
        self._told = {key: standing for key, standing in self._told.items() if key in known}

    def summarise(self, decision: Decision, left: str = "") -> None:
        """Log a summary, and record it on our own Job or Deployment."""
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
        nodes = ", ".join(judged.node for judged in alike[:NAMED]) + (", …" if len(alike) > NAMED else "")
        facts = {"nodes": [judged.node for judged in alike], "state": first.state, "reason": first.reason}
        log.log(
            level,
            "%d nodes: %s (%s), such as: %s [%s]",
            len(alike), first.state, first.reason, first.message, nodes,
            extra={"facts": facts},
        )  # fmt: skip
        return
    for judged in alike:
        facts = {"node": judged.node, "state": judged.state, "reason": judged.reason}
        log.log(level, "%s", _sentence(judged), extra={"facts": facts})


def _passing(judged: Judgement) -> bool:
    return judged.state in PASSING or Trait.PASSING in judged.reason.traits
