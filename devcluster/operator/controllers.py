"""The controllers of ClusterPolicy, NVIDIADriver and GPUCluster: label nodes, render, and say late how that stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.controller.applier import Applier
from devcluster.controller.objects import annotations_of, is_owned_by, labels_of, name_of
from devcluster.controller.reconciler import Reconciler
from devcluster.operator import names as n
from devcluster.operator import status
from devcluster.operator.nodes import (
    DRA_OPERANDS,
    conflicts,
    is_gpu_node,
    missing_metadata,
    missing_owner,
    operands_for,
    owner_of,
)
from devcluster.operator.render import daemonsets, dra_plugin, operands, pool_daemonsets
from devcluster.operator.settings import Settings
from devcluster.operator.world import World

if TYPE_CHECKING:
    from devcluster.controller.world import Mirror
    from devcluster.operator.status import Verdict

Object = dict[str, Any]


class OperatorController(Reconciler[World, Settings]):
    """What the three have in common."""

    @property
    def mirror(self) -> Mirror:
        """The objects that it carries out."""
        raise NotImplementedError

    async def apply(self, owner: Object, wanted: list[Object], *, orphan: bool = False) -> None:
        """Make the DaemonSets of an object those that are wanted."""
        applier = Applier(self.api, self.world, self.settings.namespace, n.APPLIED_HASH, self.settings.replace_seconds)
        await applier.apply(owner, wanted, orphan=orphan)

    async def report(self, thing: Object, verdict: Verdict) -> None:
        """Write an object's status."""
        await status.StatusWriter(self.api, self.mirror, self.settings.namespace).write(thing, verdict)

    def daemonsets_of(self, owner: Object) -> list[Object]:
        """Return what is rendered for an object."""
        return [each for each in self.world.daemonsets if is_owned_by(each, owner)]


class PolicyController(OperatorController):
    """Carries out one ClusterPolicy."""

    @property
    def mirror(self) -> Mirror:
        """The ClusterPolicies."""
        return self.world.policy_mirror

    async def reconcile(self) -> None:
        """Carry out the policy, unless it is another operator's."""
        policy = self.world.policy
        if policy is None or not is_ours(policy, self.settings):
            return
        nodes = self.world.nodes
        await asyncio.gather(*(self.patch_node(node, self._missing(node, policy)) for node in nodes))
        wanted = daemonsets(policy, self.world.nodes, self.settings) + operands(policy, self.settings)
        await self.apply(policy, wanted, orphan=n.delegates(policy))
        await self.delay_status(policy)
        await self.report(policy, self._judge(policy))

    def _missing(self, node: Object, policy: Object) -> Object:
        limits = policy["spec"]["driver"].get("upgradePolicy", {})
        auto = limits.get("autoUpgrade", False) and not n.has_sandboxes(policy)
        labels = operands_for(node, policy, clients=self.settings.is_modern)
        return missing_metadata(node, auto_upgrade=auto, operands=labels)

    def _judge(self, policy: Object) -> Verdict:
        """Judge what is rendered for the policy; of delegated drivers only 26.7 knows anything."""
        behaviour = self.settings.behaviour
        ready = not self.settings.broken_operand and all(
            status.is_ready(behaviour, each, self.world.pods_of(each), self.world.newest_hash(each))
            for each in self.daemonsets_of(policy)
        )
        if n.delegates(policy) and self.settings.is_modern:
            owned = [node for node in self.world.nodes if owner_of(node, self.world.drivers) is not None]
            ready = ready and all(status.is_quiet(node) for node in owned)
        if not ready:
            return status.NOT_READY
        return status.READY if any(is_gpu_node(node) for node in self.world.nodes) else status.NO_GPU_NODES


class DriverController(OperatorController):
    """Carries out the NVIDIADrivers, where a ClusterPolicy leaves the driver to them or there is none."""

    @property
    def mirror(self) -> Mirror:
        """The NVIDIADrivers."""
        return self.world.driver_mirror

    async def reconcile(self) -> None:
        """Assign the nodes to the driver objects, and carry each out on its own."""
        policy, drivers = self.world.policy, self.world.drivers
        if policy is not None and not is_ours(policy, self.settings):
            return
        managed = n.delegates(policy) if policy is not None else bool(self.world.clusters)
        if not managed:
            for driver in drivers:
                await self.apply(driver, [])
                await self.report(driver, status.DISABLED)
        elif conflicts(drivers, self.world.nodes):
            for driver in drivers:
                await self.report(driver, status.CONFLICT)
        else:
            await self._assign(drivers)
            await self._request_upgrades()
            for driver in drivers:
                mine = [node for node in self.world.nodes if owner_of(node, drivers) is driver]
                await self.apply(driver, pool_daemonsets(driver, mine, self.settings))
                # By the DaemonSets alone: a driver object without nodes has none and is ready.
                ready = all(map(status.is_pool_ready, self.daemonsets_of(driver)))
                await self.report(driver, status.DRIVER_READY if ready else status.DRIVER_NOT_READY)

    async def _assign(self, drivers: list[Object]) -> None:
        """Label the nodes with their owners, as 26.7 does."""
        for node in self.world.nodes if self.settings.is_modern else ():
            owner = owner_of(node, drivers)
            await self.patch_node(node, missing_owner(node, None if owner is None else name_of(owner)))

    async def _request_upgrades(self) -> None:
        """Ask for an upgrade of each node where a pod of a former DaemonSet keeps the new driver pod out."""
        held = {pod["spec"].get("nodeName") for pod in self.world.orphans}
        for node in self.world.nodes:
            idle = labels_of(node).get(n.STATE, "") in {"", n.DONE}
            if name_of(node) in held and idle and n.REQUESTED not in annotations_of(node):
                await self.patch_node(node, {"annotations": {n.REQUESTED: "true"}})


class ClusterController(OperatorController):
    """Carries out one GPUCluster (26.7), with the DRA driver as an operand; ignored if there is a ClusterPolicy."""

    @property
    def mirror(self) -> Mirror:
        """The GPUClusters."""
        return self.world.cluster_mirror

    async def reconcile(self) -> None:
        """Label the nodes, and render the plugin."""
        cluster = next(iter(self.world.clusters), None)
        if cluster is None or self.world.policy is not None:
            return
        # Whether nodes are upgraded automatically is each NVIDIADriver's affair here.
        auto = any(each["spec"].get("upgradePolicy", {}).get("autoUpgrade") for each in self.world.drivers)
        for node in self.world.nodes:
            await self.patch_node(node, missing_metadata(node, auto_upgrade=auto, operands=DRA_OPERANDS))
        await self.apply(cluster, [dra_plugin(cluster, self.settings)])
        ready = all(map(status.is_pool_ready, self.daemonsets_of(cluster)))
        await self.report(cluster, status.CLUSTER_READY if ready else status.CLUSTER_NOT_READY)


def is_ours(policy: Object, settings: Settings) -> bool:
    """Leave a policy of another chart to its own operator, which is about to replace us.

    The real one does not know of this politeness. It mostly has no time to be impolite;
    where it has (`lingers`), nodes are rotated twice.
    """
    chart = policy["spec"].get("daemonsets", {}).get("labels", {}).get(n.CHART)
    return settings.old_operator_lingers or chart in {None, settings.chart}
