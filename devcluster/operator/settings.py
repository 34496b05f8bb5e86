"""The operator's environment: who it is, and how it is to behave (`simulate` in its chart's values)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are seconds; the chart's values.yaml explains each."""

    pod: str
    namespace: str
    version: str
    """The operator's version, which is its chart's."""
    server: str
    service_account_dir: Path
    behaviour: str = "26.3"
    requeue: float = 2.0
    step: float = 0.05
    status_delay: float = 1.5
    replace_gap: float = 3.0
    lingers: bool = False
    handover: float = 5.0
    digest_salt: str = ""
    failed_restarts: int = 10
    broken_operand: bool = False
    lease: float = 5.0
    openshift: bool = False
    """Whether drivers are built with the driver toolkit of the nodes' system."""
    driver_image: str = ""
    """The driver's image where an object names no version, as the operator lifecycle manager gives it."""
    loaded_version: str = ""
    """What is loaded from an image that is given by its digest."""

    @property
    def assigns_owners(self) -> bool:
        """Whether this operator labels each node with its NVIDIADriver, and waits for all of them (26.7)."""
        return self.behaviour == "26.7"

    @property
    def chart(self) -> str:
        """What the chart's label says of a policy that this operator's own chart made."""
        return f"gpu-operator-{self.version}"

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read what the chart's Deployment and the pod runner give."""
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
        return cls(
            pod=env["POD_NAME"],
            namespace=env["OPERATOR_NAMESPACE"],
            version=env["OPERATOR_VERSION"],
            server=f"https://{host}:{port}",
            service_account_dir=Path(env.get("DEVCLUSTER_SERVICE_ACCOUNT_DIR", SERVICE_ACCOUNT_DIR)),
            behaviour=env["SIMULATE_BEHAVIOUR"],
            requeue=float(env["SIMULATE_REQUEUE_SECONDS"]),
            step=float(env["SIMULATE_STEP_SECONDS"]),
            status_delay=float(env["SIMULATE_STATUS_SECONDS"]),
            replace_gap=float(env["SIMULATE_REPLACE_SECONDS"]),
            lingers=env["SIMULATE_OLD_OPERATOR_LINGERS"] == "true",
            handover=float(env["SIMULATE_HANDOVER_SECONDS"]),
            digest_salt=env.get("SIMULATE_DIGEST_SALT", ""),
            failed_restarts=int(env["SIMULATE_FAILED_RESTARTS"]),
            broken_operand=env["SIMULATE_BROKEN_OPERAND"] == "true",
            lease=float(env["SIMULATE_LEASE_SECONDS"]),
            openshift=env.get("SIMULATE_OPENSHIFT") == "true",
            driver_image=env.get("DRIVER_IMAGE", ""),
            loaded_version=env.get("SIMULATE_LOADED_VERSION", ""),
        )
