"""What a follower has before it follows: a name of its own, and a port that answers from the first moment."""

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
    """Name this process, unless somebody did.

    Where pods share a host's name, and where a container is started again in its pod, the name alone would be that of
    another process, which may still believe that it leads.
    """
    host = os.environ.get("HOSTNAME") or socket.gethostname()
    return Identity(LeaderElectionConfig(namespace, lease, wanted or f"{host}_{secrets.token_hex(4)}"), workload)


def begin(api: Api, settings: Settings, who: Identity, listen: str) -> Follower:
    """Serve health and metrics for one that is about to follow. Raises HookError."""
    telemetry = Telemetry(api.counters)
    server = serve(telemetry, listen)
    host = listen.rpartition(":")[0] or "0.0.0.0"  # noqa: S104 - for a log line
    log.info("metrics and health on http://%s:%d", host, server.port)
    return Follower(api, settings, who, telemetry)
