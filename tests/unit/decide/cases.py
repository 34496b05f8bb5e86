"""Tables of named cases, and decisions one after the other.

Each ``wrong…`` helper returns the cases that are wrong, so that one failure does not hide the others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from hook.decide.state import Memory
from tests.fixtures.cluster import LATER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.config import Settings
    from hook.decide.reasons import Reason
    from hook.decide.result import Decision, Phase
    from tests.fixtures.cluster import Cluster

Clusters = dict[str, tuple["Cluster", "Reason"]]
"""Named clusters, each with the reason that is expected for it."""
Wrong = dict[str, tuple[object, object]]
"""What was expected and what was found, by name."""


def wrong(cases: Mapping[str, tuple[object, object]]) -> Wrong:
    """Return the cases whose expected and found values differ."""
    return {name: (expected, found) for name, (expected, found) in cases.items() if expected != found}


def wrong_decisions(cases: Clusters, settings: Settings | None = None) -> Wrong:
    """Return the clusters for which the decision has another reason than expected."""
    return wrong({name: (reason, found.decide(settings)[0].reason) for name, (found, reason) in cases.items()})


def wrong_nodes(cases: Clusters) -> Wrong:
    """Return the clusters whose only node has another reason than expected."""
    return wrong({name: (reason, found.judge().reason) for name, (found, reason) in cases.items()})


def timeline(*steps: tuple[float, Cluster], settings: Settings | None = None) -> list[Decision]:
    """Decide about each cluster, at its seconds after LATER, with the memory of the decision before."""
    memory, decisions = Memory(started=LATER), []
    for seconds, found in steps:
        decision, memory = found.decide(settings, memory, LATER + timedelta(seconds=seconds))
        decisions.append(decision)
    return decisions


def reasons_over(*steps: tuple[float, Cluster], settings: Settings | None = None) -> list[Reason]:
    """Return the reasons of a timeline."""
    return [decision.reason for decision in timeline(*steps, settings=settings)]


def phases_over(*steps: tuple[float, Cluster], settings: Settings | None = None) -> list[Phase]:
    """Return the phases of a timeline."""
    return [decision.phase for decision in timeline(*steps, settings=settings)]
