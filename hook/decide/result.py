"""Results of a decision: the status of each node, actions, and one phase for the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from hook.decide.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime

    from hook.objects import Pod

Blocker = tuple[Reason, str]
"""Why something is held back, as a reason and a message."""


class NodeState(StrEnum):
    """State of a node in the refresh of its plugins."""

    EXCLUDED = "Excluded"
    """The node is reported, but its plugin is not restarted."""
    WAITING = "Waiting"
    """Its driver is not settled, or its plugin is missing."""
    STALE = "Stale"
    RESTARTING = "Restarting"
    VERIFYING = "Verifying"
    """The plugin is fresh, but not verified yet."""
    VERIFIED = "Verified"
    FAILED = "Failed"
    """Manual action is required."""


TERMINAL: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})
"""States of a node that no run waits for."""


class Patience(StrEnum):
    """Grace period that a state has before it counts as failed."""

    DRIVER = "driver"
    PLUGIN = "plugin"
    NODE = "node"
    """A node that is not back in time is excluded, not failed."""


class Phase(StrEnum):
    """State of a run, or its result."""

    DONE = "Done"
    SKIP = "Skip"
    WAIT = "Wait"
    FAIL = "Fail"
    DEADLINE = "Deadline"


class Condition(NamedTuple):
    """State of a node, or of a plugin on it, with a reason and a message."""

    state: NodeState
    reason: Reason
    message: str
    patience: Patience | None = None


def waiting(reason: Reason, message: str, patience: Patience | None = None) -> Condition:
    """Return that a node waits."""
    return Condition(NodeState.WAITING, reason, message, patience)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """State of one node, or of one plugin on it, with a reason and a message."""

    node: str
    state: NodeState
    reason: Reason
    message: str
    subject: str = ""
    """The pod that the reason is about, ``namespace/name``. Remedies name it."""
    plugin: str = ""
    """The plugin's DaemonSet, ``namespace/name``."""
    daemonset_uid: str = ""
    """UID of the plugin's DaemonSet."""
    patience: Patience | None = None
    label_pending: bool = False
    """The upgrade state label is not quiet yet, so the run waits for it."""
    stale: StalePlugin | None = None
    """What to restart, if the plugin is stale."""
    fresh: tuple[tuple[str, str], ...] = ()
    """UIDs of pods that are proven fresh, each with its load."""
    exposed: Reason | None = None
    """Why a new claim could meet an old driver here: no driver is ready, or a plugin is stale."""

    def failed(self, reason: Reason | None = None, message: str = "") -> NodeStatus:
        """Return the status as failed: manual action is required."""
        return replace(
            self,
            state=NodeState.FAILED,
            reason=reason or self.reason,
            message=message or self.message,
            patience=None,
        )


@dataclass(frozen=True, slots=True)
class StalePlugin:
    """A plugin to restart: its pod is deleted, if that is still the same object and version."""

    node: str
    pod: Pod
    daemonset_uid: str
    because: str
    """The observation that shows that the pod is stale."""
    load: str
    """Identifier of the load of the driver, and of those of prerequisites. No kubelet's clock is in it."""
    driver_ready: datetime | None = None
    """When that driver became ready, by its kubelet. None if unknown."""
    others: frozenset[str] = frozenset()
    """UIDs of other live pods of the same DaemonSet on the node. None of them replaces it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Verdict on a run with its reason, the restarts for now, and the statuses of all nodes."""

    phase: Phase
    reason: Reason
    message: str
    statuses: tuple[NodeStatus, ...] = ()
    actions: tuple[StalePlugin, ...] = ()
    warnings: tuple[str, ...] = ()
    cause: Reason | None = None
    """Why the run was not done, if the reason is only that the time is up."""

    @property
    def final(self) -> bool:
        """Return whether the run ends with this decision."""
        return self.phase is not Phase.WAIT

    @property
    def unhappy(self) -> bool:
        """Return whether the run ends with work left. Then the report names what to do, also with exit code 0."""
        return self.phase in (Phase.FAIL, Phase.DEADLINE)

    def count(self, *states: NodeState) -> int:
        """Return the number of statuses in any of these states."""
        return sum(status.state in states for status in self.statuses)


def headline(decision: Decision) -> str:
    """Return the line that sums up a decision."""
    return f"{decision.phase} ({decision.reason}): {decision.message}"


def in_need(decision: Decision) -> list[NodeStatus]:
    """Return the statuses that a failing run must report, failed nodes first."""
    if not decision.unhappy:
        return []
    failed = [status for status in decision.statuses if status.state is NodeState.FAILED]
    return failed + [status for status in decision.statuses if status.state not in (NodeState.FAILED, *TERMINAL)]
