"""One node while the journal is replayed: what is loaded on it, and which plugins run on what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devcluster.journal import Entry


@dataclass(frozen=True, slots=True)
class Standing:
    """How one node stands at the journal's end."""

    version: str
    """The loaded driver; empty while there is none."""
    driver_ready: bool
    plugin_version: str | None
    """The driver that the plugin started on; None while no plugin runs."""
    stale: bool


@dataclass(slots=True)
class Node:
    """What the journal's events make of a node, one after the other."""

    load: int | None = None
    version: str = ""
    toolkit: int = 0
    mig: int = 0
    ready_driver: str | None = None
    """UID of the driver pod that is Ready."""
    plugins: dict[str, Entry] = field(default_factory=dict)
    """How each running plugin started, by pod UID."""

    def take(self, now: Entry) -> None:
        """Let one event happen."""
        match now.event:
            case "driver-unloaded":
                self.load, self.version, self.ready_driver = None, "", None
            case "driver-loaded":
                self.load, self.version, self.ready_driver = now.load, now.version, None
            case "driver-ready":
                self.ready_driver = now.uid
            case "driver-gone" if now.uid == self.ready_driver:
                self.ready_driver = None
            case "toolkit-ready":
                self.toolkit = now.toolkit
            case "mig-reconfigured":
                self.mig = now.mig
            case "plugin-started":
                self.plugins[now.uid] = now
            case "plugin-gone":
                self.plugins.pop(now.uid, None)
            case "reboot" | "node-removed":
                self.load, self.version, self.ready_driver = None, "", None
                self.plugins.clear()

    def standing(self, daemonset: str | None) -> Standing:
        """Sum up."""
        running = [plugin for plugin in self.plugins.values() if plugin.concerns(daemonset)]
        held = running[-1].version if running else None
        return Standing(self.version, self.ready_driver is not None, held, self.stale(daemonset))

    def stale(self, daemonset: str | None) -> bool:
        """Return whether a plugin here holds another load than the one that is there."""
        if self.load is None:
            return False
        return any(p.load != self.load for p in self.plugins.values() if p.concerns(daemonset))

    def behind(self, daemonset: str | None) -> bool:
        """Return whether a plugin here started before the container toolkit was installed or MIG reconfigured last."""
        now = self.toolkit, self.mig
        return any((p.toolkit, p.mig) != now for p in self.plugins.values() if p.concerns(daemonset))
