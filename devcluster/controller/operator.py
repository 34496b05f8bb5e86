"""What every operator does: it sees collections as the API server has them, and writes what is missing.

It does so again and again. The real ones wake up at each change, and look again after 5 seconds while something is not
ready.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, ClassVar

from devcluster.client import JSON_PATCH, ApiError, path
from devcluster.controller.objects import (
    HASH,
    RENDERED,
    TROUBLE,
    annotations_of,
    is_owned_by,
    labels_of,
    name_of,
    owned_by,
)
from devcluster.controller.process import upgrade
from devcluster.watching import follow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.client import Api
    from devcluster.controller.settings import OperatorSettings

Object = dict[str, Any]

log = logging.getLogger(__name__)

NODES = path("v1", "nodes")

EXISTS, GONE = 409, 404

LOOK_AGAIN_SECONDS = 0.3

STATUS_SECONDS = 1.5
"""After a change of a policy, its status stays as it was for so long."""

REPLACE_SECONDS = 3.0
"""For so long there is no DaemonSet while others replace those that were."""


class Mirror:
    """The objects of one collection, by UID."""

    def __init__(self, url_path: str) -> None:
        self.url_path = url_path
        self.objects: dict[str, Object] = {}
        self.synced = asyncio.Event()

    async def follow(self, api: Api) -> None:
        """Watch without an end. Right after an installation the permission or the kind may not be there yet."""
        while True:
            try:
                async for event in follow(api, self.url_path):
                    if event.kind == "SYNCED":
                        self.synced.set()
                    elif event.kind == "DELETED":
                        self.objects.pop(event.object["metadata"]["uid"], None)
                    else:
                        self.objects[event.object["metadata"]["uid"]] = event.object
            except ApiError as error:
                log.warning("watching %s: %s", self.url_path, error)
                await asyncio.sleep(LOOK_AGAIN_SECONDS)


class Operator:
    """An operator. Subclasses say in `reconcile` what is to be as their own objects ask."""

    driver: ClassVar[str]
    """What the upgrade library calls the driver."""
    kinds: ClassVar[tuple[str, ...]]
    """The paths of its own objects."""

    def __init__(self, api: Api, settings: OperatorSettings) -> None:
        self.api = api
        self.settings = settings
        self._daemonsets_path = path("apps/v1", "daemonsets", namespace=settings.namespace)
        self._revisions_path = path("apps/v1", "controllerrevisions", namespace=settings.namespace)
        self._pods_path = path("v1", "pods", namespace=settings.namespace)
        seen = (*self.kinds, NODES, self._daemonsets_path, self._revisions_path, self._pods_path)
        self._mirrors = {url_path: Mirror(url_path) for url_path in seen}
        self._judged: tuple[int, float] = (0, 0.0)
        """The policy's generation, and when it was seen first."""

    # What subclasses say.

    async def reconcile(self) -> None:
        """Look, and write what is missing."""
        raise NotImplementedError

    @property
    def is_modern(self) -> bool:
        """Whether it upgrades drivers as GPU operator 26.7."""
        return False

    # What they use.

    def all(self, url_path: str) -> list[Object]:
        """Return all objects of a collection, except those that are being deleted."""
        return [
            each for each in self._mirrors[url_path].objects.values() if "deletionTimestamp" not in each["metadata"]
        ]

    @property
    def nodes(self) -> list[Object]:
        """All nodes."""
        return self.all(NODES)

    @property
    def pods(self) -> list[Object]:
        """All pods in the operator's namespace, those included that are being deleted."""
        return list(self._mirrors[self._pods_path].objects.values())

    def daemonsets_of(self, owner: Object) -> list[Object]:
        """Return what is rendered for an object."""
        return [each for each in self.all(self._daemonsets_path) if is_owned_by(each, owner)]

    def newest_hash(self, daemonset: Object) -> str:
        """Return the hash of a DaemonSet's newest revision; empty before it has one."""
        revisions = [each for each in self.all(self._revisions_path) if is_owned_by(each, daemonset)]
        newest = max(revisions, key=lambda each: each["revision"], default=None)
        return "" if newest is None else labels_of(newest).get(HASH, "")

    async def patch_node(self, node: Object, metadata: Object) -> None:
        """Write to a node; nothing to write is no request."""
        if metadata:
            await self.api.patch(f"{NODES}/{name_of(node)}", {"metadata": metadata})

    async def report(self, kind: str, thing: Object, status: Object) -> None:
        """Write the status of one of its own objects where it is not that already."""
        have = thing.get("status", {})
        if any(have.get(key) != value for key, value in status.items()):
            await self.api.patch(f"{kind}/{name_of(thing)}/status", {"status": status})

    def is_due(self, policy: Object) -> bool:
        """Return whether a policy may have a new status: it has its old one for a while after each change."""
        generation = policy["metadata"]["generation"]
        if generation != self._judged[0]:
            self._judged = generation, time.monotonic()
        return time.monotonic() - self._judged[1] >= STATUS_SECONDS

    async def apply(self, owner: Object, wanted: Iterable[Object], *, orphan: bool = False) -> None:
        """Make the DaemonSets of an object those that are wanted; `orphan` leaves the pods of what is deleted."""
        names = {name_of(each): owned_by(owner, each, self.settings.namespace) for each in wanted}
        have = {name_of(each): each for each in self.daemonsets_of(owner)}
        leftover = have.keys() - names.keys()
        for name in leftover:
            await self._delete(name, "Orphan" if orphan else "Background")
        if leftover and names.keys() - have.keys():
            await asyncio.sleep(REPLACE_SECONDS)
        for name, daemonset in names.items():
            if name not in have:
                await self._create(daemonset)
            elif annotations_of(have[name]).get(RENDERED) != annotations_of(daemonset)[RENDERED]:
                await self.api.patch(f"{self._daemonsets_path}/{name}", _update(daemonset), JSON_PATCH)

    async def _create(self, daemonset: Object) -> None:
        """Create a DaemonSet; the watch may not have shown yet that we did so a moment ago."""
        try:
            await self.api.create(self._daemonsets_path, daemonset)
        except ApiError as error:
            if error.code != EXISTS:
                raise

    async def _delete(self, name: str, policy: str) -> None:
        try:
            await self.api.delete(f"{self._daemonsets_path}/{name}", {"propagationPolicy": policy})
        except ApiError as error:
            if error.code != GONE:
                raise

    # Its loop.

    async def run(self) -> None:
        """Reconcile without an end; what a request ends with is met by looking again."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors.values():
                group.create_task(mirror.follow(self.api))
            for mirror in self._mirrors.values():
                await mirror.synced.wait()
            group.create_task(upgrade(self.settings, self.driver, modern=self.is_modern))
            while True:
                try:
                    await self.reconcile()
                except TROUBLE as error:
                    log.warning("looking again: %r", error)
                await asyncio.sleep(LOOK_AGAIN_SECONDS)


def _update(wanted: Object) -> list[Object]:
    """Build the patch from any rendering of a DaemonSet to this one."""
    key = RENDERED.replace("/", "~1")
    return [
        {"op": "replace", "path": "/spec/template", "value": wanted["spec"]["template"]},
        {"op": "replace", "path": "/metadata/labels", "value": wanted["metadata"]["labels"]},
        {"op": "replace", "path": f"/metadata/annotations/{key}", "value": annotations_of(wanted)[RENDERED]},
    ]
