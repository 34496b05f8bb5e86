"""Evaluate the plugins on one node whose driver is settled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from hook.decide import freshness, moments, rollout
from hook.decide.fleet import live_pods
from hook.decide.freshness import CRASH_LOOP_RESTARTS, Freshness
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus, Patience, StalePod

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hook.decide.fleet import Context, NodeView
    from hook.decide.freshness import Evidence
    from hook.decide.moments import Moment
    from hook.decide.state import Memory
    from hook.objects.drivers import PluginKind
    from hook.objects.views import DaemonSet, Pod

STEADY: Final = timedelta(seconds=10)
"""Time that a container must run after its first restart: the kubelet's first crash back-off.

K8S ``pkg/kubelet/kubelet.go``: initially 10 s.
"""
UNPUBLISHED: Final = "by start and readiness: no devices are published"
"""What *verified* rests on in ComputeDomain-only mode. ResourceSlices then show no version of the driver."""
STEADY_AFTER_CRASHES: Final = timedelta(seconds=60)
"""Time that a container must run after a further restart: longer than most crash loops run."""


class SettledNode(msgspec.Struct, frozen=True):
    """A node whose driver is settled, with the load of the driver that its plugins must start after."""

    view: NodeView
    context: Context
    memory: Memory
    driver: Pod
    moments: Sequence[Moment]
    """What plugins must start after in addition to the driver."""
    load: str
    """Identifier of the load of the driver, and of those of the prerequisites."""

    @classmethod
    def of(cls, view: NodeView, context: Context, memory: Memory) -> SettledNode:
        """Return the settled node with its live driver pod."""
        driver, after = live_pods(view.driver_pods)[0], list(moments.of(view, context, memory))
        further = "".join(f"/{moment.run}" for moment in after)
        load = f"{freshness.load_of(driver, context.stack)}{further}"
        return cls(view, context, memory, driver, after, load)

    @property
    def name(self) -> str:
        """Return the name of the node."""
        return self.view.name


def evaluate_plugin(plugin: DaemonSet, node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate the pods of one plugin on a node whose driver is settled."""
    pods = node.view.plugin_pods_of(plugin.uid)
    live = live_pods(pods)
    if live:
        return _evaluate_live(plugin, live, node, now)
    if pods:
        end = "is terminating" if pods[0].deleting else "has ended"
        return NodeStatus(
            node.name, NodeState.RESTARTING, Reason.PLUGIN_RESTARTING, f"{_title(pods[0], node)} {end}",
            subject=str(pods[0]), plugin=str(plugin), patience=Patience.PLUGIN,
        )  # fmt: skip
    return _evaluate_absent(plugin, node)


def evaluate_unnamed(node: SettledNode) -> tuple[list[NodeStatus], tuple[tuple[str, str], ...]]:
    """Return a status for each stale pod that looks like a plugin but is not in plugin.names.

    Also return the fresh pods, each with its load, for the memory.
    """
    kind = node.context.stack.plugin
    owners = {ds.uid: str(ds) for ds in node.context.plugins.unnamed}
    stale: list[NodeStatus] = []
    fresh: list[tuple[str, str]] = []
    for pod in live_pods(node.view.unnamed_pods):
        evidence = _evidence(pod, kind, node)
        if evidence.freshness is Freshness.FRESH:
            fresh.append((pod.uid, node.load))
        if evidence.freshness is Freshness.STALE:
            owner = owners[pod.owner_uid]
            message = f"{kind.noun} pod {pod.name} is stale: {evidence.because}; {owner} is not in plugin.names"
            stale.append(NodeStatus(
                node.name, NodeState.STALE, Reason.UNNAMED_PLUGIN, message,
                subject=str(pod), plugin=owner,
            ))  # fmt: skip
    return stale, tuple(fresh)


def _evaluate_absent(plugin: DaemonSet, node: SettledNode) -> NodeStatus:
    """Evaluate a node without a plugin pod. It is done only if the DaemonSet wants none here."""
    if not node.view.is_wanted_by(plugin):
        return NodeStatus(
            node.name, NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, f"{plugin} wants no pod here",
            plugin=str(plugin), daemonset_uid=plugin.uid,
        )  # fmt: skip
    return NodeStatus(
        node.name, NodeState.WAITING, Reason.PLUGIN_MISSING,
        f"no pod of {plugin} is here, although it wants one",
        subject=str(plugin), plugin=str(plugin), patience=Patience.PLUGIN,
    )  # fmt: skip


def _evaluate_live(plugin: DaemonSet, live: list[Pod], node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate every live pod; there may be two for a moment. Return the status of the least proven one."""
    kind = node.context.plugins.of_kind(plugin.uid)
    evaluated = [(pod, _evidence(pod, kind, node)) for pod in live]
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STALE:
            return _stale(plugin, pod, live, evidence, node)
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STARTING:
            return _verifying(plugin, pod, node, Reason.PLUGIN_STARTING, f"{_title(pod, node)}: {evidence.because}")
    fresh = tuple((pod.uid, node.load) for pod in live)
    for pod in live:
        if unverified := _not_ready(pod, now) or _unproven(pod, node):
            reason, message = unverified
            return replace(_verifying(plugin, pod, node, reason, f"{_title(pod, node)}{message}"), fresh=fresh)
    return _verified(plugin, live[0], node, fresh)


def _evidence(pod: Pod, kind: PluginKind, node: SettledNode) -> Evidence:
    """Return whether a pod is fresh, with the observation. A proof without times counts for one load of the driver."""
    if node.memory.fresh.get(pod.uid) == node.load:
        return freshness.running(pod, "it was proven to run on this driver before")
    if _is_successor(pod, node):
        return freshness.running(pod, "it came after a restart by this program, on this driver")
    return freshness.evaluate(pod, kind, node.driver, node.context.stack, node.moments)


def _is_successor(pod: Pod, node: SettledNode) -> bool:
    """Return whether a pod replaced one that this program restarted under this load of the driver.

    The driver was ready before the restart, so the new pod started on it, whatever times the kubelet reports.
    """
    restart = node.memory.restart_of(pod.owner_uid, node.name)
    return restart is not None and not restart.refused and restart.load == node.load and restart.follows(pod)


def untolerated(view: NodeView, plugin: DaemonSet) -> str:
    """Return why a deleted pod would not come back, or "": its node has a taint that the plugin does not tolerate."""
    taint = plugin.untolerated(view.node) if view.node is not None else None
    if taint is None:
        return ""
    return f"once deleted it would not come back: it does not tolerate the taint {taint.key}:{taint.effect}"


def is_up(pod: Pod) -> bool:
    """Return whether the kubelet reports a pod as ready.

    On a silent node the node controller sets Ready to False, but leaves ContainersReady as it was.
    """
    return pod.ready or pod.containers_ready_since is not None


def _stale(plugin: DaemonSet, pod: Pod, live: list[Pod], evidence: Evidence, node: SettledNode) -> NodeStatus:
    message = f"{_title(pod, node)} is stale: {evidence.because}"
    if taint := untolerated(node.view, plugin):
        return NodeStatus(
            node.name, NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, f"{message}; {taint}",
            subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN,
        )  # fmt: skip
    stale_pod = StalePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        daemonset_uid=pod.owner_uid,
        because=evidence.because,
        load=node.load,
        cause=evidence.cause,
        driver_ready=node.driver.containers_ready_since,
        up=is_up(pod),
        others=frozenset(other.uid for other in live if other is not pod),
        orphan=pod.uid in node.view.orphans,
    )
    return NodeStatus(
        node.name, NodeState.STALE, Reason.PLUGIN_STALE, message,
        subject=str(pod), plugin=str(plugin), stale_pod=stale_pod,
    )  # fmt: skip


def _verified(plugin: DaemonSet, pod: Pod, node: SettledNode, fresh: tuple[tuple[str, str], ...]) -> NodeStatus:
    """Return the status of a plugin whose pods are fresh and Ready, and publish devices of the expected driver."""
    kind = node.context.plugins.of_kind(pod.owner_uid)
    proof = f" ({UNPUBLISHED})" if kind.publisher and not _publishes(pod, kind) else ""
    return NodeStatus(
        node.name, NodeState.VERIFIED, Reason.VERIFIED, f"{_title(pod, node)} runs on the loaded driver{proof}",
        subject=str(pod), plugin=str(plugin), daemonset_uid=plugin.uid, fresh=fresh,
    )  # fmt: skip


def _not_ready(pod: Pod, now: datetime) -> tuple[Reason, str] | None:
    if not pod.ready:
        return Reason.PLUGIN_NOT_READY, f" is fresh but not Ready{crashing(pod)}"
    if restarted := just_crashed(pod, now):
        return Reason.PLUGIN_NOT_READY, f": {restarted}"
    return None


def _verifying(plugin: DaemonSet, pod: Pod, node: SettledNode, reason: Reason, message: str) -> NodeStatus:
    return NodeStatus(
        node.name, NodeState.VERIFYING, reason, message,
        subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN,
    )  # fmt: skip


def _title(pod: Pod, node: SettledNode) -> str:
    return f"{node.context.plugins.of_kind(pod.owner_uid).noun} pod {pod.name}"


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


def _publishes(pod: Pod, kind: PluginKind) -> bool:
    """Return whether a pod publishes devices, with the version of the driver."""
    return any(container.name == kind.publisher for container in pod.containers)


def _unproven(pod: Pod, node: SettledNode) -> tuple[Reason, str] | None:
    """Return what the ResourceSlices of the node do not show yet, for a plugin that publishes devices."""
    context, driver = node.context, node.driver
    kind = context.plugins.of_kind(pod.owner_uid)
    if not _publishes(pod, kind) or not context.slices_served:
        return None
    slices = [device_slice for device_slice in node.view.slices if device_slice.devices > 0]
    if not slices:
        return Reason.SLICE_MISSING, ": it is fresh, but its node has no ResourceSlice with devices"
    if driver.uid in node.view.outdated:  # loaded until an administrator replaces it: the policy names another version
        return None
    wanted = rollout.wanted_version(context.intents.get(driver.owner_uid), context.expected)
    for version in sorted({version for device_slice in slices for version in device_slice.driver_versions}):
        if not rollout.same_driver(version, wanted):
            message = f": its node's ResourceSlice shows driver {version}, expected {wanted}"
            return Reason.SLICE_OUTDATED, message
    return None
