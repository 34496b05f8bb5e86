"""Runs of the program on a cluster that changes, one decision after the other, and clusters that tests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Decision, Phase
from hook.settings import DriverClient, Settings
from tests.fixtures.cluster import LATER, Cluster, stale_plugin
from tests.fixtures.modes import owner
from tests.fixtures.objects import Object, R, at, driver_pod, merged, obj, plugin_pod, running, waiting
from tests.unit.decide import patches

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRIVER: Final = "nvidia-driver-daemonset"
EXPORTER: Final = DriverClient("monitoring", "dcgm-exporter")
JOB: Final = Settings()
TOOLKIT: Final = Settings(refresh_after=("toolkit",))
MIG: Final = Settings(refresh_after=("mig",))


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds after a run's first look, long after the times of the fixtures."""
    return at(3600 + seconds)


@dataclass
class Run:
    """A run of a Job or of a controller: what it decides to restart is recorded, one decision after the other.

    A pod that it restarts stays in the cluster until the test removes it.
    """

    found: Cluster
    settings: Settings = JOB
    memory: Memory = field(default_factory=lambda: Memory(started=LATER))
    restarted: list[tuple[float, str]] = field(default_factory=list)
    """When, and where."""

    def look(self, seconds: float = 0) -> Decision:
        """Decide at a moment."""
        decision, self.memory = self.found.decide(self.settings, self.memory, moment(seconds))
        return decision

    def act(self, seconds: float = 0, refused: str = "") -> Decision:
        """Decide, and record what was asked for."""
        decision = self.look(seconds)
        for action in decision.actions:
            self.memory = self.memory.with_restart(action, moment(seconds), refused)
            self.restarted.append((seconds, action.node))
        return decision

    def phases(self, *moments: float) -> list[Phase]:
        """Return the phase at each moment."""
        return [self.look(seconds).phase for seconds in moments]

    def through(self, *steps: tuple[float, Cluster]) -> list[Decision]:
        """Return the decisions on these clusters, each at its moment."""
        decisions = []
        for seconds, self.found in steps:
            decisions.append(self.look(seconds))
        return decisions

    def restart(self, seconds: float = 0, refused: str = "") -> list[str]:
        """Decide, record the restarts, and remove the pods that they delete. Return the names of these pods."""
        gone = pods(self.act(seconds, refused))
        for name in gone:
            self.found.drop("plugin-pod", name)
        return gone

    def record(self, *nodes: str, refused: str = "") -> Run:
        """Decide at the first moment, and record the restarts on these nodes alone."""
        for action in self.look().actions:
            if action.node in nodes:
                self.memory = self.memory.with_restart(action, self.memory.started, refused)
        return self

    def then(self, found: Cluster) -> Run:
        """Continue the run on another cluster."""
        return Run(found, self.settings, self.memory)


def deleted(decision: Decision) -> list[str]:
    """Return the nodes on which a decision deletes a plugin pod."""
    return [action.node for action in decision.actions]


def pods(decision: Decision) -> list[str]:
    """Return the names of the pods that a decision deletes."""
    return [action.pod.name for action in decision.actions]


def named(pod: Object, name: str, **metadata: object) -> Object:
    """Return a pod with a name and a UID of its own."""
    whole: Object = merged(pod, {"metadata": {"name": name, "uid": name, **metadata}})
    return whole


def successor(number: int, node: str = "gpu-0") -> Object:
    """Return the pod that came after a restart, stale by its times all the same."""
    return named(stale_plugin(node), f"{node}-{number}")


def unnamed(found: Cluster, pod: Object) -> Cluster:
    """Add a plugin under a name that the settings do not contain, with a pod."""
    owner = [{"kind": "DaemonSet", "name": "mine", "uid": "mine", "controller": True}]
    found.put("daemonset", obj("plugin-daemonset", {"metadata": {"name": "mine", "uid": "mine"}}))
    return found.put("plugin-pod", named(pod, "mine-0", ownerReferences=owner))


def second_plugin(found: Cluster, started: float | None) -> Cluster:
    """Add another kubelet plugin, whose containers started at a moment or wait."""
    pod = plugin_pod(waited=None, started=R + 6 if started is None else started)
    if started is None:
        pod = merged(pod, {"status": {"containerStatuses": [waiting("gpus", "PodInitializing")]}})
    found.put("daemonset", obj("plugin-daemonset", {"metadata": {"name": "second", "uid": "second-ds"}}))
    return found.put("plugin-pod", named(pod, "second", ownerReferences=owner("second-ds")))


def ending(pod: Object) -> Object:
    """Return a pod that terminates, under a name that is listed first."""
    return merged(named(pod, "a"), patches.DELETING)  # type: ignore[no-any-return]


def failing(node: str = "gpu-0") -> Object:
    """Return a driver pod whose image cannot be pulled."""
    statuses = [waiting("nvidia-driver-ctr", "ImagePullBackOff", "no such tag")]
    pod: Object = merged(driver_pod(node, ready=None), {"status": {"containerStatuses": statuses}})
    return pod


def flapped(driver: Object, started: float) -> Object:
    """Return a driver pod whose side container restarted at a moment."""
    statuses = [*driver["status"]["containerStatuses"], running("nvidia-peermem-ctr", started, restarts=1)]
    whole: Object = merged(driver, {"status": {"containerStatuses": statuses}})
    return whole


def unlabelled(found: Cluster, node: str = "b") -> Cluster:
    """Let a node lose its GPU label, and with it its driver pod; its plugin still runs."""
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.present": "false"}}}, node)
    left = len(found.drop("driver-pod", f"driver-{node}").of("driver-pod"))
    return found.change("daemonset", {"status": {"desiredNumberScheduled": left}}, DRIVER)


def reasons_over(*steps: tuple[float, Cluster]) -> list[Reason]:
    """Return the reasons of the decisions of a Job about these clusters, each at its seconds after the start."""
    return [decision.reason for decision in Run(steps[0][1]).through(*steps)]
