"""Report which pods may hold files of an old driver: table, JSON, and the text of the Event.

The program only reports them. It never evicts or deletes a pod with claims: only the owner of a
pod knows what its end costs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from hook.decide.fleet import find_plugins
from hook.decide.workloads import Affected, affected_pods
from hook.format import aligned, printable, some, timestamp
from hook.objects.stacks import STACKS

if TYPE_CHECKING:
    from hook.decide.workloads import AffectedPod
    from hook.kube.cache import Cache
    from hook.objects import Snapshot
    from hook.settings import Settings

EVALUATE_SECONDS: Final = 5.0
"""Time between two evaluations. No restart depends on them."""
EVALUATE_FACTOR: Final = 20
"""The same as a multiple of the duration of an evaluation: a twentieth of a CPU."""
AWAIT_SECONDS: Final = 5.0
"""Longest wait of a run that ends before claims and pods were read. To read 20,000 of them takes longer."""
LOOK_SECONDS: Final = 0.1
MOST_NAMED: Final = 10
"""Pods in a line of the log, and in an Event."""
MOST_ROWS: Final = 50
MOST_LISTED: Final = 100
"""Pods in a JSON report. The count is of all."""
MOST_CLAIMS: Final = 10
"""Claims of one pod."""
PAGE: Final = "docs/affected-workloads.md"
HEADINGS: Final = ("POD", "NODE", "STARTED", "CLAIMS")


def evaluate(cache: Cache, settings: Settings, snapshot: Snapshot) -> Affected:
    """Evaluate the pods with claims."""
    if unknown := why_not(settings) or cache.workloads.problem or str(cache.out_of_sync or ""):
        return Affected(unknown=unknown)
    holders = cache.workloads.holders()
    found = find_plugins(snapshot.daemonsets, settings)
    pods = affected_pods(holders, snapshot, found, STACKS[settings.stack])
    return Affected(tuple(pods), malformed=cache.workloads.malformed)


def why_not(settings: Settings) -> str:
    """Return why these settings do not let the program read pods with claims, or ""."""
    if not settings.affected_workloads.enabled:
        return "affectedWorkloads.enabled is false"
    if not STACKS[settings.stack].plugin.claim_drivers:
        return f"no pod claims devices of the stack {settings.stack}"
    return ""


class WorkloadObserver:
    """Evaluates the pods with claims from time to time."""

    def __init__(self, cache: Cache, settings: Settings) -> None:
        self._cache, self._settings = cache, settings
        self._next = float("-inf")
        self.affected = Affected(unknown=why_not(settings) or "the fleet was not evaluated")

    def observe(self, snapshot: Snapshot, *, now: bool = False) -> Affected:
        """Evaluate, if that is due or wanted `now`. Return the latest result."""
        if why_not(self._settings) or (not now and time.monotonic() < self._next):
            return self.affected
        if now:
            self._await()
        began = time.monotonic()
        self.affected = evaluate(self._cache, self._settings, snapshot)
        ended = time.monotonic()
        self._next = ended + max(EVALUATE_SECONDS, EVALUATE_FACTOR * (ended - began))
        return self.affected

    def _await(self) -> None:
        """Wait for a short time until claims and pods are read."""
        end = time.monotonic() + AWAIT_SECONDS
        while self._cache.workloads.pending and time.monotonic() < end:
            self._cache.watch_plugins()
            time.sleep(LOOK_SECONDS)


def headline(affected: Affected) -> str:
    """Return how many pods are affected; empty if none is."""
    count = len(affected.pods)
    return f"{count} {'pod' if count == 1 else 'pods'} may hold files of an old driver" if count else ""


def note(affected: Affected) -> str:
    """Return how many pods are affected, and the first of them; empty without affected pods."""
    if not affected.pods:
        return ""
    names = some([f"{pod} on {pod.node}" for pod in affected.pods], MOST_NAMED)
    return f"{headline(affected)}: {names}. A restart of the plugin does not repair them: {PAGE}"


def summary(affected: Affected) -> list[str]:
    """Return the warnings at the end of a run: the affected pods, and what cannot be read."""
    return [printable(line) for line in (note(affected), *_unreadable(affected)) if line]


def as_lines(affected: Affected) -> list[str]:
    """Return the table of affected pods, and what cannot be read; nothing without them."""
    if not affected.pods:
        return _unreadable(affected)
    rows = [(str(pod), pod.node, timestamp(pod.started), _claims(pod)) for pod in affected.pods[:MOST_ROWS]]
    more = [f"({len(affected.pods) - MOST_ROWS} more pods)"] if len(affected.pods) > MOST_ROWS else []
    title = f"affected workloads: {headline(affected)}. A restart of the plugin does not repair them: {PAGE}"
    return [printable(line) for line in (title, *aligned([HEADINGS, *rows]), *more, *_unreadable(affected))]


def _unreadable(affected: Affected) -> list[str]:
    return [printable(f"affected workloads: {affected.malformed}")] if affected.malformed else []


def _claims(pod: AffectedPod) -> str:
    more = len(pod.claims) - MOST_CLAIMS
    return ", ".join(pod.claims[:MOST_CLAIMS]) + (f" and {more} more" if more > 0 else "")


def as_json(affected: Affected) -> dict[str, Any]:
    """Return the count and the first pods, for programs. The count is null if it is not known."""
    return {
        "affected": None if affected.unknown else len(affected.pods),
        "problem": affected.unknown or affected.malformed,
        "pods": [_as_json(pod) for pod in affected.pods[:MOST_LISTED]],
    }


def _as_json(pod: AffectedPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "startedAt": timestamp(pod.started),
        "claims": list(pod.claims[:MOST_CLAIMS]),
    }
