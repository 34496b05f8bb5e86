"""The object that runs this program: its Job or its Deployment, which gets Events."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from hook.errors import ApiError, UntrustedError
from hook.kube.client import READ_SECONDS
from hook.kube.events import ObjectReference
from hook.kube.resources import DEPLOYMENTS, JOBS
from hook.kube.retry import FOREVER, Patience, patiently
from hook.objects.decoding import MalformedObjectError, Name, Time
from hook.objects.views import View, at, reader

if TYPE_CHECKING:
    from datetime import datetime

    from hook.kube.client import Api
    from hook.kube.resources import Resource

log = logging.getLogger(__name__)

OWNER_SECONDS: Final = 5.0
"""Timeout of all requests for the own Deployment together, and the shortest timeout of one request for the own Job."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Job that runs this program."""

    reference: ObjectReference
    started: datetime | None
    """When its first pod was to run, by the clock of the control plane."""


class _Own(View, frozen=True):
    """The own Job or Deployment."""

    uid: Annotated[Name, at("metadata", "uid")]
    started: Annotated[Time | None, at("status", "startTime")] = None


_read_own: Final = reader(_Own)


def own_job(api: Api, namespace: str, name: str, patience: Patience, seconds: float = FOREVER) -> Job | None:
    """Return the own Job, read within `seconds`, or None. Without it, the timeout counts from the start of the process.

    Raises ApiError if the patience ends before `seconds`. Otherwise the deadline ends the run.
    """
    found = _own(api, JOBS.select(namespace), name, patience, seconds)
    if found is None:
        return None
    return Job(ObjectReference("batch/v1", "Job", namespace, name, found.uid), found.started)


def own_deployment(api: Api, namespace: str, name: str) -> ObjectReference | None:
    """Return the own Deployment, or None if it cannot be read within a few seconds. Then its Events are dropped."""
    patience = Patience(OWNER_SECONDS, OWNER_SECONDS)
    found = _own(api, DEPLOYMENTS.select(namespace), name, patience, OWNER_SECONDS)
    return ObjectReference("apps/v1", "Deployment", namespace, name, found.uid) if found is not None else None


def _own(api: Api, resource: Resource, name: str, patience: Patience, seconds: float) -> _Own | None:
    """Read the object that runs this program, if it has a name.

    Raises ApiError if the API server did not answer for the patience, which is shorter than `seconds`, and
    UntrustedError.
    """
    if not name:
        return None
    end = time.monotonic() + seconds
    timeout = min(READ_SECONDS, max(patience.unreachable, OWNER_SECONDS))

    def read() -> _Own:
        own: _Own = _read_own(api.send("get", resource, name, seconds=min(timeout, end - time.monotonic())))
        return own

    try:
        return patiently(read, patience, end)
    except (ApiError, MalformedObjectError) as error:
        unreachable = isinstance(error, ApiError) and error.unreachable
        another_pod_follows = unreachable and patience.unreachable < seconds
        if isinstance(error, UntrustedError) or (another_pod_follows and time.monotonic() < end):
            raise
        where = f"{resource.kind} {resource.namespace}/{name}"
        log.warning("cannot read the own %s, continuing without it: %s", where, error)
        return None
