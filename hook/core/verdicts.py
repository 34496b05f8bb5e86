"""What the core says: judgements of nodes, actions, and one decision for the run. Data with reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from hook.core.reasons import Reason


class NodeState(StrEnum):
    """How far a node is."""

    EXCLUDED = "Excluded"
    """Reported and left alone."""
    WAITING = "Waiting"
    """Its driver is not settled, or its plugin is not there."""
    STALE = "Stale"
    RESTARTING = "Restarting"
    VERIFYING = "Verifying"
    """Fresh, but not proven yet."""
    VERIFIED = "Verified"
    FAILED = "Failed"
    """Needs a person."""


class Patience(StrEnum):
    """Which grace a state gets before it counts as failed."""

    DRIVER = "driver"
    PLUGIN = "plugin"
    NODE = "node"
    """A node that is not back after it is left alone, not failed."""


class Verdict(StrEnum):
    """What a run comes to."""

    DONE = "Done"
    SKIP = "Skip"
    WAIT = "Wait"
    FAIL = "Fail"
    DEADLINE = "Deadline"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One node's state (for one consumer, if it got that far) and the sentence that explains it."""

    node: str
    state: NodeState
    reason: Reason
    message: str
    subject: str = ""
    """The pod it is about, ``namespace/name``; for remedies."""
    consumer: str = ""
    """The consumer DaemonSet, ``namespace/name``."""
    daemonset_uid: str = ""
    """Its UID."""
    patience: Patience | None = None
    patience_with: str = ""
    """What patience is had with, where that is not this node alone."""
    label_pending: bool = False
    """Its upgrade state label is not quiet yet: it is served, but not done."""
    stale_pod: StalePod | None = None
    """The pod to restart, where the state is STALE."""
    fresh: tuple[tuple[str, str], ...] = ()
    """UIDs of the pods that are proven to be fresh, each with the driver run that it is fresh under."""
    stack: str = ""
    """Name of the driver stack that it is about."""

    def with_label_pending(self, *, pending: bool) -> Judgement:
        """Note that the node's label trails behind."""
        return replace(self, label_pending=True) if pending else self

    def failed(self, reason: Reason | None = None, message: str = "") -> Judgement:
        """Turn into one that needs a person."""
        return replace(
            self,
            state=NodeState.FAILED,
            reason=reason or self.reason,
            message=message or self.message,
            patience=None,
        )


class Cause(StrEnum):
    """What a stale pod did not start after: a closed list, for counting."""

    DRIVER = "Driver"
    PROVIDER = "Provider"
    """Something beside the driver that somebody asked to count."""
    DOUBT = "Doubt"
    """Nobody can tell by the times that there are."""
    POLICY = "Policy"
    """The policy's word, where it alone counts."""


@dataclass(frozen=True, slots=True)
class StalePod:
    """A pod that must restart, and the driver run that it is stale under."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    daemonset_uid: str
    because: str
    """What shows that it is stale."""
    driver_run: str
    """Identifies the driver container's current run: pod UID, start time and count of restarts."""
    cause: Cause = Cause.DRIVER
    driver_ready: datetime | None = None
    """When that driver became ready, by its kubelet; None where it does not tell."""
    others: frozenset[str] = frozenset()
    """UIDs of other live pods of the same DaemonSet on its node: none of them replaces it."""
    orphan: bool = False
    """No DaemonSet controls it (yet)."""
    again: bool = False
    """It was restarted before, and did not become verified."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Restart one plugin: delete this very pod, as it was read."""

    node: str
    pod: StalePod
    stack: str = ""
    """Name of the driver stack that it is restarted for."""
    also: tuple[Action, ...] = ()
    """What other stacks asked of the same pod: this one deletion is theirs, too."""


@dataclass(frozen=True, slots=True)
class RolloutRestart:
    """Restart a whole consumer by stamping its pod template."""

    namespace: str
    name: str
    uid: str
    at: datetime
    pods: tuple[tuple[str, StalePod], ...]
    """The stale pods that it is for, by node."""
    stack: str = ""
    also: tuple[Action, ...] = ()


Action = DeletePod | RolloutRestart


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason, what to do now, and one line per node."""

    verdict: Verdict
    reason: Reason
    message: str
    judgements: tuple[Judgement, ...] = ()
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    cause: Reason | None = None
    """What held it up, where the reason says only that the time is over."""
    stack: str = ""
    """Name of the driver stack that the reason is about."""

    @property
    def final(self) -> bool:
        """There is nothing left to wait for."""
        return self.verdict is not Verdict.WAIT

    @property
    def unhappy(self) -> bool:
        """It ended with work left, so people are told what to do, whatever the exit code says."""
        return self.verdict in (Verdict.FAIL, Verdict.DEADLINE)

    def count(self, *states: NodeState) -> int:
        """Count judgements in any of these states."""
        return sum(status.state in states for status in self.judgements)
