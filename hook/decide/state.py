"""State that the program keeps between decisions. A process that loses it loses time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.decide.record import RestartRecord, came_back, restart_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime, timedelta

    from hook.decide.fleet import Context, Fleet
    from hook.decide.result import NodeStatus, StalePod


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A fleet with the statuses of its nodes, as of one decision."""

    fleet: Fleet
    statuses: Mapping[str, tuple[NodeStatus, ...]]
    """By node, sorted by name."""
    passing: frozenset[str]
    """Nodes whose statuses may change with the time alone."""
    now: datetime
    restarts: Mapping[str, RestartRecord]
    """The restarts that were known."""

    def holds(self, context: Context, now: datetime) -> bool:
        """Return whether the statuses of nodes about which nothing changed are still true."""
        return self.now <= now and self.fleet.context.lasting == context.lasting


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when conditions hold, which restarts were issued, and which nodes this run has seen."""

    started: datetime
    """Start of the Job. All its retries share one deadline."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Since when a condition holds without interruption, by condition."""
    restarts: Mapping[str, RestartRecord] = field(default_factory=dict)
    """Last restart that was issued, by ``restart_key``."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """Load under which a plugin pod was proven fresh, by its UID."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Why a restart could not be issued and is tried again, by UID of the pod. The most recent one is last."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """How many decisions have seen the devices of a node being changed, by node. A higher number is another change."""
    eligible: frozenset[str] = frozenset()
    """Nodes that were eligible at some time of this run."""
    saw_fleet: bool = False
    """Some node was eligible. If the fleet is gone after that, it may come back."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """The evaluation of all nodes in the last decision. It saves work, and changes no decision."""

    @property
    def restarted(self) -> int:
        """Return how many recorded restarts the API server accepted."""
        return sum(not restart.refused for restart in self.restarts.values())

    def restart_of(self, daemonset_uid: str, node: str) -> RestartRecord | None:
        """Return the last restart of a plugin that was issued on a node."""
        return self.restarts.get(restart_key(daemonset_uid, node))

    def asked(self, node: str, pod: StalePod, at: datetime, refused: str = "") -> Memory:
        """Record a restart that was issued, or refused for good."""
        key = restart_key(pod.daemonset_uid, node)
        record = RestartRecord.of(pod, at, self.restarts.get(key), refused)
        return replace(self, restarts={**self.restarts, key: record})

    def changing(self, nodes: Iterable[str]) -> Memory:
        """Record that the devices of these nodes are being changed."""
        seen = {node: self.changes.get(node, 0) + 1 for node in nodes}
        return replace(self, changes={**self.changes, **seen}) if seen else self

    def troubled(self, pod: StalePod, why: str) -> Memory:
        """Record why a restart could not be issued. It is tried again."""
        others = {uid: trouble for uid, trouble in self.troubles.items() if uid != pod.uid}
        return replace(self, troubles={**others, pod.uid: why})

    def with_verified(self, verified: Iterable[NodeStatus]) -> Memory:
        """Record that plugins were verified after their restart.

        A status without a DaemonSet stands for all plugins of its node.
        """
        back = came_back(self.restarts, verified)
        return replace(self, restarts={**self.restarts, **back}) if back else self

    def with_fresh(self, statuses: Iterable[NodeStatus], existing: AbstractSet[str]) -> Memory:
        """Record which pods were proven fresh, and forget pods that no longer exist."""
        found = ((uid, load) for status in statuses for uid, load in status.fresh)
        new = {uid: load for uid, load in found if uid in existing and self.fresh.get(uid) != load}
        if not new and self.fresh.keys() <= existing:
            return self
        kept = {uid: load for uid, load in self.fresh.items() if uid in existing}
        return replace(self, fresh={**kept, **new})

    def about(self, daemonsets: AbstractSet[str], nodes: AbstractSet[str], pods: AbstractSet[str]) -> Memory:
        """Forget all other plugins, nodes and pods."""
        parts = ((key, key.partition("/")) for key in self.restarts)
        gone = {key for key, (uid, _slash, node) in parts if uid not in daemonsets or node not in nodes}
        kept = {key: record for key, record in self.restarts.items() if key not in gone}
        return replace(
            self,
            restarts=kept if gone else self.restarts,
            troubles={uid: trouble for uid, trouble in self.troubles.items() if uid in pods},
            changes={node: count for node, count in self.changes.items() if node in nodes},
            eligible=self.eligible if self.eligible <= nodes else self.eligible & nodes,
        )


class Timers:
    """Time for which each condition has held. A condition that one decision does not ask for starts again."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._before = memory.first_seen
        self.now = now
        self.first_seen: dict[str, datetime] = {}

    def keep(self, condition: str) -> None:
        """Continue a condition that holds already, but do not start it."""
        if condition in self._before:
            self.first_seen[condition] = self._before[condition]

    def held(self, condition: str) -> timedelta:
        """Return for how long a condition has held; zero if it is new."""
        since = self.first_seen.setdefault(condition, self._before.get(condition, self.now))
        return self.now - since
