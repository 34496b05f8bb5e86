"""Which pods may hold the files of an old driver.

The plugin writes the paths of the driver into a file (a CDI specification) when it prepares a claim, and a restart of
the plugin does not repair that file (docs/affected-workloads.md). One rule finds the pods that may have such a file:

    A pod with a claim of the driver may hold old files if it started before the plugin of its node was refreshed.

The plugin *was refreshed* when the plugin that is fresh now started, but at the latest `CACHE_LIFETIME` after the
driver container started: from then on a stale plugin prepares no claim. So a plugin that is replaced again later
changes little.

All three times are of one kubelet, and it prepares nothing for a pod before the pod's ``status.startTime``. The rule
needs no memory: every process that reads the cluster finds the same pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.decide import freshness
from hook.decide.fleet import live_pods
from hook.decide.freshness import Freshness

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import datetime

    from hook.decide.fleet import Plugins
    from hook.objects import Claim, ClaimPod, Pod, Snapshot
    from hook.objects.stacks import Stack

CACHE_LIFETIME: Final = timedelta(minutes=5)
"""For so long the plugin keeps what it read of the driver (DRA driver from 25.12 on, measured with 0.4.1). It cannot
read anything of an old driver after the new one was loaded. Older versions write nothing per claim."""


@dataclass(frozen=True, slots=True)
class AffectedPod:
    """A pod that may hold the files of an old driver."""

    namespace: str
    name: str
    uid: str
    node: str
    started: datetime
    claims: tuple[str, ...]
    """Names of its claims. They have the namespace of the pod."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


Holders = list[tuple["ClaimPod", tuple[str, ...]]]
"""Pods, each with the names of its claims."""


def joined(claims: Iterable[Claim], pods: Iterable[ClaimPod]) -> Holders:
    """Return the pods that claims are reserved for, with the names of these claims."""
    claimed: dict[str, list[str]] = {}
    for claim in claims:
        for uid in claim.pods:
            claimed.setdefault(uid, []).append(claim.name)
    return [(pod, tuple(sorted(claimed[pod.uid]))) for pod in pods if pod.uid in claimed]


@dataclass(frozen=True, slots=True)
class Affected:
    """The affected pods of a cluster."""

    pods: tuple[AffectedPod, ...] = ()
    unknown: str = ""
    """Why they are not known; empty if they are."""
    malformed: str = ""
    """Which claims and pods cannot be read, so that they are not among the pods."""


def affected_pods(holders: Holders, snapshot: Snapshot, plugins: Plugins, stack: Stack) -> list[AffectedPod]:
    """Return the pods that started before the plugin of their node was refreshed, sorted by node and name."""
    refreshed = dict(_refreshes({pod.node for pod, _claims in holders}, snapshot, plugins, stack))
    found = [
        AffectedPod(pod.namespace, pod.name, pod.uid, pod.node, pod.started, claims)
        for pod, claims in holders
        if pod.node in refreshed and pod.started < refreshed[pod.node]
    ]
    return sorted(found, key=lambda pod: (pod.node, pod.namespace, pod.name))


def _refreshes(
    nodes: Collection[str], snapshot: Snapshot, plugins: Plugins, stack: Stack
) -> Iterator[tuple[str, datetime]]:
    """Yield when the plugin was refreshed, for each of these nodes that has one driver, whose container runs."""
    drivers, plugin_pods = _by_node(snapshot.driver_pods, nodes), _by_node(snapshot.plugin_pods, nodes)
    for node, (driver, *others) in drivers.items():
        loaded = freshness.driver_started(driver, stack)
        if loaded is None or others:
            continue
        latest = loaded + CACHE_LIFETIME
        live = [pod for pod in plugin_pods.get(node, ()) if plugins.is_plugin(pod.owner_uid)]
        fresh = live and all(_is_fresh(pod, driver, stack) for pod in live)
        starts = filter(None, (container.started_at for pod in live for container in pod.containers))
        yield node, min(latest, max(starts)) if fresh else latest


def _by_node(pods: Iterable[Pod], nodes: Collection[str]) -> dict[str, list[Pod]]:
    """Return the live pods of these nodes."""
    found: dict[str, list[Pod]] = {}
    for pod in live_pods(pod for pod in pods if pod.node in nodes):
        found.setdefault(pod.node, []).append(pod)
    return found


def _is_fresh(plugin: Pod, driver: Pod, stack: Stack) -> bool:
    """Return whether the times of a plugin prove that it runs on this driver."""
    return freshness.evaluate(plugin, stack.plugin, driver, stack).freshness is Freshness.FRESH
