"""The API objects that a reduced recording stands for, at any moment of it.

What a recording does not hold is modelled, and never in the core's favour:

* **Lease**: the old operator's pod holds it until it is gone, and a successor acquires it a lease duration later.
* **ReplicaSets**: named as the operator's pods without the last part; the Deployment's annotation names the newest one
  once the controller has observed the Deployment, and its replicas are the live pods.
* **ControllerRevision.creationTimestamp**: the moment of its record; ten minutes before the start for those that were
  there when it began. The same for the last write of a policy's spec, which its generation shows.
* **ContainersReady**: no node was lost, so it moves together with Ready. Nodes are Ready since an hour before.
* **End of the driver's init container**: the moment at which its record says terminated; a second before the start of
  the driver container for pods that were there when the recording began.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hook.objects import Snapshot
from tests.fixtures.cluster import Cluster
from tests.fixtures.objects import Object, obj
from tests.replay.recording import Change, Recording

LEASE: Final = 15.0
"""Seconds; controller-runtime's default lease duration."""
LONG_AGO: Final = -600.0


class Objects:
    """The API objects of a recording, moved on change by change."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._views: dict[tuple[str, str], Object] = {}
        self._created: dict[str, float] = {}
        self._unloaded: dict[str, float] = {}
        self._operators: dict[str, float] = {}
        """ReplicaSet name to the moment at which its first pod was seen."""
        self._reported: dict[str, float] = {}
        """When the status of a policy was written last."""
        self._holder = ""
        self._acquired = LONG_AGO
        self._released: float | None = None
        self._versions = 0
        self._read: Snapshot | None = None

    def apply(self, change: Change) -> None:
        """Take one change over."""
        self._read = None
        key = (change.kind, change.name)
        if change.view is None:
            self._views.pop(key, None)
            if change.name == self._holder:
                self._released = change.at
            return
        if change.kind == "clusterpolicy" and change.view["written"] != change.at:
            self._reported[change.name] = LONG_AGO if change.listed else change.at
        self._versions += 1
        self._views[key] = {**change.view, "version": self._versions}
        moment = LONG_AGO if change.listed else change.at
        self._created.setdefault(change.name, moment)
        if change.kind == "pod" and change.view["comp"] == "gpu-operator":
            self._operators.setdefault(_replicaset(change.name), moment)
            if not self._holder:
                self._holder, self._acquired = change.name, moment
        if change.kind == "pod" and change.view["init"] == ["terminated"]:
            self._unloaded.setdefault(change.name, change.at)

    def seen(self, now: float) -> Snapshot:
        """Return everything as the program reads it; read once for each change."""
        self._pass_lease(now)
        if self._read is None:
            self._read = Cluster(dict(self._parts())).seen()
        return self._read

    def _parts(self) -> dict[str, list[Object] | None]:
        return {
            "policy": [self._policy(name, view) for name, view in self._of("clusterpolicy")],
            "node": [self._node(name, view) for name, view in self._of("node") if view["present"] is not None],
            "daemonset": [self._daemonset(name, view) for name, view in self._of("ds")],
            "revision": [self._revision(name, view) for name, view in self._of("rev")],
            "driver-pod": [self._driver_pod(name, view) for name, view in self._of("pod") if "driver" in name],
            "deployment": [self._deployment(view) for _name, view in self._of("deploy")],
            "replicaset": [self._replicaset(name) for name in self._operators],
            "lease": [self._lease()] if self._holder else [],
        }

    def _of(self, kind: str) -> Iterator[tuple[str, Object]]:
        return ((key[1], view) for key, view in list(self._views.items()) if key[0] == kind)

    def _stamp(self, seconds: float) -> str:
        return self._recording.moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _policy(self, name: str, view: Object) -> Object:
        driver = {"version": view["driver"], "upgradePolicy": {"autoUpgrade": view["auto"]}}
        return obj("policy", {
            "metadata": {"name": name, "generation": view["gen"], "managedFields": self._writes(name, view)},
            "spec": {"daemonsets": {"labels": {"helm.sh/chart": view["chart"]}}, "driver": driver},
            "status": {"state": view["state"]} if view["state"] else None,
        })  # fmt: skip

    def _writes(self, name: str, view: Object) -> list[Object]:
        """Return who wrote a policy last, and when: Helm its spec, the operator its status."""
        written = LONG_AGO if view["written"] is None else view["written"]
        helm = {"manager": "helm", "operation": "Update", "time": self._stamp(written)}
        if name not in self._reported:
            return [helm]
        status = {"subresource": "status", "time": self._stamp(self._reported[name])}
        return [helm, {"manager": "gpu-operator", "operation": "Update", **status}]

    def _node(self, name: str, view: Object) -> Object:
        labels: Object = {
            "nvidia.com/gpu.present": view["present"],
            "nvidia.com/gpu-driver-upgrade-state": view["up"],
            "nvidia.com/gpu-driver-upgrade.skip": view["skip"],
            "nvidia.com/gpu.deploy.driver": None,
        }
        labels |= {f"nvidia.com/gpu.deploy.{key}": value for key, value in view["deploy"].items()}
        return obj("node", {"metadata": {"name": name, "labels": labels}})

    def _daemonset(self, name: str, view: Object) -> Object:
        containers = [{"name": "nvidia-driver-ctr", "image": view["image"]}]
        template = {"metadata": {"labels": {"helm.sh/chart": view["chart"]}}, "spec": {"containers": containers}}
        return obj("driver-daemonset", {
            "metadata": {"name": name, "uid": view["uid"], "generation": view["gen"]},
            "spec": {"template": template},
            "status": {"observedGeneration": view["obs"], "desiredNumberScheduled": view["desired"],
                       "updatedNumberScheduled": view["updated"]},
        })  # fmt: skip

    def _revision(self, name: str, view: Object) -> Object:
        return obj("revision", {"revision": view["revision"], "metadata": {
            "name": name, "creationTimestamp": self._stamp(self._created[name]),
            "labels": {"controller-revision-hash": name.rpartition("-")[2]},
            "ownerReferences": self._owner(view["owner"]),
        }})  # fmt: skip

    def _owner(self, daemonset: str) -> list[Object]:
        view = self._views.get(("ds", daemonset))
        return [{"kind": "DaemonSet", "name": daemonset, "uid": view["uid"], "controller": True}] if view else []

    def _driver_pod(self, name: str, view: Object) -> Object:
        return obj("driver-pod", {
            "metadata": {
                "name": name, "uid": view["uid"], "resourceVersion": str(view["version"]),
                "labels": {"controller-revision-hash": view["hash"]},
                "ownerReferences": self._owner(name.rpartition("-")[0]), "deletionTimestamp": view["deleting"],
            },
            "spec": {"nodeName": view["node"]},
            "status": {
                "phase": view["phase"], "conditions": _conditions(view),
                "initContainerStatuses": [self._init_status(name, view, one) for one in view["init"]],
                "containerStatuses": [_status("nvidia-driver-ctr", *one) for one in view["ctr"]],
            },
        })  # fmt: skip

    def _init_status(self, name: str, view: Object, state: str) -> Object:
        status = _status("k8s-driver-manager", state, state == "terminated", 0, None)
        if state == "terminated":
            started = view["ctr"][0][3]
            was_there = self._created[name] == LONG_AGO and started is not None
            ended = self._recording.seconds(started) - 1 if was_there else self._unloaded[name]
            status["state"] = {"terminated": {"exitCode": 0, "finishedAt": self._stamp(ended)}}
        return status

    def _deployment(self, view: Object) -> Object:
        live = [one for name, one in self._of("pod") if one["comp"] == "gpu-operator" and not one["deleting"]]
        observed = view["obs"] or 0
        revision = len(self._operators) if observed >= view["gen"] else view["gen"] - 1
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        return obj("deployment", {
            "metadata": {"generation": view["gen"], "annotations": annotations},
            "status": {"observedGeneration": observed, "replicas": len(live), "updatedReplicas": view["updated"] or 0,
                       "availableReplicas": view["avail"] or 0},
        })  # fmt: skip

    def _replicaset(self, name: str) -> Object:
        revision = list(self._operators).index(name) + 1
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        return obj("replicaset", {"metadata": {"name": name, "annotations": annotations}})

    def _pass_lease(self, now: float) -> None:
        if self._released is not None and now >= self._released + LEASE:
            successor = next((name for name, one in self._of("pod") if one["comp"] == "gpu-operator"), "")
            self._holder, self._acquired, self._released = successor, self._released + LEASE, None
            self._read = None

    def _lease(self) -> Object:
        held = {"holderIdentity": f"{self._holder}_uuid", "acquireTime": self._stamp(self._acquired)}
        return obj("lease", {"spec": held})


def _replicaset(pod: str) -> str:
    return pod.rpartition("-")[0]


def _conditions(view: Object) -> list[Object]:
    if view["ready"] is None:
        return []
    return [
        {"type": kind, "status": view["ready"], "lastTransitionTime": view["readyAt"]}
        for kind in ("Ready", "ContainersReady")
    ]


def _status(name: str, state: str, ready: Any, restarts: int, started: str | None) -> Object:  # noqa: ANN401 - as recorded
    detail: Object = {"startedAt": started} if state == "running" and started else {}
    return {"name": name, "ready": ready, "restartCount": restarts, "lastState": {}, "state": {state: detail}}
