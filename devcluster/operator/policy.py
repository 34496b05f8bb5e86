"""The ClusterPolicy controller: labels nodes, renders the driver, and says late how that stands."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path
from devcluster.operator import names as n
from devcluster.operator.labels import is_gpu_node, missing_metadata
from devcluster.operator.readiness import is_ready
from devcluster.operator.render import applied_hash, daemonsets

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.operator.settings import Settings
    from devcluster.operator.world import World

Object = dict[str, Any]

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 1.0
"""The real controller looks again after 5 s while something is not ready."""

BETWEEN_WRITES_SECONDS = 0.05
"""State and conditions are two writes; in between they contradict each other."""

EXISTS = 409


class PolicyController:
    """Carries out one ClusterPolicy."""

    def __init__(self, api: Api, world: World, settings: Settings) -> None:
        self.api = api
        self.world = world
        self.settings = settings
        self._judged_generation: int | None = None

    async def run(self) -> None:
        """Reconcile on every change that the world tells of, and now and then."""
        while True:
            self.world.policy_changed.clear()
            policy = self.world.policy
            if policy is not None and self._is_ours(policy):
                try:
                    await self._reconcile(policy)
                except n.TROUBLE as error:
                    log.warning("policy: %r", error)
            try:
                await asyncio.wait_for(self.world.policy_changed.wait(), LOOK_AGAIN_SECONDS)
            except TimeoutError:
                continue

    def _is_ours(self, policy: Object) -> bool:
        """Leave a policy of another chart to its own operator, which is about to replace us.

        The real one does not know of this politeness. It mostly has no time to be impolite;
        where it has (`lingers`), nodes are rotated twice.
        """
        chart = policy["spec"].get("daemonsets", {}).get("labels", {}).get(n.CHART)
        return self.settings.lingers or chart in {None, self.settings.chart}

    async def _reconcile(self, policy: Object) -> None:
        await self._label_nodes(policy)
        await self._render(policy)
        generation = policy["metadata"]["generation"]
        if generation != self._judged_generation:
            await asyncio.sleep(self.settings.status_delay)
            self._judged_generation = generation
        await self._write_status(policy)

    async def _label_nodes(self, policy: Object) -> None:
        auto = policy["spec"]["driver"].get("upgradePolicy", {}).get("autoUpgrade", False)
        missing = {n.name_of(node): missing_metadata(node, auto_upgrade=auto) for node in self.world.nodes}
        await asyncio.gather(*(self._label(node, metadata) for node, metadata in missing.items() if metadata))

    async def _label(self, node: str, metadata: Object) -> None:
        self.world.node_mirror.put(await self.api.patch(f"{n.NODES}/{node}", {"metadata": metadata}))

    async def _render(self, policy: Object) -> None:
        """Create, update and replace the driver's DaemonSets."""
        wanted = {n.name_of(each): each for each in daemonsets(policy, self.world.nodes, self.settings)}
        have = {n.name_of(each): each for each in self.world.daemonsets}
        leftover = have.keys() - wanted.keys()
        for name in leftover:
            await self.api.delete(self._path(name), {"propagationPolicy": "Background"})
        if leftover and wanted.keys() - have.keys():
            await asyncio.sleep(self.settings.replace_gap)
        for name, daemonset in wanted.items():
            if name not in have:
                await self._create(daemonset)
            elif applied_hash(have[name]) != applied_hash(daemonset):
                await self.api.patch(self._path(name), _update(daemonset, have[name]))

    async def _create(self, daemonset: Object) -> None:
        """Create a DaemonSet; the mirror may not show yet that we did so a moment ago."""
        try:
            await self.api.create(self._path(), daemonset)
        except ApiError as error:
            if error.code != EXISTS:
                raise

    async def _write_status(self, policy: Object) -> None:
        """Write the state, and a moment later the conditions; nothing where both are right."""
        ready = self._is_ready()
        state = "ready" if ready else "notReady"
        status = policy.get("status", {})
        conditions = _conditions(status.get("conditions", []), ready=ready, gpus=self._any_gpu_node())
        if status.get("state") != state:
            await self._patch_status(policy, {"state": state, "namespace": self.settings.namespace})
            await asyncio.sleep(BETWEEN_WRITES_SECONDS)
        if status.get("conditions") != conditions:
            await self._patch_status(policy, {"conditions": conditions})

    async def _patch_status(self, policy: Object, status: Object) -> None:
        answer = await self.api.patch(f"{n.POLICIES}/{n.name_of(policy)}/status", {"status": status})
        self.world.put_policy(answer)

    def _is_ready(self) -> bool:
        if self.settings.broken_operand:
            return False
        return all(
            is_ready(self.settings.behaviour, each, self.world.pods_of(each), self.world.newest_hash(each))
            for each in self.world.daemonsets
        )

    def _any_gpu_node(self) -> bool:
        return any(is_gpu_node(node) for node in self.world.nodes)

    def _path(self, name: str | None = None) -> str:
        return path("apps/v1", "daemonsets", namespace=self.settings.namespace, name=name)


def _update(wanted: Object, have: Object) -> Object:
    """Build the merge patch from one rendering to the next: labels that went away are removed by null."""
    old = have["spec"]["template"]["metadata"]["labels"]
    new = wanted["spec"]["template"]["metadata"]["labels"]
    labels = dict.fromkeys(old.keys() - new.keys()) | new
    template = wanted["spec"]["template"] | {"metadata": {"labels": labels}}
    metadata = {key: wanted["metadata"][key] for key in ("labels", "annotations")}
    return {"metadata": metadata, "spec": {"template": template}}


def _conditions(before: list[Object], *, ready: bool, gpus: bool) -> list[Object]:
    """Spell Ready and Error as the real operator does; a condition's time moves with its status."""
    good = ("Reconciled", "ClusterPolicy is ready as all resources have been successfully reconciled")
    if not gpus:
        good = ("NoGPUNodes", "No GPU node found, watching for new nodes to join the cluster.")
    bad = "ClusterPolicy is not ready, states not ready: [state-driver]"
    wanted = [
        ("Ready", "True", *good) if ready else ("Ready", "False", "Error", ""),
        ("Error", "False", "Ready", "") if ready else ("Error", "True", "OperandNotReady", bad),
    ]
    times = {(each["type"], each["status"]): each["lastTransitionTime"] for each in before}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": times.get((kind, status), now),
        }
        for kind, status, reason, message in wanted
    ]
