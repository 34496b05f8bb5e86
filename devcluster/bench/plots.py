"""The fleets: sizes, limits, and times that are shorter than real ones, so that a run takes minutes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from devcluster.bench.peers import PEERS, SCRIPTS, WITHOUT, Peer


@dataclass(frozen=True, slots=True)
class Plot:
    """One fleet and one upgrade."""

    nodes: int
    parallel: int = 1
    requeue: float = 6.0
    """Seconds after which the upgrade controller looks again; 120 in reality."""
    install: float = 2.0
    """Seconds for a driver to load; 30 to 300 in reality. Statuses carry whole seconds: at least 1."""
    unload: float = 0.5
    """Seconds to unload the old one; 5 to 60 in reality."""
    gap: float = 1.0
    """Seconds from a loaded driver to its pod's being Ready; up to 70 in reality."""
    stop: float = 0.3
    """Seconds from a pod's deletion to its end."""
    peers: tuple[Peer, ...] = PEERS
    own_servers: bool = False
    """Every approach asks an API server of its own, so that its costs are known."""
    told: bool = False
    """A driver is ready when the API server is informed, not when it is: its audit log has that moment, at a price."""
    behaviour: str = "26.3"
    """When the operator's policy says *ready*: after the first node of a chart bump (26.3), or after all (26.7)."""
    mode: str = ""
    """What the DRA driver gives: GPUs and ComputeDomains, or ComputeDomains alone, which publish no driver version."""
    claims: int = 0
    """Pods with claims, spread over the nodes."""

    @property
    def knobs(self) -> dict[str, float]:
        """What to tell the simulated fleet."""
        return {
            "driver_install_seconds": self.install,
            "driver_unload_seconds": self.unload,
            "driver_ready_gap_seconds": self.gap,
            "pod_stop_seconds": self.stop,
        }

    @property
    def window(self) -> float:
        """The upgrade's length, roughly."""
        turns = -(-self.nodes // self.parallel)
        return turns * (self.unload + self.install + self.gap + self.requeue + 2)

    @property
    def look_seconds(self) -> float:
        """Between two looks at the whole journal, which grows with the fleet."""
        return 0.5 + self.nodes / 250

    def as_json(self) -> dict[str, Any]:
        """Return what was tried, for programs."""
        return {key: value for key, value in asdict(self).items() if key != "peers"}


MODES: Final[dict[str, dict[str, Any]]] = {"": {}, "compute-domains": {"resources.gpus.enabled": False}}
"""The values of the DRA driver, by mode."""
_SERIAL: Final = Plot(100, 1, requeue=0.5, install=1.0, unload=0.2, gap=0.5)
PLOTS: Final = {
    # A driver that takes ten seconds where all nodes reload in the first minute: no shorter than any Job's own start.
    "upgrade-8-1": Plot(8, 1, requeue=3.0),
    "upgrade-8-10": Plot(8, 10, requeue=3.0, install=10.0),
    "upgrade-100-1": _SERIAL,
    "upgrade-100-1-v26.7": replace(_SERIAL, behaviour="26.7"),
    "upgrade-100-10": Plot(100, 10, requeue=3.0, install=6.0),
    "upgrade-500-10": Plot(500, 10, requeue=0.5, install=2.0, unload=0.2, gap=0.5),
    "reaction": Plot(500, 50, requeue=1.0, install=5.0, peers=(), told=True),
    "api-server": Plot(100, 10, requeue=6.0, install=6.0, peers=(WITHOUT, *SCRIPTS), own_servers=True, claims=100),
}
"""By name: what docs/performance.md shows."""
