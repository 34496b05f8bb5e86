"""One kind of driver on one node: what is loaded, whose pod is Ready, who holds it. This is the ground truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.journal import Journal


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
    resource_driver: str
    """The DRA driver that it registers, such as gpu.nvidia.com; empty for what registers none."""
    toolkit: int
    """The container toolkit's installation that it started after."""
    mig: int
    """The MIG reconfiguration that it started after."""
    version: str


@dataclass(slots=True)
class Stack:
    """The state of one driver stack on a node. Each change wakes those who wait for something there."""

    name: str
    """``gpu`` or ``network``: how the journal tells them apart."""
    node: str
    journal: Journal
    wake: Callable[[], None]
    loaded: Driver | None = None
    ready_driver: DriverPod | None = None
    holders: dict[str, Held] = field(default_factory=dict)
    """Running plugins, by pod UID."""
    loads: int = 0
    toolkit: int = 0
    """Grows with each installation of the container toolkit on this node; 0 where there is none."""
    mig: int = 0
    """Grows with each MIG reconfiguration on this node."""
    layout: str = ""
    """The MIG layout that was applied last, whole."""

    closed: bool = False
    """The node is no more, and nothing is written about it."""

    def write(self, event: str, **details: object) -> None:
        """Write about this stack into the journal."""
        if not self.closed:
            self.journal.write(event, self.node, stack=self.name, **details)

    def unload(self) -> None:
        """Lose the driver: unloaded, or its root file system unmounted."""
        if self.loaded is not None:
            self.loaded = None
            self.write("driver-unloaded")
            self.wake()

    def load(self, version: str, digest: str = "") -> None:
        """Load a driver, or mount the loaded one's root file system anew."""
        self.loads += 1
        self.loaded = Driver(self.loads, version, digest)
        self.write("driver-loaded", load=self.loads, version=version)
        self.wake()

    def set_ready_driver(self, pod: DriverPod | None) -> None:
        """Take over which driver pod is Ready now."""
        self.ready_driver = pod
        self.wake()

    def hold(self, uid: str, held: Held) -> None:
        """Let a plugin start on what is loaded."""
        self.holders[uid] = held
        self.wake()

    def release(self, uid: str) -> None:
        """Let a plugin end."""
        self.holders.pop(uid, None)
        self.wake()

    def install_toolkit(self, uid: str) -> None:
        """Let the container toolkit write its files anew; what started before knows the old ones."""
        self.toolkit += 1
        self.write("toolkit-ready", uid=uid, toolkit=self.toolkit)
        self.wake()

    def apply_layout(self, layout: str) -> None:
        """Let the MIG manager change the devices; what started before knows the old ones."""
        self.mig += 1
        self.layout = layout
        self.write("mig-reconfigured", mig=self.mig)
        self.wake()

    def is_stale(self, held: Held) -> bool:
        """Return whether a plugin holds something else than what is loaded and installed."""
        if self.loaded is None or held.load != self.loaded.load:
            return True
        return held.toolkit != self.toolkit or held.mig != self.mig

    def lose(self) -> None:
        """Lose the driver and everybody's hold on it with the node's power."""
        self.loaded = self.ready_driver = None
        self.holders.clear()
