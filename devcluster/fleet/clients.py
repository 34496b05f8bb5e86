"""The lives of pods that hold a driver: DRA kubelet plugins, network device plugins, and plain ones such as exporters.

Each starts on what is loaded and never looks again. The init containers of plugins are content with any driver, the old
one or the operating system's. A plain one has nothing that waits: where no driver is loaded, it crashes and is
restarted until there is one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from devcluster.fleet import slices
from devcluster.fleet.life import Life
from devcluster.fleet.stack import Held
from devcluster.fleet.status import CRASH_LOOP

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver, Stack

HOLDS = "devcluster/holds"
"""Pod annotation that makes any pod one that holds the GPUs' driver."""

GPUS, DOMAINS = "gpus", "compute-domains"
"""The main containers of the DRA plugin; the first publishes GPUs."""

NETWORK_PLUGINS = {"rdma-shared-dp", "kube-sriovdp"}
"""The main containers of the RDMA shared and the SR-IOV device plugin, under any DaemonSet's name."""

RESOURCE_DRIVER_ANNOTATION = "devcluster/dra-driver"
"""Pod annotation: register under another name, so that two plugins on a node do not fight."""

RESOURCE_DRIVER = "gpu.nvidia.com"


class ClientLife(Life):
    """The main containers hold the driver that is loaded when they start."""

    @property
    def stack(self) -> Stack:
        """The driver that it holds."""
        return self.node.nic if self._containers <= NETWORK_PLUGINS else self.node.gpu

    @property
    def resource_driver(self) -> str:
        """The DRA driver's name that it registers; empty for what registers none."""
        if not self._containers & {GPUS, DOMAINS}:
            return ""
        return str(self.pod["metadata"].get("annotations", {}).get(RESOURCE_DRIVER_ANNOTATION, RESOURCE_DRIVER))

    async def live(self) -> None:
        """Wait for a driver, if there is something that waits; start on it; publish its devices; pass the probes."""
        await self.accept()
        if self.status.inits:
            async with self.initializing():
                while self.stack.loaded is None:  # noqa: ASYNC110 - polling is what the real ones do
                    await asyncio.sleep(self.settings.plugin_init_poll_seconds)
        await self.pause(self.settings.plugin_start_seconds)
        driver = await self._take_driver()
        if GPUS in self._containers:
            await self.node.online()
            await slices.publish(self.api, self.node, self.resource_driver, driver.version)
        await self.pause(self.settings.plugin_ready_seconds)
        self.status.succeed_startup()
        # The journal has it before the API server: a reader of the API may act on it at once.
        self._write("plugin-ready", load=driver.load, version=driver.version)
        await self.report()

    async def _take_driver(self) -> Driver:
        """Start on what is loaded right now; where nothing is, crash and start again."""
        self.status.run()
        while self.stack.loaded is None:
            await self.report()
            await self.pause(self.settings.crash_seconds)
            for main in self.status.mains:
                main.crash(CRASH_LOOP)
            await self.report()
            await self.pause(self.settings.crash_backoff_seconds)
            self.status.run()
        driver = self.stack.loaded
        held = Held(driver.load, self.resource_driver, self.stack.toolkit, self.stack.mig, driver.version)
        self.stack.hold(self.uid, held)
        self._write(
            "plugin-started",
            load=held.load,
            version=held.version,
            driver=held.resource_driver,
            toolkit=held.toolkit,
            mig=held.mig,
        )
        await self.report()
        return driver

    def on_deleted(self) -> None:
        """Judge the deletion, at the moment it is first seen."""
        held = self.stack.holders.get(self.uid)
        loaded, ready = self.stack.loaded, self.stack.ready_driver
        self._write(
            "plugin-deleted",
            load=held.load if held else None,
            node_load=loaded.load if loaded else None,
            stale=held is not None and self.stack.is_stale(held),
            # By k8s-driver-manager, which paused a label that the pod was placed by.
            drained=not self.node.draining.isdisjoint(self.selected_by),
            driver_ready=ready is not None,
            driver_current=ready is not None and self.place.is_current(ready),
        )

    def on_gone(self) -> None:
        """Let go of the driver."""
        self.stack.release(self.uid)
        self._write("plugin-gone")

    @property
    def _containers(self) -> set[str]:
        """The names of the main containers, which tell plugins under any DaemonSet's name."""
        return {main.name for main in self.status.mains}

    def _write(self, event: str, **details: object) -> None:
        """Write about this pod into the journal."""
        self.stack.write(
            event,
            pod=self.name,
            uid=self.uid,
            daemonset=self.owner.get("name", ""),
            namespace=self.namespace,
            **details,
        )
