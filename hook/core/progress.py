"""Measure the progress of a fleet, to detect a run that has stalled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core.reason import Trait
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.memory import Memory
    from hook.core.verdicts import Judgement

RANK: Final = {
    NodeState.WAITING: 0,
    NodeState.FAILED: 0,
    NodeState.STALE: 2,
    NodeState.RESTARTING: 3,
    NodeState.VERIFYING: 4,
    NodeState.VERIFIED: 5,
    NodeState.EXCLUDED: 5,
}
"""Progress rank of a state. A run has stalled if no node reaches a higher rank for a long time."""
ROLLING_RANK: Final = 1
"""Progress rank of a node whose new driver is being loaded."""


def advanced(memory: Memory, fleet: Fleet, judgements: Sequence[Judgement], now: datetime) -> Memory:
    """Record whether any node reached a higher rank than before, under the current policy and driver revisions."""
    generation = fleet.policy.generation if fleet.policy else 0
    epoch = f"{generation}/{','.join(sorted(revision.hash for revision in fleet.newest.values()))}"
    before = memory.ranks if epoch == memory.epoch else {}
    reached: dict[str, int] = {}
    for status in judgements:
        reached[status.node] = min(_rank(status), reached.get(status.node, _rank(status)))
    ranks = {node: max(rank, before.get(node, -1)) for node, rank in reached.items()}
    if memory.advanced_at is not None and all(rank <= before.get(node, -1) for node, rank in ranks.items()):
        return replace(memory, ranks=ranks)
    return replace(memory, epoch=epoch, ranks=ranks, advanced_at=now)


def _rank(judged: Judgement) -> int:
    return ROLLING_RANK if Trait.DRIVER_RELOADING in judged.reason.traits else RANK[judged.state]
