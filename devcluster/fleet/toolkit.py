"""The life of a container toolkit pod: it waits for a Ready driver and installs its files anew."""

from __future__ import annotations

from typing import Any

from devcluster.fleet.life import Life

CONTAINER = "nvidia-container-toolkit-ctr"
"""The container's name, which tells the toolkit's pods from others."""


class ToolkitLife(Life):
    """driver-validation first, which is content only with a driver pod that is Ready; then the toolkit."""

    async def live(self) -> None:
        """Wait for the driver, install, be Ready."""
        await self.accept()
        for init in self.status.inits:
            init.run()
        await self.report()
        await self.node.until(lambda: self.node.gpu.ready_driver is not None)
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.run()
        self.node.gpu.install_toolkit(self.uid)
        for main in self.status.mains:
            main.succeed_startup()
        await self.report()

    def on_gone(self) -> None:
        """Return the journal; its files stay."""
        self.node.gpu.write("toolkit-gone", pod=self.name, uid=self.uid)


def is_toolkit(pod: dict[str, Any]) -> bool:
    """Return whether a pod is a container toolkit's."""
    return any(each["name"] == CONTAINER for each in pod["spec"]["containers"])
