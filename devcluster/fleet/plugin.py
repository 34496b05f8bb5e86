"""The life of a DRA kubelet plugin pod: wait for any driver, hold on to it, publish its devices.

It behaves as the real one does, including what is wrong with it: its init container is content
with the old driver as with the new one, and it never notices that its driver was replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.fleet.driverclient import DriverClientLife
from devcluster.fleet.slices import COMPUTE_DOMAINS, Devices

if TYPE_CHECKING:
    from devcluster.fleet.stack import Driver

INITS, MAINS = {"init-container", "driver-validation"}, {"gpus", "compute-domains"}
"""The names of the containers, which tell a plugin under any DaemonSet's name: the chart's, and the operator's own."""

GPUS, DOMAINS = "gpus", "compute-domains"
"""The containers that publish GPUs and compute domains."""

RESOURCE_DRIVER_ANNOTATION = "devcluster/dra-driver"
"""Pod annotation: register under another name, so that two plugins on a node do not fight."""

DEVICES_ANNOTATION = "devcluster/devices"
"""Pod annotation: what the plugin publishes, one of `Devices`."""

RESOURCE_DRIVER = "gpu.nvidia.com"


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
            self.place.slices.forsake(published, self.settings.slice_wipe_seconds)

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
