"""What a driver operator sees: collections as the API server has them, and which controllers each change wakes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path
from devcluster.controller.objects import HASH, NODES, by_number, is_owned_by, labels_of, lives, name_of
from devcluster.watching import follow

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.client import Api


Object = dict[str, Any]

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5


class Mirror:
    """Objects by UID. `on_change` sees each object before and after; None stands for absent."""

    def __init__(
        self, url_path: str, on_change: Callable[[Object | None, Object | None], None], **selectors: str
    ) -> None:
        self.url_path = url_path
        self.synced = asyncio.Event()
        self._on_change = on_change
        self._selectors = selectors
        self._objects: dict[str, Object] = {}

    @property
    def objects(self) -> list[Object]:
        """Everything that is there now."""
        return list(self._objects.values())

    async def follow(self, api: Api) -> None:
        """Watch without an end. Right after an installation the permission or the kind may not be there yet."""
        while True:
            try:
                await self._follow_once(api)
            except ApiError as error:
                log.warning("watching %s: %s", self.url_path, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_once(self, api: Api) -> None:
        async for event in follow(api, self.url_path, **self._selectors):
            if event.kind == "SYNCED":
                self.synced.set()
            elif event.kind == "DELETED":
                before = self._objects.pop(event.object["metadata"]["uid"], None)
                self._on_change(before, None)
            else:
                self.put(event.object)

    def put(self, seen: Object) -> None:
        """Take over an object from the watch, or from the answer to our own write, which may be newer."""
        uid = seen["metadata"]["uid"]
        before = self._objects.get(uid)
        if before is None or _version(before) < _version(seen):
            self._objects[uid] = seen
            self._on_change(before, seen)


class DriverWorld:
    """Mirrors of the operator's own objects, the nodes, and the DaemonSets, revisions and pods in its namespace."""

    def __init__(self, namespace: str) -> None:
        self._subscribers: list[asyncio.Event] = []
        self._own: list[Mirror] = []
        self.node_mirror = Mirror(NODES, self.node_changed)
        self._daemonsets = Mirror(path("apps/v1", "daemonsets", namespace=namespace), self.daemonset_changed)
        self._revisions = Mirror(path("apps/v1", "controllerrevisions", namespace=namespace), self._pass_over)
        self._pods = Mirror(path("v1", "pods", namespace=namespace), self._pass_over)

    def own(self, url_path: str) -> Mirror:
        """Follow a kind of the operator's own objects."""
        mirror = Mirror(url_path, self._own_changed)
        self._own.append(mirror)
        return mirror

    def subscribe(self) -> asyncio.Event:
        """Return an event that wakes a controller: its objects, DaemonSets with their status, node labels."""
        event = asyncio.Event()
        self._subscribers.append(event)
        return event

    async def follow(self, api: Api) -> None:
        """Watch everything without an end."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors:
                group.create_task(mirror.follow(api))

    async def wait_for_sync(self) -> None:
        """Wait until every collection was listed once."""
        for mirror in self._mirrors:
            await mirror.synced.wait()

    @property
    def nodes(self) -> list[Object]:
        """All nodes in the order of their numbers."""
        return sorted(self.node_mirror.objects, key=lambda each: by_number(name_of(each)))

    @property
    def daemonsets(self) -> list[Object]:
        """All DaemonSets, those aside that are being deleted."""
        return [each for each in self._daemonsets.objects if lives(each)]

    def pods_of(self, daemonset: Object) -> list[Object]:
        """Return the pods that a DaemonSet owns."""
        return [each for each in self._pods.objects if is_owned_by(each, daemonset)]

    def newest_hash(self, daemonset: Object) -> str:
        """Return the hash of a DaemonSet's newest revision; empty before it has one."""
        revisions = [each for each in self._revisions.objects if is_owned_by(each, daemonset)]
        newest = max(revisions, key=lambda each: each["revision"], default=None)
        return "" if newest is None else labels_of(newest).get(HASH, "")

    def daemonset_changed(self, _before: Object | None, _after: Object | None) -> None:
        """Wake all controllers: a DaemonSet's status concerns them too."""
        self.wake()

    def node_changed(self, before: Object | None, after: Object | None) -> None:
        """Wake whom a node's change concerns."""
        if before is None or after is None or labels_of(before) != labels_of(after):
            self.wake()

    def wake(self) -> None:
        """Wake all subscribers."""
        for event in self._subscribers:
            event.set()

    @property
    def _mirrors(self) -> tuple[Mirror, ...]:
        return (*self._own, self.node_mirror, self._daemonsets, self._revisions, self._pods)

    def _own_changed(self, before: Object | None, after: Object | None) -> None:
        if _generation(before) != _generation(after):
            self.wake()

    def _pass_over(self, before: Object | None, after: Object | None) -> None:
        """Pods and revisions wake no loop."""


def _version(thing: Object) -> int:
    return int(thing["metadata"]["resourceVersion"])


def _generation(thing: Object | None) -> int | None:
    return None if thing is None else int(thing["metadata"]["generation"])
