"""Status object: a ConfigMap with flat keys that other tools read, also after the Job is gone.

``kubectl wait --for=jsonpath``, Flux, Argo CD and Chainsaw read it (docs/status-object.md). The chart
renders it with the ``trigger`` alone. The program applies its keys by server-side apply, so an upgrade of the release
resets nothing.

A write that fails never fails a run: it is logged once, and repeated with the next one.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.decide.end import TERMINAL
from hook.decide.fleet import active_policy, chart_version, sources_of
from hook.decide.result import NodeState, Phase
from hook.errors import ApiError
from hook.format import printable, timestamp
from hook.kube import retry
from hook.kube.requests import CONFIG_MAPS, apply_patch
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.result import Decision
    from hook.kube.client import Api
    from hook.objects.views import Snapshot

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 5.0
"""Time between two writes, unless the phase changes."""
HEARTBEAT_SECONDS: Final = 30.0
"""Time after which a controller writes a state that has not changed."""
TIMEOUT_SECONDS: Final = 2.0
"""Timeout of one write. The reconcile loop waits for it."""
LONGEST_MESSAGE: Final = 1000
"""Longest message, in characters."""
STATE_MANAGER: Final = "gpu-operator-post"
"""Field manager of the state of the fleet."""
AFFECTED, FIRST_PODS = "affectedPods", "firstAffectedPods"
"""Keys that are absent while affected pods are not known."""


class StatusPhase(StrEnum):
    """State of the fleet, as other tools read it."""

    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    TIMED_OUT = "TimedOut"
    UNKNOWN = "Unknown"
    """The run ended without a result. The Job tries again."""


PHASES: Final = {
    Phase.WAIT: StatusPhase.PROGRESSING,
    Phase.DONE: StatusPhase.SUCCEEDED,
    Phase.SKIP: StatusPhase.SKIPPED,
    Phase.FAIL: StatusPhase.FAILED,
    Phase.DEADLINE: StatusPhase.TIMED_OUT,
}


NO_POLICY: Final = {"driverVersion": "", "operatorChartVersion": "", "observedGeneration": ""}


class StatusObject:
    """Writer of one status object."""

    def __init__(self, api: Api, namespace: str, name: str, writer: str, started: datetime) -> None:
        self._api, self._namespace, self._name, self._writer = api, namespace, name, writer
        self._started = timestamp(started)
        self._phase: StatusPhase | None = None
        self._written: dict[str, str] = {}
        self._policy = NO_POLICY
        self._written_at = float("-inf")
        self._warned = False
        self.workloads: Mapping[str, str] = {}
        """What is known of affected pods. The next write has it."""

    def show(self, decision: Decision, snapshot: Snapshot, settings: Settings, *, heartbeat: bool = False) -> None:
        """Write the state after a decision, if that is due."""
        phase, waited = PHASES[decision.phase], time.monotonic() - self._written_at
        if phase is self._phase and waited < WRITE_SECONDS:
            return
        self._policy = NO_POLICY if decision.phase is Phase.SKIP else _of_policy(snapshot, settings)
        keys = {**_of_fleet(decision), **self._policy, **self.workloads}
        if phase is self._phase and keys == self._written and not (heartbeat and waited >= HEARTBEAT_SECONDS):
            return
        self._write(phase, keys, TIMEOUT_SECONDS)

    def end(self, decision: Decision, phase: StatusPhase | None = None, seconds: float = TIMEOUT_SECONDS) -> None:
        """Write the end of a run, with retries for at most `seconds`."""
        keys = {**_of_fleet(decision), **self._policy, **self.workloads}
        self._write(phase or PHASES[decision.phase], keys, seconds)

    def _write(self, phase: StatusPhase, keys: dict[str, str], seconds: float) -> None:
        self._written_at = time.monotonic()
        times = {"startedAt": self._started, "updatedAt": timestamp(self._api.now())}
        written = self._apply(STATE_MANAGER, {"phase": phase, **keys, **times, "writer": self._writer}, seconds)
        self._phase, self._written = phase, keys if written else {}

    def _apply(self, manager: str, keys: Mapping[str, str], seconds: float) -> bool:
        """Apply keys, with retries if there is more time than one write takes. Log the first failure."""
        request = apply_patch(CONFIG_MAPS, self._namespace, self._name, manager, {"data": dict(keys)})
        retrier = retry.retrying(retry.WRITE, time.sleep, time.monotonic() + seconds - TIMEOUT_SECONDS)
        try:
            retrier(self._api.send, request, TIMEOUT_SECONDS)
        except ApiError as error:
            level = logging.DEBUG if self._warned else logging.WARNING
            log.log(level, "cannot write the status object %s/%s: %s", self._namespace, self._name, error)
            self._warned = True
            return False
        return True


def _of_fleet(decision: Decision) -> dict[str, str]:
    """Return the reason, and the number of nodes by state. A node counts once, with its least advanced plugin."""
    states: dict[str, set[NodeState]] = {}
    for status in decision.statuses:
        states.setdefault(status.node, set()).add(status.state)
    excluded = sum(found == {NodeState.EXCLUDED} for found in states.values())
    verified = sum(NodeState.VERIFIED in found <= TERMINAL for found in states.values())
    eligible = len(states) - excluded
    return {
        "reason": decision.reason,
        "message": printable(decision.message, LONGEST_MESSAGE),
        "progress": f"{verified}/{eligible}" + (f" ({excluded} excluded)" if excluded else ""),
        "total": str(len(states)),
        "verified": str(verified),
        "stale": str(sum(NodeState.STALE in found for found in states.values())),
        "failed": str(sum(NodeState.FAILED in found for found in states.values())),
        "excluded": str(excluded),
    }


def _of_policy(snapshot: Snapshot, settings: Settings) -> dict[str, str]:
    """Return which driver and operator the policy asks for."""
    stack = STACKS[settings.stack]
    policy = active_policy(snapshot.policies or (), stack)
    if policy is None:
        return NO_POLICY
    versions = {source.version for source in sources_of(policy, snapshot.pools)}
    return {
        "driverVersion": ", ".join(sorted(versions - {""})),
        "operatorChartVersion": chart_version(policy.chart, stack),
        "observedGeneration": str(policy.generation),
    }
