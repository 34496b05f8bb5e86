"""The life of a MIG manager's pod: it gives its node the layout that a label asks for.

As NVIDIA's does (mig-parted ``pkg/mig/reconfigure``): it sets the state to ``pending``, pauses the operands that use
GPUs, applies the layout, resumes the operands, and sets the state to ``success`` or ``failed`` last. A layout that is
there already is only confirmed. It does not pause the DRA plugin, which then knows the devices as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.client import path
from devcluster.fleet.life import Life
from devcluster.fleet.retry import retry

if TYPE_CHECKING:
    from devcluster.fleet.stack import Stack

CONTAINER = "nvidia-mig-manager"
"""The container's name, which tells the MIG manager's pods from others, and its name as a field manager."""

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"

BROKEN = "broken"
"""A layout that fails when a part of it is applied."""

PAUSED = "paused-for-mig-change"
CLIENTS = tuple(
    f"nvidia.com/gpu.deploy.{operand}"
    for operand in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
)
"""What it pauses, of what the simulated operator sets."""


class MigManagerLife(Life):
    """Wait for a Ready driver, then follow the node's label."""

    _read = ""
    """The label's value that it saw last."""

    @property
    def stack(self) -> Stack:
        """The GPUs that it divides."""
        return self.node.gpu

    async def live(self) -> None:
        """Apply each layout that the label asks for."""
        await self.accept()
        for init in self.status.inits:
            init.run()
        await self.report()
        await self.node.until(lambda: self.stack.ready_driver is not None)
        for init in self.status.inits:
            init.end()
        for main in self.status.mains:
            main.run()
            main.succeed_startup()
        await self.report()
        while True:
            await self.node.until(lambda: self.node.labels.get(CONFIG, "") not in {"", self._read})
            self._read = self.node.labels[CONFIG]
            await self._apply(self._read)

    async def _apply(self, layout: str) -> None:
        if self.stack.layout != layout:
            await self._label({STATE: "pending"})
            paused = {key: PAUSED for key in CLIENTS if self.node.labels.get(key, "false") != "false"}
            await self._label(paused)
            await self.pause(self.settings.mig_seconds)
            self.stack.divide("" if layout == BROKEN else layout)
            await self._label(dict.fromkeys(paused, "true"))
        await self._label({STATE: "failed" if layout == BROKEN else "success"})

    async def _label(self, labels: dict[str, str]) -> None:
        await self.node.online()
        url_path = f"{path('v1', 'nodes', name=self.node.name)}?fieldManager={CONTAINER}"
        self.node.update(await retry(lambda: self.api.patch(url_path, {"metadata": {"labels": labels}})))


def is_mig_manager(pod: dict[str, Any]) -> bool:
    """Return whether a pod is one of the MIG manager."""
    return any(each["name"] == CONTAINER for each in pod["spec"]["containers"])
