"""Status object: a ConfigMap with flat keys that other tools read, also after the Job is gone.

``kubectl wait --for=jsonpath``, Flux, Argo CD and Chainsaw read it (docs/status-object.md). The program never does. The
chart renders it with the ``trigger`` alone. The program applies its keys by server-side apply, so an upgrade of the
release resets nothing.

A write that fails never fails a run: it is logged once, and repeated with the next one.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.decide.fleet import active_policy, chart_version, sources_of
from hook.decide.result import TERMINAL, NodeState, Phase
from hook.errors import ApiError
from hook.format import printable, timestamp
from hook.kube import retry
from hook.kube.resources import CONFIG_MAPS
from hook.objects.stacks import STACKS

if TYPE_CHECKING:
    from hook.decide.result import Decision
    from hook.decide.workloads import Affected
    from hook.kube.client import Api
    from hook.objects import Snapshot
    from hook.settings import Settings

log = logging.getLogger(__name__)

WRITE_SECONDS: Final = 5.0
"""Time between two writes, unless the phase changes."""
HEARTBEAT_SECONDS: Final = 30.0
"""Time after which a state is written that has not changed."""
TIMEOUT_SECONDS: Final = 2.0
"""Timeout of one write. The reconcile loop waits for it."""
LONGEST_MESSAGE: Final = 1000
"""Longest message, in characters."""
FIRST_PODS: Final = 10
"""Affected pods that are named."""
FIELD_MANAGER: Final = "gpu-operator-post"


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

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._written: dict[str, str] = {}
        """What the last write has, if it succeeded."""
        self._phase: StatusPhase | None = None
        self._policy = NO_POLICY
        self._written_at = float("-inf")
        self._warned = False

    def show(self, decision: Decision, affected: Affected, snapshot: Snapshot, settings: Settings) -> None:
        """Write the state after a decision, if that is due."""
        phase, waited = PHASES[decision.phase], time.monotonic() - self._written_at
        if phase is self._phase and waited < WRITE_SECONDS:
            return
        self._policy = NO_POLICY if decision.phase is Phase.SKIP else _of_policy(snapshot, settings)
        keys = self._keys(phase, decision, affected)
        if keys != self._written or waited >= HEARTBEAT_SECONDS:
            self._write(phase, keys, TIMEOUT_SECONDS)

    def end(
        self, decision: Decision, affected: Affected, phase: StatusPhase | None = None, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Write the end of a run unless it is written, with retries for at most `seconds`."""
        phase = phase or PHASES[decision.phase]
        keys = self._keys(phase, decision, affected)
        if keys != self._written:
            self._write(phase, keys, seconds)

    def _keys(self, phase: StatusPhase, decision: Decision, affected: Affected) -> dict[str, str]:
        return {"phase": phase, **_of_fleet(decision), **_of_pods(affected), **self._policy}

    def _write(self, phase: StatusPhase, keys: dict[str, str], seconds: float) -> None:
        """Write, with retries if there is more time than one write takes. Log the first failure."""
        self._phase, self._written, self._written_at = phase, {}, time.monotonic()
        data = {**keys, "updatedAt": timestamp(datetime.now(UTC))}
        config_maps = CONFIG_MAPS.select(self._namespace)

        def write() -> None:
            self._api.apply(config_maps, self._name, {"data": data}, FIELD_MANAGER, TIMEOUT_SECONDS)

        try:
            retry.patiently(write, retry.WRITE, time.monotonic() + seconds - TIMEOUT_SECONDS)
        except ApiError as error:
            level = logging.DEBUG if self._warned else logging.WARNING
            log.log(level, "cannot write the status object %s/%s: %s", self._namespace, self._name, error)
            self._warned = True
        else:
            self._written = keys


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


def _of_pods(affected: Affected) -> dict[str, str]:
    """Return the number and the first names of affected pods; nothing while they are not known."""
    if affected.unknown:
        return {}
    first = ", ".join(map(str, affected.pods[:FIRST_PODS]))
    return {"affectedPods": str(len(affected.pods)), "firstAffectedPods": first}


def _of_policy(snapshot: Snapshot, settings: Settings) -> dict[str, str]:
    """Return which driver and operator the policy asks for."""
    stack = STACKS[settings.stack]
    policy = active_policy(snapshot.policies or (), stack)
    if policy is None:
        return NO_POLICY
    versions = {source.driver.version for source in sources_of(policy, snapshot.pools)}
    return {
        "driverVersion": ", ".join(sorted(versions - {""})),
        "operatorChartVersion": chart_version(policy.chart, stack),
        "observedGeneration": str(policy.generation),
    }
