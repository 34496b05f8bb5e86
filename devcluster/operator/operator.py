"""Carry out ClusterPolicy, NVIDIADriver and GPUCluster: label nodes, render, and say late how that stands."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import age, annotations_of, is_owned_by, labels_of, name_of
from devcluster.controller.operator import Operator
from devcluster.controller.settings import OperatorSettings
from devcluster.operator import names as n
from devcluster.operator.nodes import DRA_OPERANDS, missing_metadata, operands_for, owner_of
from devcluster.operator.render import dra_plugin, operands, policy_drivers, pool_drivers
from devcluster.operator.status import is_pool_ready, is_ready

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]


class Settings(OperatorSettings, frozen=True, kw_only=True, rename="camel"):
    """The GPU operator's own: `simulate` of its chart's values.yaml explains each."""

    behaviour: str
    digest_salt: str
    broken_operand: bool


class GpuOperator(Operator):
    """The GPU operator, of 26.3 or of 26.7."""

    driver = "gpu"
    kinds = (n.POLICIES, n.DRIVERS, n.CLUSTERS)
    settings: Settings

    @property
    def is_modern(self) -> bool:
        """Whether this operator behaves as 26.7: it labels nodes with their NVIDIADriver, and waits for all of them."""
        return self.settings.behaviour == "26.7"

    async def reconcile(self) -> None:
        """Carry out the oldest policy, else the oldest GPUCluster. Others are ignored, and that is not written."""
        policy = min(self.all(n.POLICIES), key=age, default=None)
        cluster = min(self.all(n.CLUSTERS), key=age, default=None)
        drivers = sorted(self.all(n.DRIVERS), key=age)
        if policy is not None:
            if self._is_ours(policy):
                await self._carry_out_policy(policy)
                if policy["spec"]["driver"]["useNvidiaDriverCRD"]:
                    await self._carry_out_drivers(drivers)
        elif cluster is not None:
            await self._carry_out_cluster(cluster, drivers)
            await self._carry_out_drivers(drivers)

    def _is_ours(self, policy: Object) -> bool:
        """Leave a policy of another chart to its own operator, which is about to replace us.

        The real one does not know of this politeness. It mostly has no time to be impolite;
        where it has (`handoverSeconds`), nodes are rotated twice.
        """
        chart = policy["spec"]["daemonsets"]["labels"].get(n.CHART)
        return self.settings.handover_seconds > 0 or chart in {None, f"gpu-operator-{self.settings.version}"}

    async def _carry_out_policy(self, policy: Object) -> None:
        auto = policy["spec"]["driver"]["upgradePolicy"]["autoUpgrade"]
        await self._label_nodes(operands_for(policy, modern=self.is_modern), auto_upgrade=auto)
        salt = self.settings.digest_salt or self.settings.version
        wanted = [*policy_drivers(policy, self.nodes, salt), *operands(policy)]
        await self.apply(policy, wanted, orphan=policy["spec"]["driver"]["useNvidiaDriverCRD"])
        if self.is_due(policy):
            # Of drivers that it leaves to NVIDIADrivers it knows nothing.
            ready = not self.settings.broken_operand and all(map(self._is_ready, self.daemonsets_of(policy)))
            await self._report_state(n.POLICIES, policy, ready)

    def _is_ready(self, daemonset: Object) -> bool:
        pods = [pod for pod in self.pods if is_owned_by(pod, daemonset)]
        return is_ready(self.settings.behaviour, daemonset, pods, self.newest_hash(daemonset))

    async def _carry_out_drivers(self, drivers: list[Object]) -> None:
        """Assign the nodes to the driver objects, and carry each out on its own."""
        owners = {name_of(node): owner_of(node, drivers) for node in self.nodes}
        if self.is_modern:
            for node in self.nodes:
                owner = owners[name_of(node)]
                label = None if owner is None else name_of(owner)
                if labels_of(node).get(n.DRIVER_OWNER) != label:
                    await self.patch_node(node, {"labels": {n.DRIVER_OWNER: label}})
        await self._request_upgrades()
        for driver in drivers:
            mine = [node for node in self.nodes if owners[name_of(node)] is driver]
            # Unlike a ClusterPolicy's, its manifests do not depend on the operator's version.
            await self.apply(driver, pool_drivers(driver, mine, self.settings.digest_salt, modern=self.is_modern))
            # By the DaemonSets alone: a driver object without nodes has none and is ready.
            await self._report_state(n.DRIVERS, driver, all(map(is_pool_ready, self.daemonsets_of(driver))))

    async def _request_upgrades(self) -> None:
        """Ask for an upgrade of each node where a pod of a former DaemonSet keeps the new driver pod out."""
        drivers = (pod for pod in self.pods if labels_of(pod).get(n.COMPONENT) == n.DRIVER)
        held = {pod["spec"].get("nodeName") for pod in drivers if not pod["metadata"].get("ownerReferences")}
        for node in self.nodes:
            idle = labels_of(node).get(n.STATE, "") in {"", n.DONE}
            if name_of(node) in held and idle and n.REQUESTED not in annotations_of(node):
                await self.patch_node(node, {"annotations": {n.REQUESTED: "true"}})

    async def _carry_out_cluster(self, cluster: Object, drivers: Iterable[Object]) -> None:
        """Label the nodes, and render the plugin (26.7)."""
        # Whether nodes are upgraded automatically is each NVIDIADriver's affair here.
        auto = any(each["spec"].get("upgradePolicy", {}).get("autoUpgrade") for each in drivers)
        await self._label_nodes(DRA_OPERANDS, auto_upgrade=auto)
        await self.apply(cluster, [dra_plugin(cluster)])
        await self._report_state(n.CLUSTERS, cluster, all(map(is_pool_ready, self.daemonsets_of(cluster))))

    async def _label_nodes(self, deployed: tuple[str, ...], *, auto_upgrade: bool) -> None:
        missing = ((node, missing_metadata(node, auto_upgrade=auto_upgrade, operands=deployed)) for node in self.nodes)
        await asyncio.gather(*(self.patch_node(node, metadata) for node, metadata in missing))

    async def _report_state(self, kind: str, thing: Object, ready: bool) -> None:
        status = {"state": "ready" if ready else "notReady", "namespace": self.settings.namespace}
        await self.report(kind, thing, status)
