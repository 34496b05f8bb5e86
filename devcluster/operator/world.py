"""What the operator sees, and which of its controllers each change wakes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.client import path
from devcluster.operator.mirror import Mirror
from devcluster.operator.names import (
    COMPONENT,
    DRIVER,
    HASH,
    NODES,
    POLICIES,
    by_number,
    is_owned_by,
    labels_of,
    name_of,
)

if TYPE_CHECKING:
    from devcluster.client import Api

Object = dict[str, Any]


class World:
    """Mirrors of the policy, the nodes, and the driver's DaemonSets, revisions and pods."""

    def __init__(self, namespace: str) -> None:
        self.policy_changed = asyncio.Event()
        """Wakes the ClusterPolicy controller: the policy, DaemonSets with their status, node labels."""
        self.rotation_due = asyncio.Event()
        """Wakes the upgrade controller: generations and node labels only. All else waits for its requeue."""
        drivers = {"labelSelector": f"{COMPONENT}={DRIVER}"}
        self._policies = Mirror(POLICIES, self._policy_changed)
        self.node_mirror = Mirror(NODES, self._node_changed)
        self._daemonsets = Mirror(
            path("apps/v1", "daemonsets", namespace=namespace), self._daemonset_changed, **drivers
        )
        self._revisions = Mirror(
            path("apps/v1", "controllerrevisions", namespace=namespace), self._pass_over, **drivers
        )
        self._pods = Mirror(path("v1", "pods", namespace=namespace), self._pass_over, **drivers)

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        """All mirrors, to be followed."""
        return self._policies, self.node_mirror, self._daemonsets, self._revisions, self._pods

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
        """The oldest policy; others are ignored."""
        return min(self._policies.objects, key=lambda each: each["metadata"]["creationTimestamp"], default=None)

    def put_policy(self, answer: Object) -> None:
        """Take over the answer to our own write."""
        self._policies.put(answer)

    @property
    def nodes(self) -> list[Object]:
        """All nodes in the order of their numbers."""
        return sorted(self.node_mirror.objects, key=lambda each: by_number(name_of(each)))

    @property
    def daemonsets(self) -> list[Object]:
        """The driver's DaemonSets, those aside that are being deleted."""
        return [each for each in self._daemonsets.objects if "deletionTimestamp" not in each["metadata"]]

    def pods_of(self, daemonset: Object) -> list[Object]:
        """Return the pods that a DaemonSet owns."""
        return [each for each in self._pods.objects if is_owned_by(each, daemonset)]

    def newest_hash(self, daemonset: Object) -> str:
        """Return the hash of a DaemonSet's newest revision; empty before it has one."""
        revisions = [each for each in self._revisions.objects if is_owned_by(each, daemonset)]
        newest = max(revisions, key=lambda each: each["revision"], default=None)
        return "" if newest is None else labels_of(newest).get(HASH, "")

    def _policy_changed(self, before: Object | None, after: Object | None) -> None:
        if _generation(before) != _generation(after):
            self.policy_changed.set()
            self.rotation_due.set()

    def _daemonset_changed(self, before: Object | None, after: Object | None) -> None:
        self.policy_changed.set()
        if _generation(before) != _generation(after):
            self.rotation_due.set()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None or after is None or labels_of(before) != labels_of(after):
            self.policy_changed.set()
            self.rotation_due.set()

    def _pass_over(self, before: Object | None, after: Object | None) -> None:
        """Pods and revisions wake nobody."""


def _generation(thing: Object | None) -> int | None:
    return None if thing is None else int(thing["metadata"]["generation"])
