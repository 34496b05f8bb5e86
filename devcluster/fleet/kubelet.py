"""Watch the API server for everything that is bound to a simulated node, and let it live."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.client import ApiError, path
from devcluster.fleet import faults, settings
from devcluster.fleet.claims import ClaimLife
from devcluster.fleet.clients import DOMAINS, GPUS, HOLDS, NETWORK_PLUGINS, ClientLife
from devcluster.fleet.driver import DriverLife
from devcluster.fleet.life import Life, Place, say_if_it_broke
from devcluster.fleet.networkdriver import NetworkDriverLife
from devcluster.fleet.node import Node
from devcluster.fleet.operands import MigManagerLife, ToolkitLife
from devcluster.watching import follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from devcluster.client import Api
    from devcluster.fleet.stack import DriverPod
    from devcluster.journal import Journal
    from devcluster.watching import Event

Object = dict[str, Any]

log = logging.getLogger(__name__)

RULES, NOT_SERVED, KEEPS_OFF = path("resource.k8s.io/v1", "devicetaintrules"), 404, {"NoSchedule", "NoExecute"}
"""Where DeviceTaintRules are, from Kubernetes 1.37 on, and what those do that keep new claims off."""

RULE_EVENTS = {"ADDED": "devices-tainted", "DELETED": "devices-untainted"}
"""What the journal calls the beginning and the end of a rule; only its status changes in between."""

SIMULATED = "kwok.x-k8s.io/node"
"""The annotation that KWOK puts its nodes under. The system node has it, too, and real pods."""


LIVES: dict[str, type[Life]] = {
    "nvidia-driver-ctr": DriverLife,
    "mofed-container": NetworkDriverLife,
    "nvidia-container-toolkit-ctr": ToolkitLife,
    "nvidia-mig-manager": MigManagerLife,
    **dict.fromkeys((GPUS, DOMAINS, *sorted(NETWORK_PLUGINS)), ClientLife),
}
"""Which pods live which life, by a main container's name. Other pods that hold a driver are annotated, and pods with
claims have a life, too. KWOK plays all others (`devcluster/boot/pod-stages.yaml`)."""


def kind_of(pod: Object) -> type[Life] | None:
    """Return the life of a pod; None for one that KWOK plays."""
    for container in pod["spec"]["containers"]:
        if container["name"] in LIVES:
            return LIVES[container["name"]]
    if HOLDS in pod["metadata"].get("annotations", {}):
        return ClientLife
    return ClaimLife if pod["spec"].get("resourceClaims") else None


class Fleet:
    """All simulated nodes and the pods on them."""

    def __init__(self, api: Api, journal: Journal) -> None:
        self.api = api
        self.journal = journal
        self.settings = settings.Settings()
        self.nodes: dict[str, Node] = {}
        self.lives: dict[str, Life] = {}
        self.revisions: dict[str, dict[str, tuple[int, str]]] = {}
        """Revisions of all DaemonSets: owner's UID -> revision's UID -> number and hash."""
        self._early: dict[str, dict[str, Object]] = {}
        """Pods whose node has not been seen yet, by node and UID."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Simulate until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_settings())
            group.create_task(self._follow_nodes())
            group.create_task(self._follow_revisions())
            group.create_task(self._follow_pods())
            group.create_task(self._follow_taints())

    def is_current(self, driver: DriverPod) -> bool:
        """Return whether a driver pod is of its DaemonSet's newest revision."""
        revisions = self.revisions.get(driver.owner, {})
        return bool(revisions) and max(revisions.values())[1] == driver.hash

    async def _follow_settings(self) -> None:
        """Take over each edit of the settings' ConfigMap."""
        selector = {"fieldSelector": f"metadata.name={settings.CONFIG_MAP}"}
        async for event in self._watch(path("v1", "configmaps", namespace=settings.NAMESPACE), selector):
            text = "" if event.kind == "DELETED" else event.object.get("data", {}).get(settings.KEY, "")
            try:
                self.settings.take(text)
            except (TypeError, ValueError) as error:
                log.error("the settings stay as they were: %s", error)  # noqa: TRY400 - no traceback for a typo

    async def _follow_nodes(self) -> None:
        """Learn the nodes, and what is to happen to them."""
        async for event in self._watch(path("v1", "nodes"), {}):
            name = event.object["metadata"]["name"]
            if name == SYSTEM_NODE or SIMULATED not in event.object["metadata"].get("annotations", {}):
                continue
            if event.kind == "DELETED":
                self._lose_node(name)
            elif name in self.nodes:
                self._see_change(self.nodes[name], event.object)
            else:
                self._see_node(name, event.object)

    def _see_node(self, name: str, node: Object) -> None:
        known = Node(name, node["metadata"]["uid"], self.journal)
        known.update(node)
        self.nodes[name] = known
        for pod in self._early.pop(name, {}).values():
            self._see_pod(pod)

    def _lose_node(self, name: str) -> None:
        """Take a node away with all that ran on it; its pods' objects stay until they are collected."""
        node = self.nodes.pop(name, None)
        if node is not None:
            node.remove()
            for life in self._lives_on(node):
                life.vanish()

    def _see_change(self, node: Node, seen: Object) -> None:
        """Do what an annotation's new value asks for, once."""
        before, was_silent = node.annotations, node.silent
        node.update(seen)
        after = node.annotations
        if after.get(faults.REBOOT, "") not in {"", before.get(faults.REBOOT, "")}:
            self._spawn(self._reboot(node))
        if after.get(faults.RESTART_DRIVER_CONTAINER, "") not in {"", before.get(faults.RESTART_DRIVER_CONTAINER, "")}:
            for life in self._lives_on(node):
                if isinstance(life, DriverLife):
                    life.restart_container()
        if was_silent and not node.silent:
            for life in self._lives_on(node):
                self._reconcile(life)

    async def _reboot(self, node: Node) -> None:
        """Take the node down: same pods, all containers anew, another boot ID."""
        node.power_off()
        for life in self._lives_on(node):
            life.reboot()
        await asyncio.sleep(self.settings.vary(self.settings.reboot_seconds))
        await self.api.patch(
            path("v1", "nodes", name=node.name, subresource="status"),
            {"status": {"nodeInfo": {"bootID": str(uuid.uuid4())}}},
        )
        node.boot()

    async def _follow_revisions(self) -> None:
        """Know the newest revision of each DaemonSet."""
        async for event in self._watch(path("apps/v1", "controllerrevisions"), {}):
            meta = event.object["metadata"]
            owner = next((each["uid"] for each in meta.get("ownerReferences", [])), "")
            revisions = self.revisions.setdefault(owner, {})
            if event.kind == "DELETED":
                revisions.pop(meta["uid"], None)
            else:
                digest = meta.get("labels", {}).get("controller-revision-hash", "")
                revisions[meta["uid"]] = (event.object["revision"], digest)

    async def _follow_pods(self) -> None:
        """Start, change and end lives. Pods without a node are ignored."""
        async for event in self._watch(path("v1", "pods"), {"fieldSelector": "spec.nodeName!="}):
            uid, name = event.object["metadata"]["uid"], event.object["spec"]["nodeName"]
            if event.kind == "DELETED":
                self._early.get(name, {}).pop(uid, None)
                if uid in self.lives:
                    self.lives.pop(uid).vanish()
            elif name in self.nodes:
                self._see_pod(event.object)
            else:
                self._early.setdefault(name, {})[uid] = event.object

    async def _follow_taints(self) -> None:
        """Write into the journal which DeviceTaintRules keep new claims off a node's devices, where there are such."""
        try:
            await self.api.list(RULES)
        except ApiError as error:
            if error.code == NOT_SERVED:
                return
            raise
        async for event in self._watch(RULES, {}):
            spec = event.object["spec"]
            selector, effect = spec.get("deviceSelector", {}), spec["taint"]["effect"]
            written = RULE_EVENTS.get(event.kind)
            if written and selector.get("pool") and "device" not in selector and effect in KEEPS_OFF:
                uid, driver = event.object["metadata"]["uid"], selector.get("driver", "")
                self.journal.write(written, selector["pool"], stack="gpu", uid=uid, driver=driver)

    def _see_pod(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        life = self.lives.get(uid)
        if life is not None and life.gone:
            return
        if life is None:
            kind = kind_of(pod)
            if kind is None:
                return
            node = self.nodes[pod["spec"]["nodeName"]]
            life = self.lives[uid] = kind(Place(self.api, self.settings, node, self.is_current), pod)
            life.start()
        life.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            life.delete()
        else:
            self._reconcile(life)

    def _lives_on(self, node: Node) -> list[Life]:
        return [life for life in self.lives.values() if life.node is node]

    def _reconcile(self, life: Life) -> None:
        if life.mistaken_for_lost:
            self._spawn(life.assert_ready())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something next to the watches; asyncio keeps only weak references to tasks."""
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(say_if_it_broke)

    async def _watch(self, url_path: str, selectors: dict[str, str]) -> AsyncIterator[Event]:
        """Follow a collection; the lists' ends are of no interest here."""
        while True:
            try:
                async for event in follow(self.api, url_path, **selectors):
                    if event.kind != "SYNCED":
                        yield event
            except ApiError as error:
                log.warning("watching %s: %s", url_path, error)
                await asyncio.sleep(1.0)  # a control plane that is coming up refuses for a moment
