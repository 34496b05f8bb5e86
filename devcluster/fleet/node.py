"""One GPU node: which driver is loaded, who holds it, which faults it has. This is the ground truth."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devcluster.fleet import knobs as k

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.fleet.journal import Journal

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Driver:
    """What is loaded: the kernel driver together with its mounted root file system."""

    load: int
    """Grows with each load or remount on this node; a plugin that started on another one is stale."""
    version: str
    digest: str
    """DRIVER_CONFIG_DIGEST of the pod that loaded it; an equal one makes the driver-manager reuse it."""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """The node's Ready driver pod."""

    uid: str
    owner: str
    """UID of its DaemonSet."""
    hash: str


@dataclass(frozen=True, slots=True)
class Held:
    """A running plugin and the driver that it started on."""

    load: int
    version: str
    resource_driver: str
    """The DRA driver that it registers, such as gpu.nvidia.com; empty for what registers none."""
    toolkit: int = 0
    """The container toolkit's installation that it started after."""


@dataclass(slots=True)
class Node:
    """The state of one node. Whoever changes it calls `touch`, which wakes those who wait."""

    name: str
    uid: str
    journal: Journal
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    loaded: Driver | None = None
    ready_driver: DriverPod | None = None
    holders: dict[str, Held] = field(default_factory=dict)
    """Running plugins, by pod UID."""
    tenants: dict[str, frozenset[str]] = field(default_factory=dict)
    """All pods by UID, with the keys of the labels that their templates select nodes by."""
    draining: set[str] = field(default_factory=set)
    """Labels that k8s-driver-manager pauses now: pods that were placed by one of them go because of that."""
    loads: int = 0
    toolkit: int = 0
    """Grows with each installation of the container toolkit on this node; 0 where there is none."""
    down: bool = False
    """While it reboots."""
    lost: bool = False
    """From an outage's beginning until the API server says that the node is Ready again."""
    removed: bool = False
    """Its object was deleted: what ends on it from now on is nobody's doing."""
    _version: int = 0
    _pulse: asyncio.Event = field(default_factory=asyncio.Event)

    def update(self, node: Object) -> None:
        """Take over what the API says about the node; the answer to our own write may come before older news."""
        version = int(node["metadata"].get("resourceVersion", 0))
        if version < self._version:
            return
        self._version = version
        self.annotations = node["metadata"].get("annotations", {})
        self.labels = node["metadata"].get("labels", {})
        outage = self.fault(k.OUTAGE) == "true"
        if outage and not self.lost:
            self.lost = True
            self.journal.write("node-outage", self.name)
        elif self.lost and not outage and _is_ready(node):
            self.lost = False
            self.journal.write("node-back", self.name)
        self.touch()

    def touch(self) -> None:
        """Wake everyone who waits for something on this node."""
        self._pulse.set()
        self._pulse = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something about this node."""
        while not condition():
            await self._pulse.wait()

    def fault(self, annotation: str) -> str:
        """Return the fault that somebody asked for, or nothing."""
        return self.annotations.get(annotation, "")

    @property
    def silent(self) -> bool:
        """Whether its kubelet cannot be heard: an outage or a reboot."""
        return self.down or self.lost

    async def online(self) -> None:
        """Wait until its kubelet can talk to the API server."""
        await self.until(lambda: not self.silent)

    def admit(self, uid: str, selected_by: frozenset[str]) -> None:
        """Let a pod come."""
        self.tenants[uid] = selected_by

    def dismiss(self, uid: str) -> None:
        """Let a pod go."""
        self.tenants.pop(uid, None)
        self.touch()

    def houses(self, keys: set[str]) -> bool:
        """Tell whether a pod is here that was placed by one of these labels."""
        return any(not keys.isdisjoint(selected_by) for selected_by in self.tenants.values())

    def unload(self) -> None:
        """Lose the driver: unloaded, or its root file system unmounted."""
        if self.loaded is not None:
            self.loaded = None
            self.journal.write("driver-unloaded", self.name)
            self.touch()

    def load(self, version: str, digest: str) -> None:
        """Load a driver, or mount the loaded one's root file system anew."""
        self.loads += 1
        self.loaded = Driver(self.loads, version, digest)
        self.journal.write("driver-loaded", self.name, load=self.loads, version=version)
        self.touch()

    def set_ready_driver(self, pod: DriverPod | None) -> None:
        """Say which driver pod is Ready now."""
        self.ready_driver = pod
        self.touch()

    def hold(self, uid: str, held: Held) -> None:
        """Let a plugin start on what is loaded."""
        self.holders[uid] = held
        self.touch()

    def release(self, uid: str) -> None:
        """Let a plugin end."""
        self.holders.pop(uid, None)
        self.touch()

    def install_toolkit(self, uid: str) -> None:
        """Let the container toolkit write its files anew; what started before knows the old ones."""
        self.toolkit += 1
        self.journal.write("toolkit-ready", self.name, uid=uid, toolkit=self.toolkit)
        self.touch()

    def is_stale(self, held: Held) -> bool:
        """Tell whether a plugin holds something else than what is loaded and installed."""
        return self.loaded is None or held.load != self.loaded.load or held.toolkit != self.toolkit

    def remove(self) -> None:
        """Leave the cluster for good."""
        self.removed = True
        self.journal.write("node-removed", self.name)

    def power_off(self) -> None:
        """Go down: the driver and everybody's hold on it are lost."""
        self.down = True
        self.loaded = self.ready_driver = None
        self.holders.clear()
        self.journal.write("reboot", self.name)
        self.touch()


def _is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
