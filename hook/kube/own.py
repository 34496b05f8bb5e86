"""The object that runs this program: its Job or its Deployment, which gets Events."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from hook.errors import NOT_FOUND, ApiError, UntrustedError
from hook.kube.client import READ_SECONDS
from hook.kube.events import ObjectReference
from hook.kube.resources import DEPLOYMENTS, JOBS
from hook.kube.retry import FOREVER, Patience, patiently
from hook.objects.decoding import Count, MalformedObjectError, Name, Time
from hook.objects.parts import CONDITIONS, Conditions, condition
from hook.objects.views import View, at, made, reader

if TYPE_CHECKING:
    from datetime import datetime

    from hook.kube.client import Api
    from hook.kube.resources import Resource

log = logging.getLogger(__name__)

OWNER_SECONDS: Final = 5.0
"""Timeout of all requests for the own Deployment together, and the shortest timeout of one request for the own Job."""
AGAIN_SECONDS: Final = 2.0
"""Timeout of the request for the own Job at the end of a run, when the kubelet may wait."""
PAUSE_SECONDS: Final = (10, 20, 40, 80, 160, 320, 600)
"""Pause of a Job before the next pod, by the number of those that failed before (K8S ``pkg/controller/job``)."""
BEGIN_SECONDS: Final = 60.0
"""Time that the next pod may take to begin. One that begins later ends the Job before it can do anything."""
OVER: Final = frozenset({"Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"})
"""Conditions of a Job that starts no other pod."""


@dataclass(frozen=True, slots=True)
class Job:
    """The Job that runs this program."""

    reference: ObjectReference
    started: datetime | None
    """When its first pod was to run, by the clock of the control plane."""
    failed: int = 0
    """How many of its pods have failed. The pod of this process is none of them."""
    backoff_limit: int = 0
    over: bool = False
    """It was deleted, is suspended or has ended."""

    def retries(self, left: float) -> bool:
        """Return whether it starts another pod if this one fails so many seconds before its deadline."""
        pause = PAUSE_SECONDS[min(self.failed, len(PAUSE_SECONDS) - 1)]
        return not self.over and self.failed < self.backoff_limit and left > pause + BEGIN_SECONDS


def _ended(conditions: Conditions) -> bool:
    return any(condition(conditions, kind).true for kind in OVER)


class _Own(View, frozen=True):
    """The own Job or Deployment."""

    uid: Annotated[Name, at("metadata", "uid")]
    ended: Annotated[bool, made(_ended, CONDITIONS)]
    started: Annotated[Time | None, at("status", "startTime")] = None
    failed: Annotated[Count, at("status", "failed")] = 0
    backoff_limit: Annotated[Count, at("spec", "backoffLimit")] = 0
    suspended: Annotated[bool, at("spec", "suspend")] = False
    deleted: Annotated[Time | None, at("metadata", "deletionTimestamp")] = None

    def as_job(self, namespace: str, name: str) -> Job:
        """Return the Job."""
        reference = ObjectReference("batch/v1", "Job", namespace, name, self.uid)
        over = self.ended or self.suspended or self.deleted is not None
        return Job(reference, self.started, self.failed, self.backoff_limit, over)


_read_own: Final = reader(_Own)


def own_job(api: Api, namespace: str, name: str, patience: Patience, seconds: float = FOREVER) -> Job | None:
    """Return the own Job, read within `seconds`, or None. Without it, the timeout counts from the start of the process.

    Raises ApiError if the patience ends before `seconds`. Otherwise the deadline ends the run.
    """
    found = _own(api, JOBS.select(namespace), name, patience, seconds)
    return found.as_job(namespace, name) if found is not None else None


def job_again(api: Api, job: Job) -> Job | None:
    """Return the own Job as it is now, or None if it is gone. One that cannot be read is as it was."""
    namespace, name = job.reference.namespace, job.reference.name
    try:
        found = _read_own(api.send("get", JOBS.select(namespace), name, seconds=AGAIN_SECONDS))
    except ApiError as error:
        return None if error.status == NOT_FOUND else job
    except MalformedObjectError:
        return job
    return found.as_job(namespace, name)


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
