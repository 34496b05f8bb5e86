"""What a run remembers between decisions. Small, and losing it costs time, never correctness."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.core.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from hook.core.verdicts import Judgement, StalePod


@dataclass(frozen=True, slots=True)
class AskedRestart:
    """A restart that was asked for."""

    pod_uid: str
    driver_run: str
    at: datetime
    refused: str = ""
    """The server's words, where it refused for good."""
    came_back: bool = False
    """A plugin was verified there since."""
    tries: int = 1
    """Restarts that were asked for here, this one included, since a plugin was last verified on another driver run."""


@dataclass(frozen=True, slots=True)
class Memory:
    """When conditions were first seen, which restarts were asked for, and when the fleet last advanced."""

    started: datetime
    """Start of the Job: retries share one deadline."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Condition to the moment since which it holds without a break."""
    restarts: Mapping[str, AskedRestart] = field(default_factory=dict)
    """By ``restart_key``: the last restart asked for."""
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
        return sum(not one.refused for one in self.restarts.values())

    def asked(self, node: str, pod: StalePod, at: datetime, refused: str = "") -> Memory:
        """Note that a restart was asked for, or refused for good."""
        entry = AskedRestart(pod_uid=pod.uid, driver_run=pod.driver_run, at=at, refused=refused)
        return replace(self, restarts={**self.restarts, restart_key(pod.daemonset_uid, node): entry})

    def troubled(self, pod: StalePod, why: str) -> Memory:
        """Note why a restart could not be asked for; it is tried again."""
        others = {uid: trouble for uid, trouble in self.troubles.items() if uid != pod.uid}
        return replace(self, troubles={**others, pod.uid: why})

    def with_verified(self, verified: Iterable[Judgement]) -> Memory:
        """Note on which nodes a plugin came back after its restart."""
        keys = {restart_key(one.daemonset_uid, one.node) for one in verified}
        back = {
            key: replace(asked, came_back=True)
            for key, asked in self.restarts.items()
            if key in keys and not asked.came_back
        }
        return replace(self, restarts={**self.restarts, **back}) if back else self


def restart_key(daemonset_uid: str, node: str) -> str:
    """One consumer on one node."""
    return f"{daemonset_uid}/{node}"


class Timers:
    """Collects, during one decision, how long each condition has held; those not asked about end."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._before = memory.first_seen
        self.now = now
        self.first_seen: dict[str, datetime] = {}

    def held(self, condition: str) -> timedelta:
        """Say how long a condition has held by now; zero if it is new."""
        since = self.first_seen.setdefault(condition, self._before.get(condition, self.now))
        return self.now - since
