"""Read the own Deployment, which gets the controller's Events."""

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
"""Timeout of all attempts together."""


def own_workload(api: Api, namespace: str, name: str) -> Subject | None:
    """Return the own Deployment, or None if it cannot be read. Then its Events are dropped."""
    if not name:
        return None
    patience, end = retry.Patience(SECONDS, SECONDS, SECONDS), time.monotonic() + SECONDS
    request = Request("get", DEPLOYMENTS, namespace, name)
    try:
        answer = retry.retrying(patience, time.sleep, end)(lambda: api.send(request, end - time.monotonic()))
        found = decoding.read(wire.Identified, answer)
        return Subject("apps/v1", "Deployment", namespace, name, found.metadata.uid)
    except (ClusterError, MalformedObjectError) as error:
        log.warning("cannot read the own Deployment %s/%s, continuing without Events on it: %s", namespace, name, error)
        return None
