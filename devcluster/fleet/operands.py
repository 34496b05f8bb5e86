"""The lives of the operands whose work makes plugins stale: container toolkit and MIG manager.

Both wait for a Ready driver pod. The toolkit then installs its files anew. The MIG manager gives its node the layout
that a label asks for, as NVIDIA's does (mig-parted ``pkg/mig/reconfigure``): it sets the state to ``pending``, pauses
the operands that use GPUs, applies the layout, resumes the operands, and sets the state to ``success`` last. A layout
that is there already is only confirmed. It does not pause the DRA plugin, which then knows the devices
as they were.
"""

from __future__ import annotations

from devcluster.fleet.life import Life

CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"

MANAGER = "nvidia-mig-manager"
"""The MIG manager's name as a field manager."""

PAUSED = "paused-for-mig-change"
CLIENTS = tuple(
    f"nvidia.com/gpu.deploy.{operand}"
    for operand in ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm")
)
"""What it pauses, of what the simulated operator sets."""


class OperandLife(Life):
    """Wait for a Ready driver, work, be Ready."""

    async def live(self) -> None:
        """Run the validation, which is content only with a driver pod that is Ready, then the main containers."""
        await self.accept()
        async with self.initializing():
            await self.node.until(lambda: self.node.gpu.ready_driver is not None)
        self.status.run()
        self.status.succeed_startup()
        self.on_ready()
        await self.report()

    def on_ready(self) -> None:
        """Do what the journal must have before the API server."""


class ToolkitLife(OperandLife):
    """The toolkit installs its files when it starts. They stay when it goes."""

    def on_ready(self) -> None:
        """Install."""
        self.node.gpu.install_toolkit(self.uid)


class MigManagerLife(OperandLife):
    """Follow the node's label."""

    _read = ""
    """The label's value that it saw last."""

    async def live(self) -> None:
        """Apply each layout that the label asks for."""
        await super().live()
        while True:
            await self.node.until(lambda: self.node.labels.get(CONFIG, "") not in {"", self._read})
            self._read = self.node.labels[CONFIG]
            await self._apply(self._read)

    async def _apply(self, layout: str) -> None:
        if self.node.gpu.layout != layout:
            await self._label({STATE: "pending"})
            paused = {key: PAUSED for key in CLIENTS if self.node.labels.get(key, "false") != "false"}
            await self._label(paused)
            await self.pause(self.settings.mig_seconds)
            self.node.gpu.apply_layout(layout)
            await self._label(dict.fromkeys(paused, "true"))
        await self._label({STATE: "success"})

    async def _label(self, labels: dict[str, str]) -> None:
        await self.patch_node({"labels": labels}, MANAGER)
