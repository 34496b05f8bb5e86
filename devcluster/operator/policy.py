"""The ClusterPolicy controller: labels nodes, renders the driver, and says late how that stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.controller.applier import Applier
from devcluster.controller.loop import keep_reconciling
from devcluster.operator import names as n
from devcluster.operator.conditions import NO_GPU_NODES, NOT_READY, READY, Scribe, Verdict
from devcluster.operator.labels import is_gpu_node, missing_metadata, operands_for
from devcluster.operator.operands import operands
from devcluster.operator.owners import owner_of
from devcluster.operator.readiness import is_quiet, is_ready
from devcluster.operator.render import daemonsets

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.operator.settings import Settings
    from devcluster.operator.world import World

Object = dict[str, Any]

LOOK_AGAIN_SECONDS = 1.0
"""The real controller looks again after 5 s while something is not ready."""


class PolicyController:
    """Carries out one ClusterPolicy."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self.applier = Applier(api, world, settings.namespace, n.APPLIED_HASH, settings.replace_gap)
        self.scribe = Scribe(api, world.policy_mirror, settings.namespace)
        self._judged_generation: int | None = None

    async def run(self) -> None:
        """Reconcile on every change of the world, and now and then."""
        await keep_reconciling(self.world.subscribe(), self._look, LOOK_AGAIN_SECONDS)

    async def _look(self) -> None:
        policy = self.world.policy
        if policy is not None and is_ours(policy, self.settings):
            await self._reconcile(policy)

    async def _reconcile(self, policy: Object) -> None:
        await self._label_nodes(policy)
        wanted = daemonsets(policy, self.world.nodes, self.settings)
        wanted += operands(policy, self.settings)
        await self.applier.apply(policy, wanted, orphan=n.delegates(policy))
        generation = policy["metadata"]["generation"]
        if generation != self._judged_generation:
            await asyncio.sleep(self.settings.status_delay)
            self._judged_generation = generation
        await self.scribe.write(policy, self._judge(policy))

    async def _label_nodes(self, policy: Object) -> None:
        missing = {n.name_of(node): self._missing(node, policy) for node in self.world.nodes}
        await asyncio.gather(*(self._label(node, metadata) for node, metadata in missing.items() if metadata))

    def _missing(self, node: Object, policy: Object) -> Object:
        limits = policy["spec"]["driver"].get("upgradePolicy", {})
        auto = limits.get("autoUpgrade", False) and not n.has_sandboxes(policy)
        labels = operands_for(node, policy, clients=self.settings.is_modern)
        return missing_metadata(node, auto_upgrade=auto, operands=labels)

    async def _label(self, node: str, metadata: Object) -> None:
        self.world.node_mirror.put(await self.api.patch(f"{n.NODES}/{node}", {"metadata": metadata}))

    def _judge(self, policy: Object) -> Verdict:
        """Judge what is rendered for the policy; of delegated drivers only 26.7 knows anything."""
        mine = [each for each in self.world.daemonsets if n.is_owned_by(each, policy)]
        behaviour = self.settings.behaviour
        ready = not self.settings.broken_operand and all(
            is_ready(behaviour, each, self.world.pods_of(each), self.world.newest_hash(each)) for each in mine
        )
        if n.delegates(policy) and self.settings.is_modern:
            owned = [node for node in self.world.nodes if owner_of(node, self.world.drivers) is not None]
            ready = ready and all(is_quiet(node) for node in owned)
        if not ready:
            return NOT_READY
        return READY if any(is_gpu_node(node) for node in self.world.nodes) else NO_GPU_NODES


def is_ours(policy: Object, settings: Settings) -> bool:
    """Leave a policy of another chart to its own operator, which is about to replace us.

    The real one does not know of this politeness. It mostly has no time to be impolite;
    where it has (`lingers`), nodes are rotated twice.
    """
    chart = policy["spec"].get("daemonsets", {}).get("labels", {}).get(n.CHART)
    return settings.lingers or chart in {None, settings.chart}
