"""Names and addresses of the real node, and where it keeps its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.boot.layout import State

REAL_NODE = "real-0"
"""The node whose pods really run, as containers."""

MARK = "devcluster/real"
"""Label and taint of the node."""

NODE_ADDRESS = "10.77.0.1"
"""The node's address, in the box only. Not loopback, which a kubelet refuses."""

SERVICE_ADDRESS = "10.96.0.1"
"""Of the Service `kubernetes`: the first one of the API server's ``--service-cluster-ip-range``. In the box it
belongs to the machine itself, so that no proxy has to translate it."""

POD_NETWORK = "10.88.0.0/24"

KUBELET_PORT = 10250

PAUSE_IMAGE = "devcluster.local/pause:1"


@dataclass(frozen=True, slots=True)
class Files:
    """The real node's files, below the cluster's state directory."""

    root: Path

    @classmethod
    def of(cls, state: State) -> Files:
        """Place them."""
        return cls(state.root / "node")

    @property
    def cgroups(self) -> Path:
        """The folders that stand for the box in each cgroup hierarchy, one a line."""
        return self.root / "cgroups"

    @property
    def settings(self) -> Path:
        """Configuration of the box, in JSON: programs, kubeconfig, server and images."""
        return self.root / "settings.json"

    @property
    def egress(self) -> Path:
        """Socket through which the API server reaches kubelets."""
        return self.root / "egress.sock"

    @property
    def pause(self) -> Path:
        """The archive of the pause image."""
        return self.root / "pause.tar"
