"""The GPUCluster controller (26.7): the DRA driver as an operand of the operator's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.applier import Applier
from devcluster.controller.loop import keep_reconciling
from devcluster.operator import names as n
from devcluster.operator.conditions import CLUSTER_NOT_READY, CLUSTER_READY, Scribe
from devcluster.operator.labels import DRA_OPERANDS, missing_metadata
from devcluster.operator.operands import dra_plugin
from devcluster.operator.policy import LOOK_AGAIN_SECONDS
from devcluster.operator.readiness import is_pool_ready

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.operator.settings import Settings
    from devcluster.operator.world import World

Object = dict[str, Any]


class ClusterController:
    """Carries out one GPUCluster; it is ignored if there is a ClusterPolicy."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self.applier = Applier(api, world, settings.namespace, n.APPLIED_HASH, settings.replace_gap)
        self.scribe = Scribe(api, world.cluster_mirror, settings.namespace)

    async def run(self) -> None:
        """Reconcile on every change of the world, and now and then."""
        await keep_reconciling(self.world.subscribe(), self._look, LOOK_AGAIN_SECONDS)

    async def _look(self) -> None:
        cluster = next(iter(self.world.clusters), None)
        if cluster is not None and self.world.policy is None:
            await self._reconcile(cluster)

    async def _reconcile(self, cluster: Object) -> None:
        for node in self.world.nodes:
            # Whether nodes are upgraded automatically is each NVIDIADriver's affair here.
            auto = any(each["spec"].get("upgradePolicy", {}).get("autoUpgrade") for each in self.world.drivers)
            if metadata := missing_metadata(node, auto_upgrade=auto, operands=DRA_OPERANDS):
                answer = await self.api.patch(f"{n.NODES}/{n.name_of(node)}", {"metadata": metadata})
                self.world.node_mirror.put(answer)
        await self.applier.apply(cluster, [dra_plugin(cluster, self.settings)])
        mine = [each for each in self.world.daemonsets if n.is_owned_by(each, cluster)]
        ready = all(is_pool_ready(each) for each in mine)
        await self.scribe.write(cluster, CLUSTER_READY if ready else CLUSTER_NOT_READY)
