"""The Job or Deployment that runs this program."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hook.errors import ClusterError, UnreachableError
from hook.kube import retry
from hook.kube.client import READ_SECONDS
from hook.kube.events import Subject
from hook.kube.requests import DEPLOYMENTS, JOBS, Request
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from datetime import datetime

    from hook.kube.client import Api

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


ONE_TRY_SECONDS: Final = 5.0
"""Shortest timeout of one attempt."""


@dataclass(frozen=True, slots=True)
class Job:
    """The own Job."""

    subject: Subject
    started: datetime


def own_job(
    api: Api, namespace: str, name: str, patience: retry.Patience, seconds: float = retry.FOREVER
) -> Job | None:
    """Return the own Job, read within `seconds`, or None. Without it, the timeout counts from the start of the process.

    Raises UnreachableError.
    """
    if not name:
        return None
    end = time.monotonic() + seconds
    one_try = min(READ_SECONDS, max(patience.unreachable, ONE_TRY_SECONDS))
    request = Request("get", JOBS, namespace, name)
    try:
        answer = retry.retrying(patience, time.sleep, end)(
            lambda: api.send(request, min(one_try, end - time.monotonic()))
        )
        found = decoding.read(wire.Job, answer)
        began = decoding.moment(found.status.start_time) if found.status is not None else None
        # A start time in the future would delay the deadline.
        started = min(began or api.now(), api.now())
        return Job(Subject("batch/v1", "Job", namespace, name, found.metadata.uid), started)
    except UnreachableError:
        raise
    except (ClusterError, MalformedObjectError) as error:
        log.warning(
            "cannot read the own Job %s/%s, the timeout counts from the start of this process: %s",
            namespace,
            name,
            error,
        )
        return None
