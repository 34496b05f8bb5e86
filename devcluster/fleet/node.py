"""One node: its drivers, what the API says of it, which faults it has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from devcluster.fleet import faults
from devcluster.fleet.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from devcluster.journal import Journal

Object = dict[str, Any]

NFD_NIC = "feature.node.kubernetes.io/pci-15b3.present"
"""Node feature discovery's label for a network card of NVIDIA."""

INBOX = "inbox"
"""The version of the network driver that comes with the operating system."""


@dataclass(slots=True)
class Node:
    """The state of one node. A task that changes it calls `touch`, which wakes those who wait."""

    name: str
    uid: str
    journal: Journal
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    gpu: Stack = field(init=False)
    nic: Stack = field(init=False)
    pods: dict[str, frozenset[str]] = field(default_factory=dict)
    """The pods by UID, with the keys of the labels that their templates select nodes by. KWOK's have no such labels."""
    draining: set[str] = field(default_factory=set)
    """Labels that k8s-driver-manager pauses now: pods that were placed by one of them go because of that."""
    down: bool = False
    """While it reboots."""
    lost: bool = False
    """From an outage's beginning until the API server says that the node is Ready again."""
    _status: tuple[bool, bool] | None = None
    """Whether the API said last that it is Ready, and that it is cordoned."""
    _booted_nic: bool = False
    _version: int = 0
    _pulse: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gpu = Stack("gpu", self.name, self.journal, self.touch)
        self.nic = Stack("network", self.name, self.journal, self.touch)

    def update(self, node: Object) -> None:
        """Take over what the API says about the node; the answer to our own write may come before older news."""
        version = int(node["metadata"].get("resourceVersion", 0))
        if version < self._version:
            return
        self._version = version
        self.annotations = node["metadata"].get("annotations", {})
        self.labels = node["metadata"].get("labels", {})
        self._load_inbox_driver()
        self._note_status(node)
        outage = self.labels.get(faults.OUTAGE) == "true"
        if outage and not self.lost:
            self.lost = True
            self.journal.write("node-outage", self.name)
        elif self.lost and not outage and _is_ready(node):
            self.lost = False
            self.journal.write("node-back", self.name)
        self.touch()

    def _note_status(self, node: Object) -> None:
        """Write into the journal whether new pods can come; a node that has just joined has no conditions."""
        if "conditions" not in node.get("status", {}) or self.gpu.closed:
            return
        ready, cordoned = seen = _is_ready(node), bool(node["spec"].get("unschedulable"))
        if seen != self._status:
            self._status = seen
            self.journal.write("node-status", self.name, node_ready=ready, cordoned=cordoned)

    def touch(self) -> None:
        """Wake everyone who waits for something on this node."""
        self._pulse.set()
        self._pulse = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something about this node."""
        while not condition():
            await self._pulse.wait()

    @property
    def silent(self) -> bool:
        """Whether its kubelet cannot be heard: an outage or a reboot."""
        return self.down or self.lost

    async def online(self) -> None:
        """Wait until its kubelet can talk to the API server."""
        await self.until(lambda: not self.silent)

    def admit(self, uid: str, selected_by: Iterable[str]) -> None:
        """Let a pod come that was placed by these labels."""
        self.pods[uid] = frozenset(selected_by)

    def dismiss(self, uid: str) -> None:
        """Let a pod go."""
        self.pods.pop(uid, None)
        self.touch()

    def has_pods_selected_by(self, keys: set[str]) -> bool:
        """Return whether a pod is here that was placed by one of these labels."""
        return any(not keys.isdisjoint(selected_by) for selected_by in self.pods.values())

    def remove(self) -> None:
        """Leave the cluster for good: what ends here from now on has no cause on the node."""
        self.journal.write("node-removed", self.name)
        self.gpu.closed = self.nic.closed = True

    def power_off(self) -> None:
        """Go down: the drivers and everybody's hold on them are lost."""
        self.down = True
        self._booted_nic = False
        self.gpu.lose()
        self.nic.lose()
        self.journal.write("reboot", self.name)
        self.touch()

    def boot(self) -> None:
        """Come up with what the operating system loads by itself: a driver for the network card, none for GPUs."""
        self.down = False
        self._load_inbox_driver()
        self.touch()

    def _load_inbox_driver(self) -> None:
        """Find the network card; its driver is there before any pod is, and until one replaces it."""
        if self.labels.get(NFD_NIC) == "true" and not self.down and not self._booted_nic:
            self._booted_nic = True
            self.nic.load(INBOX)


def _is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
