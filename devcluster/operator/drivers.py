"""The NVIDIADriver controller: many driver objects, each with the nodes that are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.applier import Applier
from devcluster.controller.loop import keep_reconciling
from devcluster.operator import names as n
from devcluster.operator.conditions import (
    CONFLICT,
    DISABLED,
    DRIVER_NOT_READY,
    DRIVER_READY,
    Scribe,
    Verdict,
)
from devcluster.operator.labels import missing_owner
from devcluster.operator.owners import conflicts, owner_of
from devcluster.operator.policy import LOOK_AGAIN_SECONDS, is_ours
from devcluster.operator.readiness import is_pool_ready
from devcluster.operator.render import pool_daemonsets

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.operator.settings import Settings
    from devcluster.operator.world import World

Object = dict[str, Any]


class DriverController:
    """Carries out the NVIDIADrivers, where a ClusterPolicy leaves the driver to them or there is none."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self.applier = Applier(api, world, settings.namespace, n.APPLIED_HASH, settings.replace_gap)
        self.scribe = Scribe(api, world.driver_mirror, settings.namespace)

    async def run(self) -> None:
        """Reconcile on every change of the world, and now and then."""
        await keep_reconciling(self.world.subscribe(), self._look, LOOK_AGAIN_SECONDS)

    async def _look(self) -> None:
        policy = self.world.policy
        if policy is None or is_ours(policy, self.settings):
            await self._reconcile(policy)

    async def _reconcile(self, policy: Object | None) -> None:
        drivers = self.world.drivers
        managed = n.delegates(policy) if policy is not None else bool(self.world.clusters)
        if not managed:
            for driver in drivers:
                await self.applier.apply(driver, [])
                await self.scribe.write(driver, DISABLED)
        elif conflicts(drivers, self.world.nodes):
            for driver in drivers:
                await self.scribe.write(driver, CONFLICT)
        else:
            await self._assign(drivers)
            await self._request_upgrades()
            for driver in drivers:
                mine = [node for node in self.world.nodes if owner_of(node, drivers) is driver]
                await self.applier.apply(driver, pool_daemonsets(driver, mine, self.settings))
                await self.scribe.write(driver, self._judge(driver))

    async def _assign(self, drivers: list[Object]) -> None:
        """Label the nodes with their owners, as 26.7 does."""
        if not self.settings.is_modern:
            return
        for node in self.world.nodes:
            owner = owner_of(node, drivers)
            if metadata := missing_owner(node, None if owner is None else n.name_of(owner)):
                url_path = f"{n.NODES}/{n.name_of(node)}"
                self.world.node_mirror.put(await self.api.patch(url_path, {"metadata": metadata}))

    async def _request_upgrades(self) -> None:
        """Ask for an upgrade of each node where a pod of a former DaemonSet keeps the new driver pod out."""
        held = {pod["spec"].get("nodeName") for pod in self.world.orphans}
        for node in self.world.nodes:
            idle = n.labels_of(node).get(n.STATE, "") in {"", n.DONE}
            if n.name_of(node) in held and idle and n.REQUESTED not in n.annotations_of(node):
                url_path = f"{n.NODES}/{n.name_of(node)}"
                patch = {"metadata": {"annotations": {n.REQUESTED: "true"}}}
                self.world.node_mirror.put(await self.api.patch(url_path, patch))

    def _judge(self, driver: Object) -> Verdict:
        """Judge by the DaemonSets alone; a driver object without nodes has none and is ready."""
        mine = [each for each in self.world.daemonsets if n.is_owned_by(each, driver)]
        return DRIVER_READY if all(is_pool_ready(each) for each in mine) else DRIVER_NOT_READY
