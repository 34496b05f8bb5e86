"""Report which pods may hold files of an old driver: table, JSON, Events and keys of the status object.

The program only reports them. It never evicts or deletes a pod with claims: only the owner of a
pod knows what its end costs.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.decide import clients
from hook.decide.decide import chosen
from hook.decide.reasons import EventReason
from hook.decide.workloads import Affected, Exposure, Plugins, Refresh, affected_pods
from hook.errors import ClusterError
from hook.format import aligned, printable, timestamp
from hook.kube.events import EventRecorder, ObjectReference
from hook.objects import decoding
from hook.objects.decoding import MalformedObjectError, Name
from hook.run import statusobject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hook.config import Settings
    from hook.decide.decide import Memories, Snapshots
    from hook.decide.workloads import AffectedPod, Refreshes
    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.run.lookup import Lease
    from hook.run.statusobject import StatusObject

log = logging.getLogger(__name__)

EVALUATE_SECONDS: Final = 5.0
"""Time between two evaluations. No restart depends on them."""
EVALUATE_FACTOR: Final = 20
"""The same as a multiple of the duration of an evaluation: a twentieth of a CPU."""
AWAIT_SECONDS: Final = 5.0
"""Longest wait of a run that ends before claims and pods were read. To read 20,000 of them takes longer."""
LOOK_SECONDS: Final = 0.1
MOST_EVENTS: Final = 100
"""Pods with an Event. A reader of more of them needs the table."""
MOST_REPORTED: Final = 4096
"""Latest pods with an Event, so that the memory of the controller does not grow."""
MOST_ROWS: Final = 50
MOST_LISTED: Final = 100
"""Pods in a JSON report. The counts are of all."""
MOST_CLAIMS: Final = 10
"""Claims of one pod."""
FIRST: Final = 10
"""Pods in the status object."""
MOST_STORED: Final = 100
"""Nodes whose refresh is in the status object: some 20 KiB."""
PAGE: Final = "docs/affected-workloads.md"
HEADINGS: Final = ("POD", "NODE", "AFFECTED", "STARTED", "CLAIMS")
UNKNOWN_SECONDS: Final = 60.0
"""Time after which the status object no longer shows pods that are not known any more."""


def evaluate(
    cache: Cache, settings: Settings, snapshots: Snapshots, memories: Memories, before: Mapping[str, Refresh]
) -> tuple[Affected, Refreshes]:
    """Evaluate the pods with claims, and return in addition when the plugins of their nodes were refreshed.

    A refresh is recorded also while the pods are not known: nothing shows its time later.
    """
    if reason := why_not(settings):
        return Affected(unknown=reason), dict(before)
    unknown = cache.workloads.problem or str(cache.out_of_sync or "")
    holders = [] if unknown else cache.workloads.holders()
    pods: list[AffectedPod] = []
    refreshes: Refreshes = dict(before) if unknown else {}
    for stack in chosen(settings):
        if stack.plugin.claim_drivers:
            snapshot = snapshots[stack.name]
            found = clients.find(snapshot.daemonsets, stack, settings)
            plugins = Plugins(snapshot, found, stack, memories[stack.name])
            affected, known = affected_pods(holders, plugins, before)
            pods += affected
            refreshes |= known
    return Affected(tuple(pods), unknown, cache.workloads.malformed), refreshes


def why_not(settings: Settings) -> str:
    """Return why these settings do not let the program read pods with claims, or ""."""
    if not settings.affected_workloads.enabled:
        return "affectedWorkloads.enabled is false"
    if not any(stack.plugin.claim_drivers for stack in chosen(settings)):
        return "no driver in drivers has claims"
    return ""


class WorkloadObserver:
    """Evaluates the pods with claims from time to time, and reports the affected ones in Events and status object."""

    def __init__(
        self, api: Api, cache: Cache, settings: Settings, status_object: StatusObject | None, *, silent: bool
    ) -> None:
        self._cache, self._settings, self._status_object = cache, settings, status_object
        # A recorder of its own: namespaces of workloads may refuse Events, and that must not delay other Events. The
        # name of an Event depends on pod and driver run alone, so that the next process does not repeat it.
        self._recorder = EventRecorder(api, "affected-workloads", silent=silent, persistent=True)
        self._reported: dict[tuple[str, str], None] = {}
        """Pods with an Event, by UID and driver run, in this order."""
        self._refreshes: Refreshes = {}
        self._stored = ""
        self._next = float("-inf")
        self._known_at = time.monotonic()
        self.affected = Affected(unknown=why_not(settings) or "the fleet was not evaluated")

    def observe(self, snapshots: Snapshots, memories: Memories, *, now: bool = False) -> Affected:
        """Evaluate and report, if that is due or wanted `now`. Return the latest result."""
        began = time.monotonic()
        if not now and began < self._next:
            return self.affected
        self._next = began + EVALUATE_SECONDS
        if why_not(self._settings):
            self._show({})
            return self.affected
        if now:
            self._await()
            began = time.monotonic()
        self._load()
        self.affected, self._refreshes = evaluate(self._cache, self._settings, snapshots, memories, self._refreshes)
        ended = time.monotonic()
        self._next = ended + max(EVALUATE_SECONDS, EVALUATE_FACTOR * (ended - began))
        if not self.affected.unknown:
            self._known_at = ended
            self._record(self.affected.certain)
        if not self.affected.unknown or now or ended - self._known_at > UNKNOWN_SECONDS:
            self._show(status_keys(self.affected, self._refreshes))
        return self.affected

    def shutdown(self, left: float) -> None:
        """Write the Events in the queue, while the process has time `left`."""
        self._recorder.shutdown(left)

    def stop(self) -> None:
        """Write the Events in the queue briefly, after a signal."""
        self._recorder.stop()

    def _await(self) -> None:
        """Wait for a short time until claims and pods are read."""
        end = time.monotonic() + AWAIT_SECONDS
        while self._cache.workloads.pending and time.monotonic() < end:
            self._cache.watch_plugins()
            time.sleep(LOOK_SECONDS)

    def _load(self) -> None:
        """Take over what another process knows, such as a Job that restarted a plugin next to this controller."""
        data = self._status_object.data if self._status_object is not None else {}
        if (text := data.get(statusobject.REFRESHES, "")) != self._stored:
            self._stored = text
            self._refreshes = with_better(self._refreshes, stored_refreshes(text))

    def _show(self, keys: Mapping[str, str]) -> None:
        if self._status_object is not None:
            self._status_object.note_workloads(keys)

    def _record(self, pods: Sequence[AffectedPod]) -> None:
        """Record one Event per pod and driver run, for a bounded number of pods at a time."""
        for pod in pods[:MOST_EVENTS]:
            key = pod.uid, pod.driver_run
            if key in self._reported:
                continue
            self._reported[key] = None
            if len(self._reported) > MOST_REPORTED:
                del self._reported[next(iter(self._reported))]
            log.warning("pod %s on node %s: %s", pod, pod.node, _why(pod))
            reference = ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid)
            about, reason = pod.driver_run, EventReason.AFFECTED_WORKLOAD
            self._recorder.event(reference, reason, _advice(pod), about=about, warning=True)


def _claims(pod: AffectedPod) -> str:
    more = len(pod.claims) - MOST_CLAIMS
    return ", ".join(pod.claims[:MOST_CLAIMS]) + (f" and {more} more" if more > 0 else "")


def _why(pod: AffectedPod) -> str:
    claims = "claim" if len(pod.claims) == 1 else "claims"
    return f"it may hold files of an old driver: {claims} {_claims(pod)} {pod.exposure.text}"


def _advice(pod: AffectedPod) -> str:
    why = _why(pod).replace("it may", "This pod may", 1)
    return f"{why}. Nothing repairs that while the pod exists. When its work may end, delete the pod and its claims."


# The status object.


def status_keys(affected: Affected, refreshes: Refreshes) -> dict[str, str]:
    """Return the keys of the status object. While the pods are not known, only refreshes.

    Refreshes are stored only for nodes with affected pods, unless these are not known.
    """
    concerned = refreshes if affected.unknown else dict.fromkeys(pod.node for pod in affected.pods)
    stored = {node: refreshes[node] for node in [node for node in concerned if node in refreshes][:MOST_STORED]}
    keys = {statusobject.REFRESHES: msgspec.json.encode(stored, order="sorted").decode()}
    if affected.unknown:
        return keys
    return keys | {
        statusobject.AFFECTED: str(len(affected.certain)),
        statusobject.POSSIBLE: str(affected.counts()[Exposure.POSSIBLE]),
        statusobject.FIRST_PODS: msgspec.json.encode([_as_json(pod) for pod in affected.pods[:FIRST]]).decode(),
    }


def stored_refreshes(text: str) -> Refreshes:
    """Return the refreshes of a status object; none from a text that is not valid."""
    try:
        return decoding.read(dict[Name, Refresh], text.encode()) if text else {}
    except MalformedObjectError as error:
        log.debug("the refresh times in the status object cannot be read: %s", error)
        return {}


def read_refreshes(api: Api, lease: Lease | None) -> Refreshes:
    """Return the refreshes in the status objects: in that of the controller that is alive, or in those of all releases.

    Without the permission to read them, a pod may be possibly affected although another process knows better.
    """
    known: Refreshes = {}
    try:
        where = (lease.namespace, f"{lease.name}-status") if lease is not None else ("", "")
        for data in statusobject.read_all(api, *where):
            known = with_better(known, stored_refreshes(data.get(statusobject.REFRESHES, "")))
    except (ClusterError, MalformedObjectError) as error:
        log.debug("the status object cannot be read: %s", error)
    return known


def with_better(ours: Refreshes, theirs: Refreshes) -> Refreshes:
    """Return what two processes know together. Of two driver runs, the later one counts."""
    return theirs | {node: _later(refresh, theirs.get(node)) for node, refresh in ours.items()}


def _later(ours: Refresh, theirs: Refresh | None) -> Refresh:
    return theirs.after(ours) if theirs is not None and theirs.by > ours.by else ours.after(theirs)


# Text and JSON.


def as_lines(affected: Affected) -> list[str]:
    """Return the table of affected pods, and what cannot be read; nothing without them."""
    malformed = [printable(f"affected workloads: {affected.malformed}")] if affected.malformed else []
    if not affected.pods:
        return malformed
    rows = [
        (str(pod), pod.node, pod.exposure.text, timestamp(pod.started), _claims(pod))
        for pod in affected.pods[:MOST_ROWS]
    ]
    certain, possible = len(affected.certain), affected.counts()[Exposure.POSSIBLE]
    total = f"{certain} pods may hold files of an old driver" + (f", {possible} possibly" if possible else "")
    more = [f"({len(affected.pods) - MOST_ROWS} more pods)"] if len(affected.pods) > MOST_ROWS else []
    lines = [f"affected workloads: {total}. A restart of the plugin does not repair them: {PAGE}"]
    return [printable(line) for line in (*lines, *aligned([HEADINGS, *rows]), *more, *malformed)]


def as_json(affected: Affected) -> dict[str, Any]:
    """Return the counts and the first pods, for programs. The counts are null if they are not known."""
    known = not affected.unknown
    return {
        "affected": len(affected.certain) if known else None,
        "possiblyAffected": affected.counts()[Exposure.POSSIBLE] if known else None,
        "problem": affected.unknown or affected.malformed,
        "pods": [_as_json(pod) for pod in affected.pods[:MOST_LISTED]],
    }


def _as_json(pod: AffectedPod) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "class": pod.exposure,
        "startedAt": timestamp(pod.started),
        "claims": list(pod.claims[:MOST_CLAIMS]),
    }
