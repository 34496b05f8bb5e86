"""Where a cluster keeps its files: everything below one state directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
"""Working directory of every process, so that ``-m devcluster.…`` and ``-m hook`` are found."""

SYSTEM_NODE = "system-0"
"""The node whose pods run as processes of this machine."""


@dataclass(frozen=True, slots=True)
class State:
    """The files of one cluster."""

    root: Path

    @property
    def marker(self) -> Path:
        """Marks the directory as ours to remove."""
        return self.root / ".devcluster"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.root / "kubeconfig"

    @property
    def private(self) -> Path:
        """Keys, tokens and the components' configuration."""
        return self.root / "control-plane"

    @property
    def certificate(self) -> Path:
        """Serving certificate that the API server makes, followed by the authority that signed it."""
        return self.private / "apiserver.crt"

    @property
    def certificate_key(self) -> Path:
        """The key of `certificate`. It signs ServiceAccount tokens, and the server of the logs of pods uses both."""
        return self.private / "apiserver.key"

    @property
    def egress_configuration(self) -> Path:
        """How the API server reaches kubelets, where one of them is real."""
        return self.private / "egress.yaml"

    @property
    def etcd(self) -> Path:
        """Holds the address of etcd."""
        return self.private / "etcd-address"

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.root / "logs"

    @property
    def processes(self) -> Path:
        """One record a process."""
        return self.root / "processes"

    @property
    def pods(self) -> Path:
        """One folder a pod that ran on the system node."""
        return self.root / "pods"

    @property
    def audit(self) -> Path:
        """The API server's audit log."""
        return self.root / "audit.jsonl"

    @property
    def truth(self) -> Path:
        """The fleet simulator's journal."""
        return self.root / "truth.jsonl"

    def log(self, process: str) -> Path:
        """Name the log of one process."""
        return self.logs / f"{process}.log"

    def pod(self, namespace: str, name: str) -> Path:
        """Name the folder of one pod."""
        return self.pods / f"{namespace}_{name}"

    def component_kubeconfig(self, component: str) -> Path:
        """Name the kubeconfig of a component of the control plane."""
        return self.private / f"{component}.kubeconfig"
