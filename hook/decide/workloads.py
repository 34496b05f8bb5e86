"""Which pods may hold the files of an old driver, although the plugin of their node is fresh.

The plugin writes the paths of the driver into a file (a CDI specification) when it prepares a claim, and a restart of
the plugin does not repair that file. A claim that a stale plugin prepared succeeds for some minutes, with the paths of
the old driver (docs/affected-workloads.md). So the time of the preparation counts. It is not in the API, but two times
of the pod enclose it, and both are of the same kubelet as the starts of driver and plugin:

* S, ``status.startTime``: the kubelet accepted the pod. It prepared nothing for the pod before that. Containers that
  restart change nothing, and neither does their time: the file stays.
* B, when the sandbox was set up. The kubelet prepares the claims right before that, in the same synchronisation (K8S
  ``pkg/kubelet/kuberuntime``, SyncPod), and tries both again if either fails. So all claims were prepared at B.

With D, the start of the driver container, and P, the start of the first plugin that was fresh on this driver:

* P <= S: a fresh plugin prepared the claims.
* B < P: the claims were prepared before. If S < D, that was *before the upgrade*. Otherwise it was *while the plugin
  was stale*, also if the plugin is still stale now.
* S < P <= B: unknown. A preparation that failed on the stale plugin succeeds on the fresh one, and then the pod is
  healthy. But a sandbox that is set up anew, as after a crash or a reboot, moves B and prepares nothing. Such a pod is
  *possibly affected*.

P is known if this program restarted the plugin, or if the plugin waited for this driver in its init container. Any
other plugin may have replaced a fresh one, so it only shows that P is not later. Then B < P proves nothing either,
except for B < D.

If the driver that is loaded now has the image of the driver before it, and a fresh plugin prepared the claims for that
one, the files may be the same. The driver manager even keeps such a driver loaded. So these pods are *possibly
affected*, too. The program knows that if it saw both drivers, or if only the container of the driver restarted.

A claim that several pods of a node share is prepared once, for the first of them. The plugin answers for the others
from its checkpoint, with the same files, also after it was restarted (measured). So what holds for one of these pods
holds for all of them, with the same certainty.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from hook.decide import freshness
from hook.decide.fleet import live_pods
from hook.decide.freshness import Freshness
from hook.decide.state import restart_key
from hook.objects.decoding import Text, Time  # noqa: TC001 - msgspec reads them when it first decodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from hook.decide import clients
    from hook.decide.state import Memory
    from hook.objects.drivers import Stack
    from hook.objects.views import Pod, Snapshot
    from hook.objects.workloads import Claim, ClaimPod


class Exposure(StrEnum):
    """Why a pod may hold the files of an old driver, the worst first. A label of metrics."""

    BEFORE_UPGRADE = "PreparedBeforeUpgrade"
    WHILE_STALE = "PreparedWhileStale"
    POSSIBLE = "PossiblyAffected"

    @property
    def certain(self) -> bool:
        """Return whether a plugin that was not fresh prepared the claims."""
        return self is not Exposure.POSSIBLE

    @property
    def text(self) -> str:
        """Return the class as part of a sentence."""
        return _TEXTS[self]


_TEXTS: Final = {
    Exposure.BEFORE_UPGRADE: "prepared before the driver was loaded",
    Exposure.WHILE_STALE: "prepared while the plugin was stale",
    Exposure.POSSIBLE: "possibly affected",
}


class Refresh(msgspec.Struct, rename="camel", frozen=True):
    """When the plugin of a node was refreshed for one driver run. The status object keeps it."""

    driver_run: Text
    by: Time
    """All containers of a fresh plugin had started. So P is not later."""
    first: Time | None = None
    """P, when the first container of the first fresh plugin started. None if unknown."""
    image: Text = ""
    """Image of the driver; empty if unknown."""
    alike: Time | None = None
    """`by` of the first of the driver runs before this one that had the same image. None if unknown."""

    def after(self, other: Refresh | None) -> Refresh:
        """Add what is known from before. Of one driver run, a plugin that was fresh earlier refutes a later P."""
        if other is None:
            return self
        if other.driver_run != self.driver_run:
            alike = _earliest(self.alike, other.alike or other.by) if self.image == other.image != "" else self.alike
            return msgspec.structs.replace(self, alike=alike)
        by = min(self.by, other.by)
        firsts = [first for first in (self.first, other.first) if first is not None and first <= by]
        alike = _earliest(self.alike, other.alike)
        return Refresh(self.driver_run, by, _earliest(*firsts), self.image or other.image, alike)


def _earliest(*times: datetime | None) -> datetime | None:
    return min(filter(None, times), default=None)


Refreshes = dict[str, Refresh]
"""By node."""


@dataclass(frozen=True, slots=True)
class AffectedPod:
    """A pod that may hold the files of an old driver."""

    namespace: str
    name: str
    uid: str
    node: str
    exposure: Exposure
    started: datetime
    claims: tuple[str, ...]
    """Names of the claims that make it affected. They have the namespace of the pod."""
    driver_run: str = ""
    """Run of the driver that is loaded now."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Plugins:
    """What shows when the plugins of a driver stack were refreshed."""

    snapshot: Snapshot
    clients: clients.Plugins
    stack: Stack
    memory: Memory

    def image(self, driver: Pod) -> str:
        """Return the image of a driver, as the revision of its pod records it; empty if that is not known."""
        of = driver.owner_uid, driver.hash
        made = (each.template for each in self.snapshot.revisions if (each.owner_uid, each.hash) == of)
        images = (dict(template.images) for template in made if template is not None)
        return next((found.get(self.stack.driver.container, "") for found in images), "")

    def restarted(self, node: str, run: str) -> bool:
        """Return whether this program restarted a plugin of a node that was older than this driver run."""
        keys = (restart_key(ds.uid, node) for ds in self.clients.named if self.clients.is_plugin(ds.uid))
        records = filter(None, map(self.memory.restarts.get, keys))
        return any(record.predates and not record.refused and _is_of(record.driver_run, run) for record in records)

    def fresh(self, pod: Pod, driver: Pod, run: str) -> bool:
        """Return whether a plugin was proven fresh on this driver, by its memory or by its times."""
        known = _is_of(self.memory.fresh.get(pod.uid, ""), run)
        return known or self.evidence(pod, driver) is Freshness.FRESH

    def evidence(self, pod: Pod, driver: Pod) -> Freshness:
        """Return what the times of a plugin and of the driver show. Prerequisites do not change the driver's files."""
        return freshness.evaluate(pod, self.stack.plugin, driver, self.stack).freshness


@dataclass(frozen=True, slots=True)
class _LoadedDriver:
    """The driver that is loaded on a node, and when the plugin was refreshed for it."""

    run: str
    started: datetime
    refresh: Refresh | None
    stale: bool
    """No plugin is known to be fresh on this driver."""
    proven: bool
    """All plugins are older than this driver, so none was fresh on it yet."""
    alike: datetime | None
    """A fresh plugin prepared the claims since then, for drivers with the same image. None if unknown."""


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
    """The certainly affected ones first: a reader may see only the beginning."""
    unknown: str = ""
    """Why they are not known; empty if they are."""
    malformed: str = ""
    """Which claims and pods cannot be read, so that they are not among the pods."""

    @property
    def certain(self) -> list[AffectedPod]:
        """Return the pods whose claims a plugin prepared that was not fresh."""
        return [pod for pod in self.pods if pod.exposure.certain]

    def counts(self) -> dict[Exposure, int]:
        """Return the number of pods of each class."""
        return {exposure: sum(pod.exposure is exposure for pod in self.pods) for exposure in Exposure}


def affected_pods(
    holders: Holders, plugins: Plugins, before: Mapping[str, Refresh]
) -> tuple[list[AffectedPod], Refreshes]:
    """Return the affected pods, and when the plugins of their nodes were refreshed.

    `before` has the refreshes that are known from earlier. Nodes with a restart record are remembered also if no pod
    holds a claim there now.
    """
    nodes = {pod.node for pod, _claims in holders} | {key.partition("/")[2] for key in plugins.memory.restarts}
    loaded = dict(_loaded_drivers(nodes, plugins, before))
    worst: dict[tuple[str, str, str], Exposure] = {}
    for pod, claims in holders:
        if pod.node in loaded and (exposure := _exposure(pod, loaded[pod.node])) is not None:
            for claim in claims:
                place = pod.node, pod.namespace, claim
                worst[place] = _worst((exposure, worst.get(place, exposure)))
    found: list[AffectedPod] = []
    for pod, claims in holders:
        old = {claim: worst[place] for claim in claims if (place := (pod.node, pod.namespace, claim)) in worst}
        if old:
            what = (pod.node, _worst(old.values()), pod.started, tuple(old), loaded[pod.node].run)
            found.append(AffectedPod(pod.namespace, pod.name, pod.uid, *what))
    known = {node: driver.refresh for node, driver in loaded.items() if driver.refresh is not None}
    # Without a fresh plugin, what is known still holds if the driver run has not changed, or its image.
    kept = {node: before[node] for node in nodes - known.keys() if node in before}
    found.sort(key=lambda pod: (not pod.exposure.certain, pod.node, pod.namespace, pod.name))
    return found, kept | known


def _worst(exposures: Iterable[Exposure]) -> Exposure:
    """Return the class that comes first in the enumeration."""
    return min(exposures, key=list(Exposure).index)


def _exposure(pod: ClaimPod, driver: _LoadedDriver) -> Exposure | None:
    """Return why a pod may be affected, or None for a healthy pod. The module's docstring has the reasons."""
    refresh = driver.refresh
    if refresh is not None and pod.started >= refresh.by:
        return None
    if pod.sandbox is not None:
        first = refresh.first if refresh is not None else None
        if pod.sandbox < driver.started or driver.proven or (first is not None and pod.sandbox < first):
            if driver.alike is not None and pod.started >= driver.alike:
                return Exposure.POSSIBLE
            return Exposure.BEFORE_UPGRADE if pod.started < driver.started else Exposure.WHILE_STALE
    # Without a fresh plugin, and without one that is known to be stale, a plugin is just being replaced.
    return Exposure.POSSIBLE if refresh is not None or driver.stale else None


def _loaded_drivers(
    nodes: Collection[str], plugins: Plugins, before: Mapping[str, Refresh]
) -> Iterator[tuple[str, _LoadedDriver]]:
    """Yield each of these nodes that has one ready driver. While a driver reloads, its pods are not evaluated."""
    both = (plugins.snapshot.driver_pods, plugins.snapshot.plugin_pods)
    driver_pods, plugin_pods = (_by_node(pod for pod in pods if pod.node in nodes) for pods in both)
    for node in nodes:
        drivers = driver_pods.get(node, [])
        if len(drivers) != 1 or freshness.ready_since(drivers[0], plugins.stack.driver.container) is None:
            continue
        started = freshness.driver_started(drivers[0], plugins.stack)
        if started is None:
            continue
        run = freshness.driver_run(drivers[0], plugins.stack)
        ours = plugins.restarted(node, run)
        live = [pod for pod in plugin_pods.get(node, ()) if plugins.clients.is_plugin(pod.owner_uid)]
        refresh = _refreshed(live, drivers[0], run, plugins, ours=ours)
        known, image = before.get(node), plugins.image(drivers[0])
        alike = Refresh(run, started, image=image).after(known).alike or freshness.set_up_at(drivers[0], plugins.stack)
        if refresh is not None:
            refresh = msgspec.structs.replace(refresh, image=image, alike=alike).after(known)
        elif known is not None and known.driver_run == run:
            refresh = known
        stale = refresh is None and (ours or any(plugins.evidence(pod, drivers[0]) is Freshness.STALE for pod in live))
        old = all(freshness.predates(pod, drivers[0], plugins.stack) for pod in live)
        proven = stale and old and (ours or bool(live))
        yield node, _LoadedDriver(run, started, refresh, stale, proven, alike)


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the live pods of each node."""
    found: dict[str, list[Pod]] = {}
    for pod in live_pods(pods):
        found.setdefault(pod.node, []).append(pod)
    return found


def _is_of(run: str, driver_run: str) -> bool:
    """Return whether a recorded run is of this driver run. It may name runs of prerequisites in addition."""
    return run == driver_run or run.startswith(f"{driver_run}/")


def _refreshed(live: Iterable[Pod], driver: Pod, run: str, plugins: Plugins, *, ours: bool) -> Refresh | None:
    """Return what a fresh plugin shows about P. If a container restarted, its first start is unknown."""
    for pod in live:
        starts = [container.started_at for container in pod.containers if container.started_at is not None]
        if not starts or not plugins.fresh(pod, driver, run):
            continue
        once = not any(container.restarts for container in pod.containers)
        known = once and (ours or _waited(pod, driver, plugins))
        return Refresh(run, max(starts), min(starts) if known else None)
    return None


def _waited(pod: Pod, driver: Pod, plugins: Plugins) -> bool:
    """Return whether a plugin waited for this driver in its init container, so that no fresh plugin was before it.

    It waited since before the driver started. The time at which the driver was ready can move later.
    """
    started = freshness.driver_started(driver, plugins.stack)
    waiters = (container for container in pod.init_containers if container.name == plugins.stack.plugin.waiter)
    return any(
        waiter.finished_at - timedelta(seconds=waiter.lasted) <= started
        for waiter in waiters
        if started is not None and waiter.finished_at is not None and waiter.lasted is not None
    )
