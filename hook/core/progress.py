"""Update what is remembered: how far the fleet has advanced, which pods are fresh, and what is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core.memory import restart_key
from hook.core.reason import Trait
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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


def with_fresh(memory: Memory, judgements: Iterable[Judgement], fleet: Fleet) -> Memory:
    """Note which pods were proven to be fresh, and forget pods that are gone."""
    known = {**memory.fresh, **dict(pair for judged in judgements for pair in judged.fresh)}
    found = (*fleet.consumer_pods.values(), *fleet.unnamed_pods.values())
    there = {pod.uid for pods in found for pod in pods}
    return replace(memory, fresh={uid: run for uid, run in known.items() if uid in there})


def without_gone(memory: Memory, fleet: Fleet) -> Memory:
    """Forget nodes, plugins and pods that are gone: the memory of a run without an end must not grow."""
    nodes = fleet.seen.nodes.keys() | fleet.consumer_pods.keys()
    pods = {pod.uid for found in fleet.consumer_pods.values() for pod in found if pod.live}
    keys = {restart_key(ds.uid, node) for ds in fleet.consumers.named for node in nodes}
    return replace(
        with_fresh(memory, (), fleet),
        restarts={key: asked for key, asked in memory.restarts.items() if key in keys},
        troubles={uid: trouble for uid, trouble in memory.troubles.items() if uid in pods},
        eligible=memory.eligible & nodes,
    )


def _rank(judged: Judgement) -> int:
    return ROLLING_RANK if Trait.DRIVER_RELOADING in judged.reason.traits else RANK[judged.state]
