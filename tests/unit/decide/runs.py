"""Runs of the program on a cluster that changes, one decision after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hook.config import DriverClient, Settings
from hook.decide.result import DeletePod, RolloutRestart
from tests.fixtures.following import Controller
from tests.fixtures.objects import Object, driver_pod, merged, parsed, running, waiting

if TYPE_CHECKING:
    from hook.decide.result import Decision, NodeStatus, Phase, StalePod
    from tests.fixtures.cluster import Cluster

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
DRIVER: Final = "nvidia-driver-daemonset"
EXPORTER: Final = DriverClient("gpu", "monitoring", "dcgm-exporter")
JOB: Final = Settings()
TOOLKIT: Final = Settings(refresh_after=("toolkit",))
DELETING: Final = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
ON_DELETE: Final = "spec: {updateStrategy: {type: OnDelete}}"
OUTDATED: Final[Object] = parsed("metadata: {labels: {controller-revision-hash: old}}")
BY_HAND: Final = "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}"
TAINT: Final = "spec: {taints: [{key: mine, effect: NoSchedule}]}"


@dataclass
class Run(Controller):
    """A Job's run. What it decides to restart is recorded, and stays in the cluster until the test removes it."""

    settings: Settings = JOB

    def phases(self, *moments: float) -> list[Phase]:
        """Return the phase at each moment."""
        return [self.look(seconds).phase for seconds in moments]

    def restart(self, seconds: float = 0, refused: str = "") -> list[str]:
        """Decide, record the restarts, and remove the pods that they delete. Return the names of these pods."""
        gone = pods(self.act(seconds, refused))
        for name in gone:
            self.found.drop("plugin-pod", name)
        return gone

    def record(self, *nodes: str, refused: str = "") -> Run:
        """Decide at the first moment, and record the restarts on these nodes alone."""
        for action in self.look().actions:
            if isinstance(action, DeletePod) and action.node in nodes:
                self.memory = self.memory.asked(action.node, action.pod, self.memory.started, refused)
        return self

    def then(self, found: Cluster) -> Run:
        """Continue the run on another cluster."""
        return Run(found, self.settings, self.memory)


def deleted(decision: Decision) -> list[str]:
    """Return the nodes on which a decision deletes a plugin pod."""
    return [action.node for action in decision.actions if isinstance(action, DeletePod)]


def pods(decision: Decision) -> list[str]:
    """Return the names of the pods that a decision deletes."""
    return [action.pod.name for action in decision.actions if isinstance(action, DeletePod)]


def stamped(decision: Decision) -> list[str]:
    """Return the names of the DaemonSets whose rollout a decision restarts."""
    return [action.name for action in decision.actions if isinstance(action, RolloutRestart)]


def stale_pod(status: NodeStatus) -> StalePod:
    """Return the stale pod of a status that has one."""
    assert status.stale_pod is not None
    return status.stale_pod


def named(pod: Object, name: str, **metadata: object) -> Object:
    """Return a pod with a name and a UID of its own."""
    whole: Object = merged(pod, {"metadata": {"name": name, "uid": name, **metadata}})
    return whole


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


def without_labels(found: Cluster, node: str = "b") -> Cluster:
    """Let a node lose its GPU label, and with it its driver pod; its plugin still runs."""
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.present": "false"}}}, node)
    left = len(found.drop("driver-pod", f"driver-{node}").of("driver-pod"))
    return found.change("daemonset", {"status": {"desiredNumberScheduled": left}}, DRIVER)
