"""The upgrade controller: carries out the state machine, and is slow to notice."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from devcluster.client import path
from devcluster.controller.objects import NODES, TROUBLE, labels_of, name_of
from devcluster.controller.upgrade import Change, Flow, Seat, advance

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.controller.settings import OperatorSettings
    from devcluster.controller.world import DriverWorld

Object = dict[str, Any]

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""After a pass that could not be made; the real queue backs off from milliseconds to minutes."""


class IncompleteError(Exception):
    """A DaemonSet has not the pods that it should have: the real controller freezes then, all of it."""


class RotationController:
    """Moves nodes through the upgrade, by their labels."""

    def __init__(self, api: Api, world: DriverWorld, settings: OperatorSettings, flow: Flow) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self.flow = flow
        self.keys = flow.keys

    async def run(self) -> None:
        """Pass over the nodes when something wakes us, or when the requeue is due."""
        while True:
            self.world.rotation_due.clear()
            patience = self.settings.requeue
            try:
                await self._pass()
            except IncompleteError as error:
                log.info("%s", error)
                patience = RETRY_SECONDS
            except TROUBLE as error:
                log.warning("upgrade: %r", error)
                patience = RETRY_SECONDS
            await asyncio.sleep(self.settings.step)
            try:
                await asyncio.wait_for(self.world.rotation_due.wait(), patience)
            except TimeoutError:
                continue

    async def _pass(self) -> None:
        for nodes, limits in self.world.rotations:
            if limits.get("autoUpgrade", False):
                await self._advance(nodes, limits)
            else:
                await self._forget(nodes)

    async def _advance(self, nodes: list[Object], limits: Object) -> None:
        """Move these nodes within these limits."""
        names = {name_of(node) for node in nodes}
        seats = [seat for seat in self._seats() if seat.name in names]
        changes = advance(seats, limits, self.settings.failed_restarts, self.flow)
        await asyncio.gather(*(self._carry_out(change) for change in changes))

    async def _forget(self, nodes: list[Object]) -> None:
        """Take the labels off: nobody upgrades these nodes automatically."""
        for node in nodes:
            if self.keys.state in labels_of(node):
                await self._patch(name_of(node), {"metadata": {"labels": {self.keys.state: None}}})

    def _seats(self) -> list[Seat]:
        """Pair nodes with their driver pods; refuse while a DaemonSet's pods are not all there.

        A pod that nobody owns any more takes its node's seat: it must go before another can come.
        The real one passes over a pod that is not bound yet, and so may begin with another node, by luck. Luck
        makes no good test: a pod that no orphan keeps out is waited for.
        """
        nodes = {name_of(node): node for node in self.world.nodes}
        seats = {}
        for daemonset in self.world.driver_daemonsets:
            pods = [pod for pod in self.world.pods_of(daemonset) if pod["spec"].get("nodeName") or self.world.orphans]
            desired = daemonset.get("status", {}).get("desiredNumberScheduled", 0)
            if len(pods) != desired:
                raise IncompleteError(f"{name_of(daemonset)} has {len(pods)} of {desired} pods")
            newest = self.world.newest_hash(daemonset)
            for pod in pods:
                name = pod["spec"].get("nodeName", "")
                if name in nodes:
                    seats[name] = Seat(nodes[name], pod, newest, self.keys)
        for pod in self.world.orphans:
            name = pod["spec"].get("nodeName", "")
            if name in nodes:
                seats[name] = Seat(nodes[name], pod, "", self.keys)
        return [seats[name] for name in nodes if name in seats]

    async def _carry_out(self, change: Change) -> None:
        patch: Object = {}
        if change.state is not None:
            log.info("node %s: %s", change.node, change.state)
            patch["metadata"] = {"labels": {self.keys.state: change.state}}
        annotations: dict[str, str | None] = {}
        if change.remember_cordon is not None:
            annotations[self.keys.initially_cordoned] = "true" if change.remember_cordon else None
        if change.let_load:
            annotations[self.keys.safe_load] = None
        if annotations:
            patch.setdefault("metadata", {})["annotations"] = annotations
        if change.cordon is not None:
            patch["spec"] = {"unschedulable": True if change.cordon else None}
        if patch:
            await self._patch(change.node, patch)
        if change.delete_pod is not None:
            await self._delete(change.delete_pod)

    async def _patch(self, node: str, patch: Object) -> None:
        self.world.node_mirror.put(await self.api.patch(f"{NODES}/{node}", patch))

    async def _delete(self, pod: Object) -> None:
        meta = pod["metadata"]
        url_path = path("v1", "pods", namespace=meta["namespace"], name=meta["name"])
        await self.api.delete(url_path, {"preconditions": {"uid": meta["uid"]}})
