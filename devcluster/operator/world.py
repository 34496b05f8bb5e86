"""What the operator sees, and which of its controllers each change wakes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.client import path
from devcluster.operator.mirror import Mirror
from devcluster.operator.names import (
    CLUSTERS,
    COMPONENT,
    DRIVER,
    DRIVERS,
    HASH,
    NODES,
    POLICIES,
    by_number,
    is_driver,
    is_owned_by,
    labels_of,
    matches,
    name_of,
)

if TYPE_CHECKING:
    from devcluster.client import Api

Object = dict[str, Any]


class World:
    """Mirrors of the operator's own objects, the nodes, and the DaemonSets, revisions and pods in its namespace."""

    def __init__(self, namespace: str) -> None:
        self.rotation_due = asyncio.Event()
        """Wakes the upgrade controller: generations and node labels only. All else waits for its requeue."""
        self._subscribers: list[asyncio.Event] = []
        self.policy_mirror = Mirror(POLICIES, self._own_changed)
        self.driver_mirror = Mirror(DRIVERS, self._own_changed)
        self.cluster_mirror = Mirror(CLUSTERS, self._own_changed)
        self.node_mirror = Mirror(NODES, self._node_changed)
        self._daemonsets = Mirror(path("apps/v1", "daemonsets", namespace=namespace), self._daemonset_changed)
        self._revisions = Mirror(path("apps/v1", "controllerrevisions", namespace=namespace), self._pass_over)
        self._pods = Mirror(path("v1", "pods", namespace=namespace), self._pass_over)

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        """All mirrors, to be followed."""
        own = self.policy_mirror, self.driver_mirror, self.cluster_mirror
        return (*own, self.node_mirror, self._daemonsets, self._revisions, self._pods)

    def subscribe(self) -> asyncio.Event:
        """Return an event that wakes a controller: its objects, DaemonSets with their status, node labels."""
        event = asyncio.Event()
        self._subscribers.append(event)
        return event

    async def follow(self, api: Api) -> None:
        """Watch everything for ever."""
        async with asyncio.TaskGroup() as group:
            for mirror in self.mirrors:
                group.create_task(mirror.follow(api))

    async def wait_for_sync(self) -> None:
        """Wait until every collection was listed once."""
        for mirror in self.mirrors:
            await mirror.synced.wait()

    @property
    def policy(self) -> Object | None:
        """The oldest policy; others are ignored, and nobody writes that they are."""
        return min(self.policy_mirror.objects, key=_age, default=None)

    @property
    def drivers(self) -> list[Object]:
        """All NVIDIADrivers, the oldest first."""
        return sorted((each for each in self.driver_mirror.objects if _lives(each)), key=_age)

    @property
    def clusters(self) -> list[Object]:
        """All GPUClusters, the oldest first."""
        return sorted((each for each in self.cluster_mirror.objects if _lives(each)), key=_age)

    @property
    def nodes(self) -> list[Object]:
        """All nodes in the order of their numbers."""
        return sorted(self.node_mirror.objects, key=lambda each: by_number(name_of(each)))

    @property
    def daemonsets(self) -> list[Object]:
        """All DaemonSets, those aside that are being deleted."""
        return [each for each in self._daemonsets.objects if _lives(each)]

    @property
    def labelled_drivers(self) -> list[Object]:
        """The drivers' DaemonSets as the upgrade controller finds them: by a label that a user may have replaced."""
        return [each for each in self.daemonsets if is_driver(each) and matches(each, {COMPONENT: DRIVER})]

    @property
    def orphans(self) -> list[Object]:
        """The driver pods that nobody owns any more."""
        pods = (each for each in self._pods.objects if matches(each, {COMPONENT: DRIVER}))
        return [each for each in pods if not each["metadata"].get("ownerReferences")]

    def pods_of(self, daemonset: Object) -> list[Object]:
        """Return the pods that a DaemonSet owns."""
        return [each for each in self._pods.objects if is_owned_by(each, daemonset)]

    def newest_hash(self, daemonset: Object) -> str:
        """Return the hash of a DaemonSet's newest revision; empty before it has one."""
        revisions = [each for each in self._revisions.objects if is_owned_by(each, daemonset)]
        newest = max(revisions, key=lambda each: each["revision"], default=None)
        return "" if newest is None else labels_of(newest).get(HASH, "")

    def _own_changed(self, before: Object | None, after: Object | None) -> None:
        if _generation(before) != _generation(after):
            self._wake()
            self.rotation_due.set()

    def _daemonset_changed(self, before: Object | None, after: Object | None) -> None:
        self._wake()
        if _generation(before) != _generation(after):
            self.rotation_due.set()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None or after is None or labels_of(before) != labels_of(after):
            self._wake()
            self.rotation_due.set()

    def _pass_over(self, before: Object | None, after: Object | None) -> None:
        """Pods and revisions wake nobody."""

    def _wake(self) -> None:
        for event in self._subscribers:
            event.set()


def _age(thing: Object) -> tuple[str, str]:
    """Sort the oldest first; of two of one second the first by name."""
    return thing["metadata"]["creationTimestamp"], name_of(thing)


def _lives(thing: Object) -> bool:
    return "deletionTimestamp" not in thing["metadata"]


def _generation(thing: Object | None) -> int | None:
    return None if thing is None else int(thing["metadata"]["generation"])
