"""A pod's status as a kubelet writes it: containers, conditions, phase; times in whole seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

CRASH_LOOP = "CrashLoopBackOff"
IMAGE_PULL = "ImagePullBackOff"
CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"

SIGTERM_EXIT = 143
"""128 and the signal's number, as a shell has it."""


def now() -> str:
    """Spell this moment as the API does; it keeps no fractions of a second."""
    return datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(slots=True)
class Container:
    """One container, main or init, and what the kubelet says about it."""

    name: str
    image: str
    state: Object = field(default_factory=dict)
    last_state: Object = field(default_factory=dict)
    ready: bool = False
    restarts: int = 0
    has_run: bool = False

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return "running" in self.state

    @property
    def completed(self) -> bool:
        """Whether it ended well, as an init container must."""
        return bool(self.state.get("terminated", {}).get("exitCode") == 0)

    def wait(self, reason: str, message: str = "") -> None:
        """Not started, or not yet again."""
        self.state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        self.ready = False

    def run(self) -> None:
        """Start now; a second start is a restart."""
        if self.has_run:
            self.restarts += 1
        self.has_run = True
        self.state = {"running": {"startedAt": now()}}
        self.ready = False

    def succeed_startup(self) -> None:
        """Pass the startup probe; without a readiness probe that makes it ready."""
        self.ready = True

    def end(self, exit_code: int = 0) -> None:
        """Exit now. An init container that completed counts as ready, as in real statuses."""
        self.state = {"terminated": self._ending(exit_code, "Completed" if exit_code == 0 else "Error")}
        self.ready = exit_code == 0

    def crash(self, reason: str) -> None:
        """Exit with an error and wait for the next start."""
        self.last_state = {"terminated": self._ending(1, "Error")}
        self.wait(reason, f"back-off restarting failed container {self.name}")

    def lose(self) -> None:
        """Lose the container with its node's power; the kubelet finds it gone after the boot."""
        if self.running:
            self.last_state = {"terminated": self._ending(255, "Unknown")}
        elif "terminated" in self.state:
            self.last_state = self.state

    def render(self) -> Object:
        """Spell this container's status."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.ready,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }

    def _ending(self, exit_code: int, reason: str) -> Object:
        started = self.state.get("running", {}).get("startedAt", now())
        return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now()}


@dataclass(slots=True)
class PodStatus:
    """What the kubelet knows of one pod; conditions and phase follow from its containers."""

    inits: list[Container]
    mains: list[Container]
    scheduled: Object
    """The PodScheduled condition, which is the scheduler's."""
    start_time: str = field(default_factory=now)
    stopping: bool = False
    _since: dict[str, tuple[bool, str]] = field(default_factory=dict)
    """Each condition's status and its last transition."""

    @classmethod
    def of(cls, pod: Object) -> PodStatus:
        """Accept a pod: nothing has started yet."""
        spec = pod["spec"]
        return cls(
            inits=[Container(each["name"], each["image"]) for each in spec.get("initContainers", [])],
            mains=[Container(each["name"], each["image"]) for each in spec["containers"]],
            scheduled=_scheduled(pod),
        )

    def begin(self) -> None:
        """Create the pod's sandbox: everything waits for its turn."""
        reason = INITIALIZING if self.inits else CREATING
        for each in (*self.inits, *self.mains):
            each.wait(reason)

    def run_inits(self) -> None:
        """Start the init containers; one at a time in reality."""
        for each in self.inits:
            each.run()

    def end_inits(self) -> None:
        """Let the init containers complete."""
        for each in self.inits:
            each.end()

    def run(self) -> None:
        """Start the main containers."""
        for each in self.mains:
            each.run()

    def succeed_startup(self) -> None:
        """Let the main containers pass their probes."""
        for each in self.mains:
            each.succeed_startup()

    def lose_node(self) -> None:
        """Lose all containers with the node."""
        for each in (*self.inits, *self.mains):
            each.lose()

    def stop(self) -> None:
        """Turn not Ready and end what runs, because the pod was deleted."""
        self.stopping = True
        for each in self.mains:
            if each.running:
                each.end(SIGTERM_EXIT)

    def touch_ready(self) -> None:
        """Write Ready anew, as a kubelet does that comes back to a node taken for lost."""
        self._since.pop("Ready", None)

    @property
    def all_ready(self) -> bool:
        """Whether every main container is ready."""
        return all(each.ready for each in self.mains)

    @property
    def phase(self) -> str:
        """Pending until initialized and started once; a crash loop counts as Running."""
        initialized = all(each.completed for each in self.inits)
        started = any(each.has_run for each in self.mains)
        return "Running" if initialized and started else "Pending"

    def render(self) -> Object:
        """Spell the status; conditions move their time only when they change."""
        initialized = all(each.completed for each in self.inits)
        ready = self.all_ready and not self.stopping
        # A kubelet stamps it before Ready: a second may begin between the two.
        containers_ready = self._condition("ContainersReady", holds=ready, why_not="ContainersNotReady")
        return {
            "phase": self.phase,
            "startTime": self.start_time,
            "conditions": [
                self._condition("Initialized", holds=initialized, why_not="ContainersNotInitialized"),
                self._condition("Ready", holds=ready, why_not="ContainersNotReady"),
                containers_ready,
                self.scheduled,
            ],
            "initContainerStatuses": [each.render() for each in self.inits],
            "containerStatuses": [each.render() for each in self.mains],
        }

    def _condition(self, kind: str, *, holds: bool, why_not: str) -> Object:
        before = self._since.get(kind)
        if before is None or before[0] != holds:
            self._since[kind] = (holds, now())
        condition = {
            "type": kind,
            "status": "True" if holds else "False",
            "lastTransitionTime": self._since[kind][1],
        }
        return condition if holds else condition | {"reason": why_not}


def _scheduled(pod: Object) -> Object:
    """Keep the scheduler's condition; a pod that was born with its node's name has none."""
    for each in pod.get("status", {}).get("conditions", []):
        if each["type"] == "PodScheduled":
            condition: Object = each
            return condition
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
