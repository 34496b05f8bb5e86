"""State of the controller after a reconcile. Metrics, health, log, Events and the status object derive from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    affected: Affected
    """Pods that may hold files of an old driver."""
    lost: OutOfSync | None = None
    """Why the cache is out of sync."""
    restarted: int = 0
    """Plugins that this leader has restarted."""
