"""The life of a DRA kubelet plugin pod: wait for any driver, hold on to it, publish its devices.

It behaves as the real one does, including what is wrong with it: its init container is content
with the old driver as with the new one, and it never notices that its driver was replaced.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.fleet import knobs as k
from devcluster.fleet.life import Life
from devcluster.fleet.node import Held
from devcluster.fleet.status import CRASH_LOOP, CREATING

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.client import Api
    from devcluster.fleet.knobs import Dials
    from devcluster.fleet.node import Driver, DriverPod, Node
    from devcluster.fleet.slices import Slices

INIT, MAINS = "init-container", {"gpus", "compute-domains"}
"""The names of the containers, which tell a plugin under any DaemonSet's name."""

GPUS = "gpus"
"""The container that publishes GPUs; without it the plugin publishes nothing here."""

RESOURCE_DRIVER_ANNOTATION = "devcluster/dra-driver"
"""Pod annotation: register under another name, so that two plugins on a node do not fight."""

RESOURCE_DRIVER = "gpu.nvidia.com"


class PluginLife(Life):
    """The init container waits; the main ones hold the driver that is loaded when they start."""

    def __init__(  # noqa: PLR0913 - a plugin needs these besides what every life has
        self,
        api: Api,
        dials: Dials,
        node: Node,
        pod: dict[str, Any],
        *,
        slices: Slices,
        is_current: Callable[[DriverPod], bool],
    ) -> None:
        super().__init__(api, dials, node, pod)
        self.slices = slices
        self.is_current = is_current

    @property
    def resource_driver(self) -> str:
        """The DRA driver's name that it registers."""
        annotations = self.pod["metadata"].get("annotations", {})
        return str(annotations.get(RESOURCE_DRIVER_ANNOTATION, RESOURCE_DRIVER))

    async def live(self) -> None:
        """Wait for a driver, then run."""
        await self.accept()
        await self._wait_for_a_driver()
        await self.pause(self.knobs.plugin_start_seconds)
        driver = await self._start_containers()
        await self._publish(driver)
        await self.pause(self.knobs.plugin_ready_seconds)
        for main in self.status.mains:
            main.succeed_startup()
        await self.report()
        self._tell("plugin-ready", load=driver.load, version=driver.version)

    def on_deleted(self) -> None:
        """Judge the deletion, at the moment it is first seen."""
        held = self.node.holders.get(self.uid)
        loaded, ready = self.node.loaded, self.node.ready_driver
        self._tell(
            "plugin-deleted",
            load=held.load if held else None,
            node_load=loaded.load if loaded else None,
            stale=held is not None and self.node.is_stale(held),
            driver_ready=ready is not None,
            driver_current=ready is not None and self.is_current(ready),
        )

    def on_gone(self) -> None:
        """Let go of the driver; the kubelet wipes the slices if no other plugin comes soon."""
        self.node.release(self.uid)
        self._tell("plugin-gone")
        self.slices.forsake(self.resource_driver, self.knobs.slice_wipe_seconds)

    async def _wait_for_a_driver(self) -> None:
        """Look for a driver now and then. An old one does as well as a new one."""
        for init in self.status.inits:
            init.run()
        await self.report()
        while self.node.loaded is None:  # noqa: ASYNC110 - polling is what the real one does
            await asyncio.sleep(self.knobs.plugin_init_poll_seconds)
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.wait(CREATING)
        await self.report()

    async def _start_containers(self) -> Driver:
        """Start on what is loaded right now; where nothing is, or a fault is asked for, crash and retry."""
        while True:
            for main in self.status.mains:
                main.run()
            driver = self.node.loaded
            if driver is not None and self.node.fault(k.PLUGIN_FAULT) != "crash-loop":
                self.node.hold(self.uid, Held(driver.load, driver.version, self.resource_driver))
                self._tell("plugin-started", load=driver.load, version=driver.version)
                await self.report()
                return driver
            await self.report()
            await self.pause(self.knobs.crash_seconds)
            for main in self.status.mains:
                main.crash(CRASH_LOOP)
            await self.report()
            await self.pause(self.knobs.crash_backoff_seconds)

    async def _publish(self, driver: Driver) -> None:
        if any(main.name == GPUS for main in self.status.mains):
            await self.node.online()
            await self.slices.publish(self.resource_driver, driver.version, self.knobs)

    def _tell(self, event: str, **details: object) -> None:
        self.node.journal.write(
            event,
            self.node.name,
            pod=self.name,
            uid=self.uid,
            daemonset=self.owner.get("name", ""),
            namespace=self.namespace,
            **details,
        )


def is_plugin(pod: dict[str, Any]) -> bool:
    """Tell a DRA plugin's pod from all others, whatever its DaemonSet is called."""
    inits = {each["name"] for each in pod["spec"].get("initContainers", [])}
    return INIT in inits and {each["name"] for each in pod["spec"]["containers"]} <= MAINS
