"""Evaluate one plugin on one settled node."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.decide import freshness, rollout
from hook.decide.eligibility import live_pods, outdated
from hook.decide.freshness import CRASH_LOOP_RESTARTS, Freshness
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus, Patience, StalePod
from hook.decide.state import restart_key

if TYPE_CHECKING:
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.freshness import Evidence
    from hook.objects.drivers import PluginKind
    from hook.objects.views import DaemonSet, Pod

STEADY: Final = timedelta(seconds=10)
"""Time that a container must run after its first restart: the kubelet's first crash back-off.

K8S ``pkg/kubelet/kubelet.go``: initially 10 s.
"""
STEADY_AFTER_CRASHES: Final = timedelta(seconds=60)
"""Time that a container must run after a further restart: longer than most crash loops run."""


def evaluate_plugin(node: str, plugin: DaemonSet, driver: Pod, fleet: Fleet, now: datetime) -> NodeStatus:
    """Evaluate the plugin's pod on a node whose driver is settled."""
    pods = [pod for pod in fleet.plugin_pods.get(node, ()) if pod.owner_uid == plugin.uid]
    live = [pod for pod in pods if pod.live]
    if live:
        return _evaluate_live(plugin, live, driver, fleet, now)
    if pods:
        end = "is terminating" if pods[0].deleting else "has ended"
        return NodeStatus(
            node, NodeState.RESTARTING, Reason.PLUGIN_RESTARTING, f"{_called(pods[0], fleet)} {end}",
            subject=str(pods[0]), plugin=str(plugin), patience=Patience.PLUGIN,
        )  # fmt: skip
    return _evaluate_absent(node, plugin, fleet)


def evaluate_unnamed(node: str, driver: Pod, fleet: Fleet) -> tuple[list[NodeStatus], tuple[tuple[str, str], ...]]:
    """Return a status for each stale pod that looks like a plugin but is not in consumer.names.

    Also return the fresh pods, each with its driver run, for the memory.
    """
    kind = fleet.stack.plugin
    owners = {ds.uid: str(ds) for ds in fleet.plugins.unnamed}
    found: list[NodeStatus] = []
    fresh: list[tuple[str, str]] = []
    run = driver_run(driver, fleet)
    for pod in live_pods(fleet.unnamed_pods.get(node, ())):
        evidence = _evidence(pod, kind, driver, fleet, run)
        if evidence.freshness is Freshness.FRESH:
            fresh.append((pod.uid, run))
        if evidence.freshness is Freshness.STALE:
            owner = owners[pod.owner_uid]
            message = f"{kind.noun} pod {pod.name} is stale: {evidence.because}; {owner} is not in consumer.names"
            found.append(
                NodeStatus(node, NodeState.STALE, Reason.UNNAMED_PLUGIN, message, subject=str(pod), plugin=owner)
            )
    return found, tuple(fresh)


def _evaluate_absent(node: str, plugin: DaemonSet, fleet: Fleet) -> NodeStatus:
    """Evaluate a node without a plugin pod. It is done only if the DaemonSet has all the pods that it desires."""
    if plugin.uid in fleet.complete:
        return NodeStatus(
            node,
            NodeState.VERIFIED,
            Reason.NOTHING_TO_REFRESH,
            f"{plugin} runs no pod here",
            plugin=str(plugin),
            daemonset_uid=plugin.uid,
        )
    return NodeStatus(
        node, NodeState.WAITING, Reason.PLUGIN_MISSING,
        f"no pod of {plugin} is here, and it has fewer pods than the desired {plugin.desired}",
        subject=str(plugin), plugin=str(plugin), patience=Patience.PLUGIN,
    )  # fmt: skip


def _evaluate_live(plugin: DaemonSet, live: list[Pod], driver: Pod, fleet: Fleet, now: datetime) -> NodeStatus:
    """Evaluate every live pod; there may be two for a moment. Return the status of the least proven one."""
    node = driver.node
    unwelcome = untolerated(node, plugin, fleet)
    kind, run = fleet.plugins.of_kind(plugin.uid), driver_run(driver, fleet)
    judged = [(pod, _evidence(pod, kind, driver, fleet, run)) for pod in live]
    judged = [(pod, evidence) for pod, evidence in judged if not _came_after(pod, driver, evidence, fleet)]
    for pod, evidence in judged:
        if evidence.freshness is Freshness.STALE and unwelcome:
            message = f"{_called(pod, fleet)} is stale: {evidence.because}; {unwelcome}"
            return NodeStatus(
                node, NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, message,
                subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN,
            )  # fmt: skip
        if evidence.freshness is Freshness.STALE:
            return NodeStatus(
                node, NodeState.STALE, Reason.PLUGIN_STALE, f"{_called(pod, fleet)} is stale: {evidence.because}",
                subject=str(pod), plugin=str(plugin), stale_pod=_stale(pod, live, driver, fleet, evidence),
            )  # fmt: skip
    for pod, evidence in judged:
        if evidence.freshness is Freshness.STARTING:
            return _verifying(node, plugin, pod, Reason.PLUGIN_STARTING, f"{_called(pod, fleet)}: {evidence.because}")
    fresh = tuple((pod.uid, run) for pod in live)
    proven = [_verify(driver, plugin, pod, fleet, now, fresh) for pod in live]
    return next((status for status in proven if status.state is not NodeState.VERIFIED), proven[0])


def _evidence(pod: Pod, kind: PluginKind, driver: Pod, fleet: Fleet, run: str) -> Evidence:
    """Return whether a pod is fresh, with the observation. A pod that was proven under this driver run stays fresh."""
    if fleet.fresh.get(pod.uid) == run:
        return freshness.running(pod)
    return freshness.judge(pod, kind, driver, fleet.stack, live_pods(fleet.prerequisite_pods.get(driver.node, ())))


def _came_after(pod: Pod, driver: Pod, evidence: Evidence, fleet: Fleet) -> bool:
    """Return whether a pod replaced one that this program restarted under this driver run.

    The restart was issued when the driver was ready, so the new pod started later. The kubelet's times have whole
    seconds and may show the same second. The ready time may also have moved since without another driver run.
    """
    asked = fleet.restarts.get(restart_key(pod.owner_uid, driver.node))
    if asked is None or asked.refused:
        return False
    if not evidence.same_second and not freshness.started_after(pod, asked.driver_ready):
        return False
    successor = pod.uid != asked.pod_uid and pod.uid not in asked.others
    return successor and asked.driver_run == driver_run(driver, fleet)


def untolerated(name: str, plugin: DaemonSet, fleet: Fleet) -> str:
    """Return why a deleted pod would not come back, or "": its node has a taint that the plugin does not tolerate."""
    node = fleet.seen.nodes.get(name)
    for taint in node.taints if node else ():
        if not any(toleration.tolerates(taint) for toleration in plugin.tolerations):
            return f"once deleted it would not come back: it does not tolerate the taint {taint.key}:{taint.effect}"
    return ""


def _verify(  # noqa: PLR0913, PLR0917 - the parts of a status
    driver: Pod, plugin: DaemonSet, pod: Pod, fleet: Fleet, now: datetime, fresh: tuple[tuple[str, str], ...]
) -> NodeStatus:
    """Evaluate a fresh pod. It is verified once it is Ready and publishes devices of the expected driver."""
    node, called = driver.node, _called(pod, fleet)
    if not pod.ready:
        message = f"{called} is fresh but not Ready{crashing(pod)}"
        return _verifying(node, plugin, pod, Reason.PLUGIN_NOT_READY, message, fresh)
    if shaky := just_crashed(pod, now):
        return _verifying(node, plugin, pod, Reason.PLUGIN_NOT_READY, f"{called}: {shaky}", fresh)
    if unproven := _unproven(pod, driver, fleet):
        reason, message = unproven
        return _verifying(node, plugin, pod, reason, f"{called}: {message}", fresh)
    return NodeStatus(
        node, NodeState.VERIFIED, Reason.VERIFIED, f"{called} runs on the loaded driver",
        subject=str(pod), plugin=str(plugin), daemonset_uid=plugin.uid, fresh=fresh,
    )  # fmt: skip


def _called(pod: Pod, fleet: Fleet) -> str:
    return f"{fleet.plugins.of_kind(pod.owner_uid).noun} pod {pod.name}"


def crashing(pod: Pod) -> str:
    """Return the name of a container that crash-loops, also while it runs between two crashes; or ""."""
    worst = max(pod.containers, key=lambda container: container.restarts)
    if worst.restarts < CRASH_LOOP_RESTARTS:
        return ""
    return f": container {worst.name} is in CrashLoopBackOff ({worst.restarts} restarts)"


def just_crashed(pod: Pod, now: datetime) -> str:
    """Return which container restarted a moment ago, or "": a crash-looping one is Ready between two crashes.

    Ignore a start in the future: the clocks differ, and the time proves nothing.
    """
    for container in pod.containers:
        steady = STEADY if container.restarts < CRASH_LOOP_RESTARTS else STEADY_AFTER_CRASHES
        if container.restarts and container.started_at and timedelta() <= now - container.started_at < steady:
            restarts = f"{container.restarts} restarts, the last one a moment ago"
            return f"container {container.name} has {restarts}"
    return ""


def _unproven(pod: Pod, driver: Pod, fleet: Fleet) -> tuple[Reason, str] | None:
    """Return what the ResourceSlices of the node do not show yet, for a plugin that publishes devices."""
    kind = fleet.plugins.of_kind(pod.owner_uid)
    publishes = any(container.name == kind.publisher for container in pod.containers)
    if not publishes or fleet.seen.slices is None:
        return None
    slices = [device_slice for device_slice in fleet.slices.get(driver.node, ()) if device_slice.devices > 0]
    if not slices:
        return Reason.SLICE_MISSING, "it is fresh, but its node has no ResourceSlice with devices"
    if outdated(driver, fleet):  # loaded until an administrator replaces it: the policy names another version
        return None
    wanted = rollout.wanted_version(fleet.intents.get(driver.owner_uid), fleet.settings)
    for version in sorted(frozenset[str]().union(*(device_slice.driver_versions for device_slice in slices))):
        if not rollout.same_driver(version, wanted):
            message = f"its node's ResourceSlice shows driver {version}, expected {wanted}"
            return Reason.SLICE_OUTDATED, message
    return None


def _verifying(  # noqa: PLR0913, PLR0917 - the fields of a status
    node: str, plugin: DaemonSet, pod: Pod, reason: Reason, message: str, fresh: tuple[tuple[str, str], ...] = ()
) -> NodeStatus:
    return NodeStatus(
        node, NodeState.VERIFYING, reason, message,
        subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN, fresh=fresh,
    )  # fmt: skip


def _stale(pod: Pod, live: list[Pod], driver: Pod, fleet: Fleet, evidence: Evidence) -> StalePod:
    return StalePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        daemonset_uid=pod.owner_uid,
        because=evidence.because,
        driver_run=driver_run(driver, fleet),
        cause=evidence.cause,
        driver_ready=driver.containers_ready_since,
        others=frozenset(other.uid for other in live if other is not pod),
        orphan=pod.uid in fleet.orphans,
    )


def driver_run(driver: Pod, fleet: Fleet) -> str:
    """Return an identifier of the driver run, and the providers' runs, that plugins on this node must start after."""
    prerequisites = live_pods(fleet.prerequisite_pods.get(driver.node, ()))
    runs = (
        f"/{prerequisite.uid}/{sum(each.restarts for each in prerequisite.containers)}"
        for prerequisite in prerequisites
    )
    return f"{driver.uid}/{freshness.driver_run(driver, fleet.stack)}{''.join(runs)}"
