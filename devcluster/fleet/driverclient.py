"""The life of any pod that holds the driver: it starts on what is loaded and never looks again.

A plain one, such as a standalone exporter, has nothing that waits for a driver: where none is
loaded it crashes and is restarted until there is one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from devcluster.fleet import faults
from devcluster.fleet.life import Life
from devcluster.fleet.stack import Held
from devcluster.fleet.status import CRASH_LOOP, CREATING

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver, Stack

HOLDS, THE_DRIVER = "devcluster/holds", "driver"
"""Pod annotation that makes any pod one that holds the driver."""


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
