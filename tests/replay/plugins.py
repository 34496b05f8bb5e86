"""The modelled plugin pods of a replay: one on each GPU node, with the truth about each.

A pod's init container ends as soon as any driver is loaded, the old one or the new: that is the race.
Its main containers then start, and hold that driver from then on; a second later they publish
devices, two seconds later the pod is Ready. A deleted pod is gone after two seconds, and the DaemonSet
makes another one. Statuses carry whole seconds, as a kubelet writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from hook.objects import Snapshot
from tests.fixtures.cluster import Cluster
from tests.fixtures.objects import D, Object, conditions, finished, obj, running, stamp, waiting
from tests.replay.recording import Load, Recording

GRACE: Final = 2.0
START: Final = 1.0
"""From one step of a pod's start to the next."""
WIPE: Final = 30.0
"""A kubelet removes the slices of a plugin that is gone for so long."""


@dataclass
class Plugin:
    """One plugin pod. All times are seconds of the recording; None: not yet."""

    node: str
    number: int
    created: float
    waited: float | None = None
    held: Load | None = None
    """The driver that it started on: the truth."""
    deleted: float | None = None

    @property
    def uid(self) -> str:
        """Return a UID that differs from that of the pod before."""
        return f"plugin-{self.node}-{self.number}"

    @property
    def started(self) -> float | None:
        """Start of the main containers."""
        return None if self.waited is None else self.waited + START

    def grow(self, loads: Sequence[Load], now: float) -> None:
        """Let the init container end once a driver is loaded."""
        if self.waited is not None or now < self.created + START:
            return
        held = next((one for one in loads if one.node == self.node and one.loaded <= now < one.ended), None)
        if held is not None:
            self.waited, self.held = now, held


class Plugins:
    """The plugin pods of all nodes, moved on with the time."""

    def __init__(self, recording: Recording, versions: dict[str, str]) -> None:
        self._recording = recording
        self._loads = recording.loads()
        self._versions = versions
        """Driver revision hash to driver version."""
        self._read: tuple[dict[str, list[Object] | None], Snapshot] = ({}, Snapshot())
        self._published: dict[str, tuple[str, float]] = {}
        """Node to the version in its slice, and the moment since which no pod stands behind it."""
        self.pods = {node: self._first(node) for node in recording.gpu_nodes}
        self.restarts: list[tuple[float, str]] = []

    def move_to(self, now: float) -> None:
        """Let time pass until a moment."""
        for node, pod in self.pods.items():
            if pod.deleted is not None and now >= pod.deleted + GRACE:
                self.pods[node] = Plugin(node, pod.number + 1, created=pod.deleted + GRACE)
            current = self.pods[node]
            current.grow(self._loads, now)
            if current.held and current.started is not None and current.deleted is None and now >= current.started + 1:
                self._published[node] = (self._versions[current.held.hash], float("inf"))
            elif pod.deleted is not None and node in self._published:
                self._published[node] = (self._published[node][0], pod.deleted + WIPE)

    def delete(self, node: str, uid: str, now: float) -> None:
        """Delete a pod as the program asks: this very one, or nothing."""
        pod = self.pods[node]
        assert pod.uid == uid
        pod.deleted = now
        self.restarts.append((now, node))

    def loaded(self, node: str, now: float) -> Load | None:
        """Return the driver that a node has loaded."""
        return next((one for one in self._loads if one.node == node and one.loaded <= now < one.ended), None)

    def is_stale(self, node: str, now: float) -> bool:
        """Return whether a node's plugin holds a driver that is not the loaded one."""
        pod = self.pods[node]
        return pod.held is not None and pod.held != self.loaded(node, now)

    def seen(self, now: float) -> Snapshot:
        """Return the plugin's DaemonSet, pods and slices as the program reads them."""
        status = {"desiredNumberScheduled": len(self.pods), "updatedNumberScheduled": len(self.pods)}
        parts = Cluster()
        parts.put("daemonset", obj("plugin-daemonset", {"status": status}))
        parts.put("plugin-pod", *(self._pod(pod, now) for pod in self.pods.values()))
        parts.put("slice", *(self._slice(node) for node, (_, until) in self._published.items() if now < until))
        if parts.parts != self._read[0]:
            self._read = parts.parts, parts.seen()
        return self._read[1]

    def _first(self, node: str) -> Plugin:
        """Return the pod that an earlier run left: started after the driver of before the recording was ready."""
        pod = Plugin(node, 0, created=-30.0)
        held = next((one for one in self._loads if one.node == node and one.ready < 0), None)
        if held is not None:
            pod.created = held.ready + 4
            pod.waited, pod.held = held.ready + 5, held
            self._published[node] = (self._versions[held.hash], float("inf"))
        return pod

    def _pod(self, pod: Plugin, now: float) -> Object:
        deleted = None if pod.deleted is None else stamp(self._at(pod.deleted))
        metadata = {"name": pod.uid, "uid": pod.uid, "deletionTimestamp": deleted}
        return obj(
            "plugin-pod", {"metadata": metadata, "spec": {"nodeName": pod.node}, "status": self._status(pod, now)}
        )

    def _status(self, pod: Plugin, now: float) -> Object:
        names = ("compute-domains", "gpus")
        if pod.started is None or pod.waited is None or now < pod.started:
            init = running("init-container", self._at(pod.created))
            pending = [waiting(name, "PodInitializing") for name in names]
            return {"conditions": conditions(None), "initContainerStatuses": [init], "containerStatuses": pending}
        init = finished("init-container", self._at(pod.waited))
        main = [running(name, self._at(pod.started)) for name in names]
        ready = self._at(pod.started + 2) if now >= pod.started + 2 else None
        return {"conditions": conditions(ready), "initContainerStatuses": [init], "containerStatuses": main}

    def _slice(self, node: str) -> Object:
        devices = [{"name": "gpu-0", "attributes": {"driverVersion": {"version": self._semver(node)}}}]
        return obj("slice", {"metadata": {"name": f"slice-{node}"}, "spec": {"nodeName": node, "devices": devices}})

    def _semver(self, node: str) -> str:
        return ".".join(str(int(part)) for part in self._published[node][0].split("."))

    def _at(self, seconds: float) -> float:
        """Return a moment of the recording, in whole seconds, as fixtures count it: after D."""
        return (self._recording.moment(floor(seconds)) - D).total_seconds()
