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
from hook.cluster.requests import EVENTS, Request
from hook.errors import ClusterError, ConflictError, NotFoundError
from hook.logs import shown

if TYPE_CHECKING:
    from hook.cluster.api import Api
    from hook.core.views import DaemonSet

log = logging.getLogger(__name__)

COMPONENT: Final = "gpu-operator-post"
EVENT_SECONDS: Final = 3.0
"""Events are for people; they must not hold up the work."""
QUIET_SECONDS: Final = 30.0
"""After a failure, so that a server that cannot take events is not asked for each node."""
KEPT: Final = 4096
"""Facts whose count is remembered, the latest ones: who never ends must not remember each restart of a year."""
NOTE_LIMIT: Final = 1024
"""Bytes. K8S ``pkg/apis/core/validation/events.go``: a longer message is refused."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def daemonset(seen: DaemonSet) -> Subject:
    """Give a DaemonSet as the subject of an event."""
    return Subject("apps/v1", "DaemonSet", seen.namespace, seen.name, seen.uid)


class Teller:
    """Writes events. It never stops the work: what cannot be written soon is logged once and left."""

    def __init__(self, api: Api, run_id: str, *, silent: bool) -> None:
        self._api, self._run_id, self._silent = api, run_id, silent
        self._counts: dict[str, int] = {}
        self._quiet_until = self._asked_until = 0.0
        self._complained = False

    def tell(self, subject: Subject, reason: str, note: str, *, about: str = "", warning: bool = False) -> None:
        """Tell a fact. The same reason about the same thing (a node, say) again updates it and its count."""
        if self._silent or time.monotonic() < self._quiet_until:
            return
        name = self._name(subject, reason, about)
        count = self._counts.pop(name, 0) + 1
        fact: dict[str, Any] = {
            "message": _fitting(note),
            "count": count,
            "lastTimestamp": self._api.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if count == 1:
            fact |= {"reason": reason, "type": "Warning" if warning else "Normal"}
        request = _first(subject, name, fact) if count == 1 else _again(subject, name, fact)
        self._counts[name] = count if self._written(request) else 0
        if len(self._counts) > KEPT:
            del self._counts[next(iter(self._counts))]

    def last_words(self) -> None:
        """Try once more, whatever failed a moment ago: how a run ended is what people look for.

        Only a server that asked for time still has it.
        """
        self._quiet_until = self._asked_until

    def _written(self, request: Request) -> bool:
        try:
            self._api.send(request, EVENT_SECONDS)
        except ConflictError:
            log.debug("event %s is there already", request.name)
        except NotFoundError:
            log.debug("event %s has expired; the next one is new", request.name)
            return False
        except ClusterError as error:
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            self._asked_until = time.monotonic() + retry.asked(error)
            self._quiet_until = max(time.monotonic() + QUIET_SECONDS, self._asked_until)
            log.log(level, "cannot write Kubernetes events, going on without: %s", error)
            return False
        return True

    def _name(self, subject: Subject, reason: str, about: str) -> str:
        """Name an event by what it is about, so that the same fact of one run is one object."""
        told = f"{self._run_id}\0{subject.uid}\0{reason}\0{about}"
        return f"{subject.name[:200]}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def _fitting(note: str) -> str:
    """Give what the API server takes, and what a terminal that shows it does not obey."""
    return shown(note, NOTE_LIMIT).encode()[:NOTE_LIMIT].decode(errors="ignore")


def _first(subject: Subject, name: str, fact: dict[str, Any]) -> Request:
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
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": fact["lastTimestamp"],
        **fact,
    }
    return Request("create", EVENTS, subject.namespace, body=body)


def _again(subject: Subject, name: str, fact: dict[str, Any]) -> Request:
    return Request("patch", EVENTS, subject.namespace, name, body=fact, content_type="application/merge-patch+json")
