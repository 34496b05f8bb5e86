"""Pod statuses as a kubelet writes them. Values in, values out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.client import Object

LOOPBACK = "127.0.0.1"

SIGNAL_BASE = 128
"""A runtime reports a process that a signal ended as 128 + the signal's number."""


def timestamp(moment: datetime | None = None) -> str:
    """Spell a time as the API does: UTC, whole seconds."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class ContainerState:
    """What is known of one container."""

    name: str
    image: str
    now: Object = field(default_factory=lambda: waiting("ContainerCreating"))
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ended_for_good: bool = False
    """It has terminated and will not be started again."""
    started: bool = True
    """Its startup probe passed, or it has none; meant only while it runs."""
    ready: bool = True
    """Its readiness probe succeeded, or it has none; meant only while it runs and has started."""

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return "running" in self.now

    @property
    def serves(self) -> bool:
        """Whether it is ready."""
        return self.running and self.started and self.ready

    def run(self, moment: datetime, *, started: bool, ready: bool) -> None:
        """Run since a moment; what its probes have yet to say is said."""
        self.now, self.started, self.ready = running(moment), started, ready

    @property
    def succeeded(self) -> bool:
        """Whether it ended with 0."""
        return bool(self.now.get("terminated", {}).get("exitCode") == 0)

    def status(self, *, init: bool) -> Object:
        """Spell the container's status."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "" if "waiting" in self.now and not self.restarts else self.image,
            "ready": self.succeeded if init else self.serves,
            "started": self.running and self.started,
            "restartCount": self.restarts,
            "state": self.now,
            "lastState": self.last,
        }


def waiting(reason: str, message: str = "") -> Object:
    """Spell the state of a container that does not run yet, or not now."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(started: datetime) -> Object:
    """Spell the state of a container that runs."""
    return {"running": {"startedAt": timestamp(started)}}


def terminated(return_code: int, started: datetime, finished: datetime, message: str) -> Object:
    """Spell the end of a container from its process's return code (negative: ended by that signal)."""
    code = return_code if return_code >= 0 else SIGNAL_BASE - return_code
    end: Object = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": timestamp(started),
        "finishedAt": timestamp(finished),
    }
    return {"terminated": {**end, **({"message": message} if message else {})}}


def phase(init: Sequence[ContainerState], main: Sequence[ContainerState]) -> str:
    """Sum up a pod in one word, by a kubelet's rules."""
    if any(each.ended_for_good and not each.succeeded for each in init):
        return "Failed"
    if all(each.ended_for_good for each in main):
        return "Succeeded" if all(each.succeeded for each in main) else "Failed"
    begun = all(each.succeeded for each in init) and any(
        each.running or each.restarts or "terminated" in each.now for each in main
    )
    return "Running" if begun else "Pending"


class Conditions:
    """The pod's conditions; each remembers when it last changed."""

    def __init__(self) -> None:
        self._known: dict[str, Object] = {}

    def update(self, init: Sequence[ContainerState], main: Sequence[ContainerState]) -> list[Object]:
        """Bring all up to date and return them."""
        over = phase(init, main) in ("Succeeded", "Failed")
        unready = [each.name for each in main if not each.serves]
        pending = [each.name for each in init if not each.succeeded]
        unready_reason = ("PodCompleted" if over else "ContainersNotReady", _names("unready", unready))
        pending_reason = ("ContainersNotInitialized", _names("incomplete", pending))
        self._set("PodReadyToStartContainers", holds=not over)
        self._set("Initialized", holds=not pending, otherwise=pending_reason)
        self._set("Ready", holds=not unready, otherwise=unready_reason)
        self._set("ContainersReady", holds=not unready, otherwise=unready_reason)
        self._set("PodScheduled", holds=True)
        return list(self._known.values())

    def touch_ready(self) -> None:
        """Report again that the pod is Ready, as of now, because another client wrote that it is not."""
        self._known["Ready"]["lastTransitionTime"] = timestamp()

    def _set(self, kind: str, *, holds: bool, otherwise: tuple[str, str] = ("", "")) -> None:
        status = "True" if holds else "False"
        known = self._known.get(kind)
        since = known["lastTransitionTime"] if known and known["status"] == status else timestamp()
        reason, message = (None, None) if holds else (value or None for value in otherwise)
        # An explicit null clears what a patch would otherwise leave from the condition before.
        self._known[kind] = {
            "type": kind,
            "status": status,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }


def mistaken_for_lost(pod: Object) -> bool:
    """Return whether the node controller took Ready away while the node was silent; it moves Ready alone."""
    conditions = {each["type"]: each["status"] for each in pod.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True"


def _names(what: str, names: Sequence[str]) -> str:
    """List containers the way a kubelet does."""
    return f"containers with {what} status: [{' '.join(names)}]"


def pod_status(
    conditions: Conditions, init: Sequence[ContainerState], main: Sequence[ContainerState], started: datetime
) -> Object:
    """Spell the whole status."""
    return {
        "phase": phase(init, main),
        "startTime": timestamp(started),
        "hostIP": LOOPBACK,
        "hostIPs": [{"ip": LOOPBACK}],
        "podIP": LOOPBACK,
        "podIPs": [{"ip": LOOPBACK}],
        "conditions": conditions.update(init, main),
        "initContainerStatuses": [each.status(init=True) for each in init],
        "containerStatuses": [each.status(init=False) for each in main],
    }
