"""How long things take on the simulated nodes. Short by default; the real times are next to them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, fields
from typing import Any

NAMESPACE, CONFIG_MAP, KEY = "devcluster", "fleet", "settings"
URL = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
"""Where the settings are set while the fleet runs."""


@dataclass(slots=True)
class Settings:
    """Seconds, unless said otherwise. Everything that lives on the fleet shares one of these."""

    driver_unload_seconds: float = 0.5
    """k8s-driver-manager evicts, unloads and unmounts; 5 to 60 s in reality."""
    driver_install_seconds: float = 2.0
    """Start of the driver container to a loaded driver; 30 to 300 s in reality. Keep it at 1 or more:
    statuses carry whole seconds, and a plugin's wait must end in a later one than its beginning."""
    driver_remount_seconds: float = 1.0
    """The same where k8s-driver-manager kept the loaded driver and only unmounted its root."""
    driver_ready_gap_seconds: float = 1.0
    """A loaded driver to a Ready pod; the real startup probe takes up to 70 s to notice."""
    network_build_seconds: float = 1.0
    """Start of the network driver's container to its unloading of what is there; minutes in reality.
    Keep it at 1 or more, as above."""
    network_reload_seconds: float = 0.5
    """The network driver is unloaded until the next one is loaded; seconds in reality."""
    network_ready_gap_seconds: float = 1.0
    """A loaded network driver to a Ready pod; its probes look every 20 to 30 s in reality."""
    jitter: float = 0.2
    """Each time is multiplied by a random factor between 1 - jitter and 1 + jitter."""
    plugin_init_poll_seconds: float = 0.3
    """The plugin's init container looks for a driver this often; 10 s in reality."""
    plugin_start_seconds: float = 0.2
    """The end of the plugin's init container to the start of its main ones."""
    plugin_ready_seconds: float = 0.5
    """Start of the plugin's containers to its startup probe's success."""
    pod_start_seconds: float = 0.1
    """A pod is accepted to its first container starts."""
    pod_stop_seconds: float = 0.3
    """A deleted pod's Ready turns false to the pod is gone."""
    mig_seconds: float = 1.5
    """The MIG manager pauses GPU clients, applies a layout and resumes them; half a minute to minutes in reality."""
    reboot_seconds: float = 1.0
    """A node goes down to its kubelet's first words."""
    crash_seconds: float = 0.2
    """A crashing container runs this long."""
    crash_backoff_seconds: float = 0.3
    """The pause before each restart; 10 s doubling to 5 min in reality."""

    def take(self, text: str) -> None:
        """Take over the ConfigMap's JSON; unknown names are refused, so that a typo is not a default."""
        given: dict[str, Any] = json.loads(text or "{}")
        defaults = {each.name: each.default for each in fields(self)}
        if unknown := given.keys() - defaults.keys():
            raise ValueError(f"unknown settings: {', '.join(sorted(unknown))}")
        for name, value in (defaults | given).items():
            setattr(self, name, value)

    def vary(self, seconds: float) -> float:
        """Apply the jitter."""
        return seconds * random.uniform(1 - self.jitter, 1 + self.jitter)
