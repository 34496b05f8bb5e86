"""The NicClusterPolicy controller: renders the driver and the device plugins, and says how that stands."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path
from devcluster.controller.applier import EXISTS, Applier
from devcluster.controller.objects import name_of
from devcluster.controller.reconciler import Reconciler
from devcluster.networkoperator import names as n
from devcluster.networkoperator.render import NotPrecompiledError, daemonsets, init_config
from devcluster.networkoperator.settings import Settings
from devcluster.networkoperator.status import IGNORE, applied_states, is_driver_ready, overall, wait_labels
from devcluster.networkoperator.world import World

if TYPE_CHECKING:
    from devcluster.client import Api

Object = dict[str, Any]


class PolicyController(Reconciler[World, Settings]):
    """Carries out the one NicClusterPolicy that counts."""

    look_again_seconds = 0.5

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        super().__init__(api, world, settings)
        self.applier = Applier(api, world, settings.namespace, n.REVISION)
        self._unready_since: dict[str, float] = {}
        """Since when we see a driver pod not ready, by its UID."""

    async def reconcile(self) -> None:
        """Carry out the policy, and label the nodes whose device plugins have to wait."""
        for other in self.world.policies:
            if name_of(other) != n.POLICY:
                reason = f"Unsupported NicClusterPolicy instance {name_of(other)}."
                await self._write_status(other, {"state": IGNORE, "reason": reason})
        policy = self.world.policy
        if policy is not None:
            await self._carry_out(policy)
        wanted = policy is not None and policy["spec"].get("ofedDriver") is not None
        labels = wait_labels(self.world.nodes, wanted, self._drivers())
        nodes = [node for node in self.world.nodes if name_of(node) in labels]
        await asyncio.gather(*(self.patch_node(node, {"labels": {n.WAIT: labels[name_of(node)]}}) for node in nodes))

    async def _carry_out(self, policy: Object) -> None:
        trouble = ""
        if policy["spec"].get("ofedDriver") is not None:
            await self._configure_init_container(policy)
        try:
            await self.applier.apply(policy, daemonsets(policy, self.world.nodes, self.settings))
        except NotPrecompiledError as error:
            trouble = str(error)
        await self.delay_status(policy)
        states = applied_states(policy, self.world.daemonsets, trouble)
        await self._write_status(policy, {"state": overall(states), "appliedStates": states})

    async def _configure_init_container(self, policy: Object) -> None:
        data = {n.INIT_CONFIG_KEY: json.dumps(init_config(policy))}
        url_path = path("v1", "configmaps", namespace=self.settings.namespace)
        try:
            await self.api.create(url_path, {"metadata": {"name": n.INIT_CONFIG}, "data": data})
        except ApiError as error:
            if error.code != EXISTS:
                raise
            await self.api.patch(f"{url_path}/{n.INIT_CONFIG}", {"data": data})

    def _drivers(self) -> dict[str, bool]:
        """Return by node whether its driver is ready, as far as we have noticed yet."""
        now = time.monotonic()
        pods = {pod["metadata"]["uid"]: pod for pod in self.world.driver_pods if pod["spec"].get("nodeName")}
        unready = {uid for uid, pod in pods.items() if not is_driver_ready(pod)}
        self._unready_since = {uid: self._unready_since.get(uid, now) for uid in unready}
        drivers: dict[str, bool] = {}
        for uid, pod in pods.items():
            noticed = uid in unready and now - self._unready_since[uid] >= self.settings.wait_label_seconds
            if uid not in unready or noticed:
                drivers[pod["spec"]["nodeName"]] = uid not in unready
        return drivers

    async def _write_status(self, policy: Object, status: Object) -> None:
        """Write the status where it is not that already."""
        have = policy.get("status", {})
        if any(have.get(key) != value for key, value in status.items()):
            url_path = f"{n.POLICIES}/{name_of(policy)}/status"
            self.world.policy_mirror.put(await self.api.patch(url_path, {"status": status}))
