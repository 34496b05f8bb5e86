"""State of the controller after a reconcile. Metrics, health, log, Events and the status object derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.decide.end import TERMINAL
from hook.decide.result import except_verified

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.result import Decision
    from hook.decide.workloads import Affected
    from hook.kube.informer import OutOfSync


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Result of one reconcile of the leader."""

    decision: Decision
    now: datetime
    """Time of the reconcile, by the API server's clock."""
    lost: OutOfSync | None = None
    restarted: int = 0
    """Plugins that this leader has restarted."""
    affected: Affected | None = None
    """Pods that may hold files of an old driver. None before the fleet is read."""


def remaining(decision: Decision) -> int:
    """Return the number of nodes that are neither verified nor excluded. Failed nodes count."""
    return len({status.node for status in except_verified(decision.statuses) if status.state not in TERMINAL})
