"""Create, update, replace and delete the DaemonSets of one owner."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devcluster.client import JSON_PATCH, ApiError, path
from devcluster.controller.objects import annotations_of, is_owned_by, name_of

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.controller.world import DriverWorld

Object = dict[str, Any]

EXISTS, GONE = 409, 404


@dataclass(frozen=True, slots=True)
class Applier:
    """Makes the DaemonSets of an owner those that its rendering wants."""

    api: Api
    world: DriverWorld
    namespace: str
    hash_key: str
    """The annotation by which the operator knows its own last rendering."""
    replace_gap: float = 0.0
    """How long there is none, while DaemonSets under other names replace those that were."""

    async def apply(self, owner: Object, wanted: list[Object], *, orphan: bool = False) -> None:
        """Apply; with `orphan`, the pods of what is deleted stay, and have no owner."""
        names = {name_of(each): each for each in wanted}
        have = {name_of(each): each for each in self.world.daemonsets if is_owned_by(each, owner)}
        leftover = have.keys() - names.keys()
        for name in leftover:
            await self._delete(name, "Orphan" if orphan else "Background")
        if leftover and names.keys() - have.keys():
            await asyncio.sleep(self.replace_gap)
        for name, daemonset in names.items():
            if name not in have:
                await self._create(daemonset)
            elif self._hash(have[name]) != self._hash(daemonset):
                await self.api.patch(self._path(name), self._update(daemonset), JSON_PATCH)

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

    def _update(self, wanted: Object) -> list[Object]:
        """Build the patch from any rendering to this one."""
        key = self.hash_key.replace("/", "~1")
        return [
            {"op": "replace", "path": "/spec/template", "value": wanted["spec"]["template"]},
            {"op": "replace", "path": "/metadata/labels", "value": wanted["metadata"]["labels"]},
            {"op": "replace", "path": f"/metadata/annotations/{key}", "value": self._hash(wanted)},
        ]

    def _hash(self, daemonset: Object) -> str:
        return annotations_of(daemonset).get(self.hash_key, "")

    def _path(self, name: str | None = None) -> str:
        return path("apps/v1", "daemonsets", namespace=self.namespace, name=name)
