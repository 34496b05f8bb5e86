"""State that the program keeps between decisions. A process that loses it loses time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime, timedelta

    from hook.decide.fleet import Context, Fleet
    from hook.decide.result import NodeStatus, StalePod


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """Record of a restart that was issued."""

    pod_uid: str
    driver_run: str
    at: datetime
    others: frozenset[str] = frozenset()
    """UIDs of pods that ran next to it. None of them replaced it."""
    orphan: bool = False
    """No DaemonSet controlled the pod. An admission policy may refuse its deletion until a DaemonSet adopts it."""
    refused: str = ""
    """The API server's message, if it refused the restart for good."""
    came_back: bool = False
    """A plugin was verified on the node since."""
    tries: int = 1
    """Consecutive restarts without a verified plugin, including this one."""
    driver_ready: datetime | None = None
    """When the driver was ready at that time. The kubelet may report another time since."""
    repeated: bool = False
    """Under the same load, another pod was restarted before it that was not seen next to it."""

    def served(self, pod: StalePod) -> bool:
        """Return whether a plugin was verified since, and is stale only because its driver was reloaded."""
        return self.came_back and self.driver_run != pod.driver_run

    def pending(self, pod: StalePod) -> bool:
        """Return whether this is the pod that was deleted and is still there: nothing was restarted yet."""
        return self.pod_uid == pod.uid and not self.refused

    def repeated_by(self, pod: StalePod) -> bool:
        """Return whether the restart of a pod repeats one under the same load."""
        if self.refused or self.driver_run != pod.driver_run:
            return False
        return self.repeated or not (pod.uid == self.pod_uid or pod.uid in self.others)

    def tries_with(self, pod: StalePod) -> int:
        """Return the number of consecutive restarts without a verified plugin, including this one."""
        if self.served(pod):
            return 1
        return self.tries if self.pending(pod) or pod.uid in self.others else self.tries + 1


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
    """Driver run under which a plugin pod was proven fresh, by its UID."""
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
        before = self.restarts.get(key)
        entry = RestartRecord(
            pod.uid,
            pod.driver_run,
            at,
            others=self._others(key, pod),
            orphan=pod.orphan,
            refused=refused,
            tries=before.tries_with(pod) if before is not None else 1,
            driver_ready=pod.driver_ready,
            repeated=before is not None and before.repeated_by(pod),
        )
        return replace(self, restarts={**self.restarts, key: entry})

    def _others(self, key: str, pod: StalePod) -> frozenset[str]:
        """Return the pods that ran next to this one, and next to its predecessor if the driver run is the same."""
        before = self.restarts.get(key)
        again = before is not None and before.driver_run == pod.driver_run and pod.uid in before.others
        return pod.others & before.others if before is not None and again else pod.others

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
        awaited = {key: asked for key, asked in self.restarts.items() if not asked.came_back}
        if not awaited:
            return self
        nodes = {key.partition("/")[2] for key in awaited}
        keys = {restart_key(status.daemonset_uid, status.node) for status in verified if status.node in nodes}
        back = {
            key: replace(asked, came_back=True)
            for key, asked in awaited.items()
            if not keys.isdisjoint((key, restart_key("", key.partition("/")[2])))
        }
        return replace(self, restarts={**self.restarts, **back}) if back else self

    def with_fresh(self, statuses: Iterable[NodeStatus], existing: AbstractSet[str]) -> Memory:
        """Record which pods were proven fresh, and forget pods that no longer exist."""
        found = ((uid, run) for status in statuses for uid, run in status.fresh)
        new = {uid: run for uid, run in found if uid in existing and self.fresh.get(uid) != run}
        if not new and self.fresh.keys() <= existing:
            return self
        kept = {uid: run for uid, run in self.fresh.items() if uid in existing}
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


def restart_key(daemonset_uid: str, node: str) -> str:
    """Return the key of one plugin on one node."""
    return f"{daemonset_uid}/{node}"


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
