"""What the environment tells every simulated operator: who it is, and how fast it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Times are seconds; the charts' values.yaml explain each."""

    pod: str
    namespace: str
    version: str
    """The operator's version, which is its chart's."""
    server: str
    service_account_dir: Path
    upgrade_program: str = "upgrade"
    """The executable of the upgrade controller (`devcluster/tools/upgrade`)."""
    requeue: float = 2.0
    status_delay: float = 1.5
    lingers: bool = False
    handover: float = 5.0
    lease: float = 5.0


def common(env: Mapping[str, str]) -> dict[str, Any]:
    """Read what every operator has in the environment: of its Deployment, and of `devcluster.pods`."""
    host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
    return {
        "pod": env["POD_NAME"],
        "namespace": env["OPERATOR_NAMESPACE"],
        "version": env["OPERATOR_VERSION"],
        "server": f"https://{host}:{port}",
        "service_account_dir": Path(env.get("DEVCLUSTER_SERVICE_ACCOUNT_DIR", SERVICE_ACCOUNT_DIR)),
        "upgrade_program": env["DEVCLUSTER_UPGRADE_PROGRAM"],
        "requeue": float(env["SIMULATE_REQUEUE_SECONDS"]),
        "status_delay": float(env["SIMULATE_STATUS_SECONDS"]),
        "lingers": env["SIMULATE_OLD_OPERATOR_LINGERS"] == "true",
        "handover": float(env["SIMULATE_HANDOVER_SECONDS"]),
        "lease": float(env["SIMULATE_LEASE_SECONDS"]),
    }
