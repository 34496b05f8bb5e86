"""Create, update, replace and delete the DaemonSets of one owner."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.client import JSON_PATCH, ApiError, path
from devcluster.operator import names as n
from devcluster.operator.render import applied_hash

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.operator.settings import Settings
    from devcluster.operator.world import World

Object = dict[str, Any]

EXISTS, GONE = 409, 404


class Applier:
    """Makes the DaemonSets of an owner those that its rendering wants."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings

    async def apply(self, owner: Object, wanted: list[Object], *, orphan: bool = False) -> None:
        """Apply; with `orphan`, the pods of what is deleted stay, and belong to nobody."""
        names = {n.name_of(each): each for each in wanted}
        have = {n.name_of(each): each for each in self.world.daemonsets if n.is_owned_by(each, owner)}
        leftover = have.keys() - names.keys()
        for name in leftover:
            await self._delete(name, "Orphan" if orphan else "Background")
        if leftover and names.keys() - have.keys():
            await asyncio.sleep(self.settings.replace_gap)
        for name, daemonset in names.items():
            if name not in have:
                await self._create(daemonset)
            elif applied_hash(have[name]) != applied_hash(daemonset):
                await self.api.patch(self._path(name), _update(daemonset), JSON_PATCH)

    async def _create(self, daemonset: Object) -> None:
        """Create a DaemonSet; the mirror may not show yet that we did so a moment ago."""
        try:
            await self.api.create(self._path(), daemonset)
        except ApiError as error:
            if error.code != EXISTS:
                raise

    async def _delete(self, name: str, policy: str) -> None:
        try:
            await self.api.delete(self._path(name), {"propagationPolicy": policy})
        except ApiError as error:
            if error.code != GONE:
                raise

    def _path(self, name: str | None = None) -> str:
        return path("apps/v1", "daemonsets", namespace=self.settings.namespace, name=name)


def _update(wanted: Object) -> list[Object]:
    """Build the patch from any rendering to this one."""
    metadata = wanted["metadata"]
    key = n.APPLIED_HASH.replace("/", "~1")
    return [
        {"op": "replace", "path": "/spec/template", "value": wanted["spec"]["template"]},
        {"op": "replace", "path": "/metadata/labels", "value": metadata["labels"]},
        {"op": "replace", "path": f"/metadata/annotations/{key}", "value": applied_hash(wanted)},
    ]
