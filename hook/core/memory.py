"""What a run remembers between decisions. Small, and losing it costs time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.core import backoff
from hook.core.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from hook.core.fleet import Fleet
    from hook.core.verdicts import Judgement, StalePod


@dataclass(frozen=True, slots=True)
class AskedRestart:
    """A restart that was asked for."""

    pod_uid: str
    driver_run: str
    at: datetime
    others: frozenset[str] = frozenset()
    """UIDs of pods that ran next to it: none of them is what came of this restart."""
    driver_ready: datetime | None = None
    """When the driver was ready by then: its kubelet may say a later moment since."""
    orphan: bool = False
    """No DaemonSet controlled the pod: an admission policy may refuse to delete such a pod, until one adopts it."""
    refused: str = ""
    """The server's words, where it refused for good."""
    came_back: bool = False
    """A plugin was verified there since."""
    tries: int = 1
    """The how-manieth restart that did not help, if this one does not either."""


@dataclass(frozen=True, slots=True)
class Memory:
    """When conditions were first seen, which restarts were asked for, and when the fleet last advanced."""

    started: datetime
    """Start of the Job: retries share one deadline."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Condition to the moment since which it holds without a break."""
    restarts: Mapping[str, AskedRestart] = field(default_factory=dict)
    """By ``restart_key``: the last restart asked for."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """By UID of a plugin's pod: the driver run under which it was proven to be fresh."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """By UID of a pod: why its restart could not be asked for, though another try may mend it. The last one is last."""
    epoch: str = ""
    """Which intent the ranks below were reached under."""
    ranks: Mapping[str, int] = field(default_factory=dict)
    """By node: how far it ever was under this intent."""
    advanced_at: datetime | None = None
    eligible: frozenset[str] = frozenset()
    """Nodes that were served, or waited for, at some moment of this run."""
    saw_fleet: bool = False
    """Some node was eligible: what is gone after that may come back."""
    breaker: Breaker = field(default_factory=Breaker)

    @property
    def restarted(self) -> int:
        """How many plugins this run restarted last."""
        return sum(not restart.refused for restart in self.restarts.values())

    def asked(self, node: str, pod: StalePod, at: datetime, refused: str = "") -> Memory:
        """Note that a restart was asked for, or refused for good."""
        key = restart_key(pod.daemonset_uid, node)
        tries = backoff.tries(self.restarts.get(key), pod)
        entry = AskedRestart(
            pod.uid,
            pod.driver_run,
            at,
            others=self._others(key, pod),
            driver_ready=pod.driver_ready,
            orphan=pod.orphan,
            refused=refused,
            tries=tries,
        )
        return replace(self, restarts={**self.restarts, key: entry})

    def _others(self, key: str, pod: StalePod) -> frozenset[str]:
        """Return which pods ran next to this one, and to the one that was restarted before it under the same run."""
        before = self.restarts.get(key)
        again = before is not None and before.driver_run == pod.driver_run and pod.uid in before.others
        return pod.others & before.others if before is not None and again else pod.others

    def troubled(self, pod: StalePod, why: str) -> Memory:
        """Note why a restart could not be asked for; it is tried again."""
        others = {uid: trouble for uid, trouble in self.troubles.items() if uid != pod.uid}
        return replace(self, troubles={**others, pod.uid: why})

    def with_verified(self, verified: Iterable[Judgement]) -> Memory:
        """Note on which nodes a plugin came back after its restart. Without a consumer each of the node's is meant."""
        keys = {restart_key(status.daemonset_uid, status.node) for status in verified}
        back = {
            key: replace(asked, came_back=True)
            for key, asked in self.restarts.items()
            if not asked.came_back and not keys.isdisjoint((key, restart_key("", key.partition("/")[2])))
        }
        return replace(self, restarts={**self.restarts, **back}) if back else self

    def with_fresh(self, judgements: Iterable[Judgement], fleet: Fleet) -> Memory:
        """Note which pods were proven to be fresh, and forget pods that are gone."""
        known = {**self.fresh, **dict(pair for status in judgements for pair in status.fresh)}
        found = (*fleet.consumer_pods.values(), *fleet.unnamed_pods.values())
        there = {pod.uid for pods in found for pod in pods}
        return replace(self, fresh={uid: run for uid, run in known.items() if uid in there})

    def with_breaker_closed(self, now: datetime) -> Memory:
        """Let a person say that restarts may go on."""
        return replace(self, breaker=self.breaker.closed(now))

    def without_gone(self, fleet: Fleet) -> Memory:
        """Forget what is about nodes, consumers and pods that are gone: a run that never ends must not grow."""
        nodes = fleet.seen.nodes.keys() | fleet.consumer_pods.keys()
        pods = {pod.uid for found in fleet.consumer_pods.values() for pod in found if pod.live}
        keys = {restart_key(ds.uid, node) for ds in fleet.consumers.named for node in nodes}
        return replace(
            self.with_fresh((), fleet),
            restarts={key: asked for key, asked in self.restarts.items() if key in keys},
            troubles={uid: trouble for uid, trouble in self.troubles.items() if uid in pods},
            eligible=self.eligible & nodes,
        )


def restart_key(daemonset_uid: str, node: str) -> str:
    """One consumer on one node."""
    return f"{daemonset_uid}/{node}"


class Timers:
    """Collects, during one decision, how long each condition has held; those not asked about end."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._before = memory.first_seen
        self.now = now
        self.first_seen: dict[str, datetime] = {}

    def keep(self, condition: str) -> None:
        """Let a condition that has begun to hold go on, without beginning it."""
        if condition in self._before:
            self.first_seen[condition] = self._before[condition]

    def held(self, condition: str) -> timedelta:
        """Say how long a condition has held by now; zero if it is new."""
        since = self.first_seen.setdefault(condition, self._before.get(condition, self.now))
        return self.now - since
