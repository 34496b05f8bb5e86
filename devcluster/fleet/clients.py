"""The lives of pods that hold a driver: DRA kubelet plugins, network device plugins, and plain ones such as exporters.

Each starts on what is loaded and never looks again. The init container of a plugin is content with any driver, the old
one or the operating system's. A plain one has nothing that waits: where no driver is loaded, it crashes and is
restarted until there is one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.fleet import faults
from devcluster.fleet.life import Life
from devcluster.fleet.slices import COMPUTE_DOMAINS, Devices
from devcluster.fleet.stack import Held
from devcluster.fleet.status import CRASH_LOOP, CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver, Stack

HOLDS, THE_DRIVER = "devcluster/holds", "driver"
"""Pod annotation that makes any pod one that holds the driver."""

NETWORK_PLUGINS = {"rdma-shared-dp", "kube-sriovdp"}
"""The main containers of the RDMA shared and the SR-IOV device plugin, under any DaemonSet's name."""

THE_NETWORK_DRIVER = "network-driver"
"""The value of the annotation that makes any pod one that holds this driver."""

INITS, MAINS = {"init-container", "driver-validation"}, {"gpus", "compute-domains"}
"""The names of the containers, which tell a plugin under any DaemonSet's name: the chart's, and the operator's own."""

GPUS, DOMAINS = "gpus", "compute-domains"
"""The containers that publish GPUs and compute domains."""

RESOURCE_DRIVER_ANNOTATION = "devcluster/dra-driver"
"""Pod annotation: register under another name, so that two plugins on a node do not fight."""

DEVICES_ANNOTATION = "devcluster/devices"
"""Pod annotation: what the plugin publishes, one of `Devices`."""

RESOURCE_DRIVER = "gpu.nvidia.com"


class DriverClientLife(Life):
    """The main containers hold the driver that is loaded when they start."""

    @property
    def stack(self) -> Stack:
        """The driver that it holds: the GPUs'."""
        return self.node.gpu

    @property
    def resource_driver(self) -> str:
        """The DRA driver's name that it registers, if it does."""
        return ""

    async def live(self) -> None:
        """Start on a driver, and be Ready a moment later."""
        await self.accept()
        for init in self.status.inits:
            init.run()
            init.end()
        driver = await self.take_driver()
        await self.turn_ready(driver)

    async def wait_for_a_driver(self) -> None:
        """Run the init containers, which look for a driver now and then. An old one does as well as a new one."""
        for init in self.status.inits:
            init.run()
        await self.report()
        while self.stack.loaded is None:  # noqa: ASYNC110 - polling is what the real ones do
            await asyncio.sleep(self.settings.plugin_init_poll_seconds)
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.wait(CREATING)
        await self.report()

    async def take_driver(self) -> Driver:
        """Start on what is loaded right now; where nothing is, or a fault is asked for, crash and retry."""
        while True:
            for main in self.status.mains:
                main.run()
            driver = self.stack.loaded
            if driver is not None and self.node.fault(faults.PLUGIN_FAULT) != "crash-loop":
                parts = {"toolkit": self.stack.toolkit, "mig": self.stack.mig}
                self.stack.hold(self.uid, Held(driver.load, driver.version, self.resource_driver, **parts))
                facts = {"load": driver.load, "version": driver.version, "driver": self.resource_driver}
                self.tell("plugin-started", **facts, **parts)
                await self.report()
                return driver
            await self.report()
            await self.pause(self.settings.crash_seconds)
            for main in self.status.mains:
                main.crash(CRASH_LOOP)
            await self.report()
            await self.pause(self.settings.crash_backoff_seconds)

    async def turn_ready(self, driver: Driver) -> None:
        """Pass the probes, which ask for no driver.

        The journal has it before the API server: a reader of the API may act on it at once.
        """
        await self.pause(self.settings.plugin_ready_seconds)
        for main in self.status.mains:
            main.succeed_startup()
        self.tell("plugin-ready", load=driver.load, version=driver.version)
        await self.report()

    def on_deleted(self) -> None:
        """Judge the deletion, at the moment it is first seen."""
        held = self.stack.holders.get(self.uid)
        loaded, ready = self.stack.loaded, self.stack.ready_driver
        self.tell(
            "plugin-deleted",
            load=held.load if held else None,
            node_load=loaded.load if loaded else None,
            stale=held is not None and self.stack.is_stale(held),
            drained=self.drained,
            driver_ready=ready is not None,
            driver_current=ready is not None and self.place.is_current(ready),
        )

    def on_gone(self) -> None:
        """Let go of the driver."""
        self.stack.release(self.uid)
        self.tell("plugin-gone")

    @property
    def drained(self) -> bool:
        """Whether k8s-driver-manager is taking this pod off the node, by a label that it was placed by."""
        return not self.node.draining.isdisjoint(self.selected_by)

    def tell(self, event: str, **details: object) -> None:
        """Write about this pod into the journal."""
        self.stack.write(
            event,
            pod=self.name,
            uid=self.uid,
            daemonset=self.owner.get("name", ""),
            namespace=self.namespace,
            **details,
        )


def is_driver_client(pod: dict[str, Any]) -> bool:
    """Return whether a pod is marked as one that holds the driver."""
    return bool(pod["metadata"].get("annotations", {}).get(HOLDS) == THE_DRIVER)


class PluginLife(DriverClientLife):
    """The init container waits; the main ones hold the driver that is loaded when they start."""

    @property
    def resource_driver(self) -> str:
        """The DRA driver's name that it registers."""
        return str(self._annotation(RESOURCE_DRIVER_ANNOTATION, RESOURCE_DRIVER))

    async def live(self) -> None:
        """Wait for a driver, then run."""
        await self.accept()
        await self.wait_for_a_driver()
        await self.pause(self.settings.plugin_start_seconds)
        driver = await self.take_driver()
        await self._publish(driver)
        await self.turn_ready(driver)

    def on_gone(self) -> None:
        """Let go of the driver; the kubelet wipes the slices if no other plugin comes soon."""
        super().on_gone()
        for published in self._published:
            self.place.slices.schedule_wipe(published, self.settings.slice_wipe_seconds)

    @property
    def _published(self) -> dict[str, Devices]:
        """What it publishes, by DRA driver. One under another name leaves compute domains to its neighbour."""
        names = {main.name for main in self.status.mains}
        gpus = {self.resource_driver: Devices(self._annotation(DEVICES_ANNOTATION, Devices.GPU))}
        domains = {COMPUTE_DOMAINS: Devices.CHANNELS} if self.resource_driver == RESOURCE_DRIVER else {}
        return (gpus if GPUS in names else {}) | (domains if DOMAINS in names else {})

    async def _publish(self, driver: Driver) -> None:
        await self.node.online()
        for published, devices in self._published.items():
            await self.place.slices.publish(published, devices, driver.version, self.settings)

    def _annotation(self, key: str, default: str) -> str:
        return str(self.pod["metadata"].get("annotations", {}).get(key, default))


def is_plugin(pod: dict[str, Any]) -> bool:
    """Return whether a pod is a DRA plugin's, whatever its DaemonSet is called."""
    inits = {each["name"] for each in pod["spec"].get("initContainers", [])}
    return bool(inits & INITS) and {each["name"] for each in pod["spec"]["containers"]} <= MAINS


class NetworkClientLife(DriverClientLife):
    """The init containers wait for any driver; the main ones hold what is loaded when they start."""

    @property
    def stack(self) -> Stack:
        """The driver that it holds: the network card's."""
        return self.node.nic

    async def live(self) -> None:
        """Wait for a driver, then run."""
        await self.accept()
        if self.status.inits:
            await self.wait_for_a_driver()
        await self.pause(self.settings.plugin_start_seconds)
        await self.turn_ready(await self.take_driver())

    @property
    def drained(self) -> bool:
        """Whether it goes because its node has no longer the labels that it was placed by."""
        return any(self.node.labels.get(key) != value for key, value in self.selected_by.items())


def is_network_client(pod: dict[str, Any]) -> bool:
    """Return whether a pod holds the network card's driver."""
    marked = pod["metadata"].get("annotations", {}).get(HOLDS) == THE_NETWORK_DRIVER
    return marked or {each["name"] for each in pod["spec"]["containers"]} <= NETWORK_PLUGINS
