"""Start the controller: its leader election identity, and the server for metrics and health."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from typing import TYPE_CHECKING

from hook.following.follower import Follower, Identity
from hook.following.server import serve
from hook.following.telemetry import Telemetry
from hook.kube.election import LeaderElectionConfig

if TYPE_CHECKING:
    from hook.cluster.api import Api
    from hook.settings import Settings

log = logging.getLogger(__name__)


def identity(namespace: str, lease: str, wanted: str, workload: str) -> Identity:
    """Return the leader election identity: `wanted`, or <hostname>_<random>.

    The host name alone is not unique: pods may share it, and a restarted container has the same. The other process may
    still act as leader.
    """
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    return Identity(LeaderElectionConfig(namespace, lease, wanted or f"{host}_{secrets.token_hex(4)}"), workload)


def begin(api: Api, settings: Settings, who: Identity, listen: str) -> Follower:
    """Start the server for metrics and health, and return the controller. Raises HookError."""
    telemetry = Telemetry(api.counters)
    server = serve(telemetry, listen)
    host = listen.rpartition(":")[0] or "0.0.0.0"  # noqa: S104 - for a log line
    log.info("metrics and health on http://%s:%d", host, server.port)
    return Follower(api, settings, who, telemetry)
