"""Our own Deployment: where people look for a follower's events."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from hook.cluster import retry
from hook.cluster.events import Subject
from hook.cluster.requests import DEPLOYMENTS, Request
from hook.errors import ClusterError
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from hook.cluster.api import Api

log = logging.getLogger(__name__)

SECONDS: Final = 5.0
"""For all tries together: events are for people, and no restart waits for them."""


def own_workload(api: Api, namespace: str, name: str) -> Subject | None:
    """Read our own Deployment. None where there is none to read: its events then are left out."""
    if not name:
        return None
    patience, end = retry.Patience(SECONDS, SECONDS, SECONDS), time.monotonic() + SECONDS
    request = Request("get", DEPLOYMENTS, namespace, name)
    try:
        answer = retry.retrying(patience, time.sleep, end)(lambda: api.send(request, end - time.monotonic()))
        found = decoding.read(wire.Identified, answer)
        return Subject("apps/v1", "Deployment", namespace, name, found.metadata.uid)
    except (ClusterError, MalformedObjectError) as error:
        log.warning("cannot read our own Deployment %s/%s, going on without events on it: %s", namespace, name, error)
        return None
