"""The life of a pod that holds the network card's driver: a device plugin, or anything marked as such.

It behaves as the real ones do: an init container, where there is one, is content with any driver,
the operating system's as well, and the plugin never notices that its driver was replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.fleet.driverclient import HOLDS, DriverClientLife

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack

CONTAINERS = {"rdma-shared-dp", "kube-sriovdp"}
"""The main containers of the RDMA shared and the SR-IOV device plugin, under any DaemonSet's name."""

THE_NETWORK_DRIVER = "network-driver"
"""The value of the annotation that makes any pod one that holds this driver."""


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
    return marked or {each["name"] for each in pod["spec"]["containers"]} <= CONTAINERS
