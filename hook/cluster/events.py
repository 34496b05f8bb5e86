"""Tell the story where deployers look: Kubernetes Events, one object a fact, counted when it repeats.

Flux throws hook logs away, and Argo CD shows the Job: events on the Job and on the DaemonSet, and the
pod's termination message, are what is left to read.
"""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.cluster import retry
from hook.cluster.requests import EVENTS, JOBS, Request
from hook.errors import ClusterError, ConflictError

if TYPE_CHECKING:
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.core.views import DaemonSet

log = logging.getLogger(__name__)

COMPONENT: Final = "gpu-operator-post"
NOTE_LIMIT: Final = 1024
"""K8S ``pkg/apis/core/validation/events.go``: a longer message is refused."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Job:
    """Our own Job."""

    subject: Subject
    started: datetime


def daemonset(seen: DaemonSet) -> Subject:
    """Give a DaemonSet as the subject of an event."""
    return Subject("apps/v1", "DaemonSet", seen.namespace, seen.name, seen.uid)


def job_request(namespace: str, name: str) -> Request:
    """Ask for our own Job."""
    return Request("get", JOBS, namespace, name)


class Teller:
    """Writes events. A failure to write is logged once and never stops the work."""

    def __init__(self, api: Api, run_id: str, *, silent: bool) -> None:
        self._api, self._run_id, self._silent = api, run_id, silent
        self._counts: dict[str, int] = {}
        self._complained = False

    def tell(self, subject: Subject, reason: str, note: str, *, warning: bool = False) -> None:
        """Tell a fact about a subject; the same one again raises its count."""
        if self._silent:
            return
        name = self._name(subject, reason, note)
        count = self._counts.get(name, 0) + 1
        self._counts[name] = count
        now = self._api.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        if count > 1:
            self._write(_again(subject, name, count, now))
        else:
            fact = {"reason": reason, "message": note[:NOTE_LIMIT], "type": "Warning" if warning else "Normal"}
            self._write(_first(subject, name, fact, now))

    def _write(self, request: Request) -> None:
        try:
            retry.retrying(retry.TELLING, time.sleep)(self._api.send, request)
        except ConflictError:
            log.debug("event %s is there already", request.name)
        except ClusterError as error:
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            log.log(level, "cannot write Kubernetes events, going on without: %s", error)

    def _name(self, subject: Subject, reason: str, note: str) -> str:
        """Name an event by what it says, so that the same fact of one run is one object."""
        told = f"{self._run_id}\x00{subject.uid}\x00{reason}\x00{note}"
        return f"{subject.name[:200]}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _first(subject: Subject, name: str, fact: dict[str, str], now: str) -> Request:
    regarding = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": subject.namespace},
        "involvedObject": regarding,
        **fact,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    return Request("create", EVENTS, subject.namespace, body=body)


def _again(subject: Subject, name: str, count: int, now: str) -> Request:
    return Request(
        "patch",
        EVENTS,
        subject.namespace,
        name,
        body={"count": count, "lastTimestamp": now},
        content_type="application/merge-patch+json",
    )
