"""What the environment tells every simulated operator: who it is, and how it is to behave."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who it is, and `simulate` of its chart's values.yaml, which explains each."""

    pod: str
    namespace: str
    version: str
    """The operator's version, which is its chart's."""
    server: str
    service_account_dir: str
    upgrade_program: str
    """The executable of the upgrade controller (`devcluster/tools/upgrade`)."""
    requeue_seconds: float = 2.0
    """The upgrade controller looks again after this long; 120 s in reality."""
    handover_seconds: float = 0.0
    """For so long it continues after the signal to stop, and keeps its Lease."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read what the chart's Deployment and the runner of its pod give."""
        host, port = env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"]
        identity = {
            "pod": env["POD_NAME"],
            "namespace": env["OPERATOR_NAMESPACE"],
            "version": env["OPERATOR_VERSION"],
            "server": f"https://{host}:{port}",
            "serviceAccountDir": env["DEVCLUSTER_SERVICE_ACCOUNT_DIR"],
            "upgradeProgram": env["DEVCLUSTER_UPGRADE_PROGRAM"],
        }
        return msgspec.convert(identity | json.loads(env.get("SIMULATE", "{}")), cls)
