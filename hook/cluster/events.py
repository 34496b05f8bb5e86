"""Tell the story where deployers look: Kubernetes Events, one object a fact, counted when it repeats.

Flux throws hook logs away, and Argo CD shows the Job: events on the Job and on the DaemonSet, and the
pod's termination message, are what is left to read.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.cluster import retry
from hook.cluster.requests import EVENTS, Request
from hook.cluster.threads import Outbox
from hook.errors import ClusterError, ConflictError, LeaseLostError, NotFoundError
from hook.logs import shown

if TYPE_CHECKING:
    from hook.cluster.api import Api
    from hook.objects.views import DaemonSet

log = logging.getLogger(__name__)

COMPONENT: Final = "gpu-operator-post"
EVENT_SECONDS: Final = 3.0
"""Events are for people; they must not hold up the work."""
QUIET_SECONDS: Final = 30.0
"""After a failure, so that a server that cannot take events is not asked for each node."""
KEPT: Final = 4096
"""Facts whose count is remembered, the latest ones: who never ends must not remember each restart of a year."""
MOST_WAITING: Final = 2048
"""Facts that wait to be written, a kilobyte each: a thousand nodes that are served at the same moment."""
LAST_SECONDS: Final = 5.0
"""For what still waits when the run is over: a server that writes an event in 10 ms takes five hundred."""
FOUND_SECONDS: Final = 5.0
"""For the end on what has to be found first, on all of it together and after everything else: as long again."""
SPARE_SECONDS: Final = 1.0
"""Kept of the time that is left, for the process to end before whoever runs it ends it."""
STOPPED_SECONDS: Final = 0.5
"""The same for one that was told to stop, whose end somebody waits for: fifty events."""
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


Findable = Subject | Callable[[], Subject | None]
"""What an event is about, or what finds that out, where it can be."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A fact that is to be written."""

    subject: Findable
    about: str
    fact: dict[str, Any]
    last: bool
    """Whether it tells the end, for which everything is tried once more."""


class _Lane:
    """Events that are written one after the other, and wait for none of another lane."""

    def __init__(self, write: Callable[[_Told], None]) -> None:
        self.waiting = Outbox(write, MOST_WAITING)
        self.writing = threading.Lock()
        self.counts: dict[str, int] = {}

    def flush(self, seconds: float) -> None:
        """Give what waits a moment; what is left then is given up."""
        if left := self.waiting.flush(seconds):
            log.warning("%d Kubernetes events could not be written in time; the log has what they tell", left)


def daemonset(seen: DaemonSet) -> Subject:
    """Give a DaemonSet as the subject of an event."""
    return Subject("apps/v1", "DaemonSet", seen.namespace, seen.name, seen.uid)


class Teller:
    """Writes events. It never stops the work: what cannot be written soon is logged once and left.

    Nobody waits for an event while plugins wait for their restart: a thread of its own writes them, in their order.
    What has to be found first, which may hang, has another one.
    """

    def __init__(self, api: Api, run_id: str, *, silent: bool) -> None:
        self._api, self._run_id, self._silent = api, run_id, silent
        self._quiet_until = self._asked_until = 0.0
        self._complained = False
        self._left_alone: set[Findable] = set()
        """What could not be found, or whose events are refused: that says nothing of all others."""
        self._known, self._to_find = _Lane(self._write), _Lane(self._write)
        self._over = False

    def tell(self, subject: Findable, reason: str, note: str, *, about: str = "", warning: bool = False) -> None:
        """Tell a fact. The same reason about the same thing (a node, say) again updates it and its count.

        What it is about may have to be found: by the thread that writes, however late it is.
        """
        if self._silent:
            return
        when = self._api.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        kind = "Warning" if warning else "Normal"
        fact = {"message": _fitting(note), "lastTimestamp": when, "type": kind, "reason": reason}
        told = _Told(subject, about, fact, self._over)
        if self._over and isinstance(subject, Subject):
            self._write(told)
        elif not self._lane(subject).waiting.put(told):
            log.debug("too many events wait to be written; going on without %s %s", reason, about)

    def last_words(self) -> None:
        """Write at once from now on, whatever failed a moment ago: how a run ended is what people look for.

        What still waits has a moment. Only a server that asked for time still has it.
        """
        self._known.flush(LAST_SECONDS)
        self._quiet_until, self._over = self._asked_until, True

    def await_found(self, left: float) -> None:
        """Give a moment to what was told last on what has to be found, but not all of the seconds that are left."""
        self._to_find.flush(max(0.0, min(FOUND_SECONDS, left - SPARE_SECONDS)))

    def stop(self) -> None:
        """Let what still waits be written in a moment, or not at all: whoever told us to stop waits for our end."""
        self._known.flush(STOPPED_SECONDS)

    def _lane(self, subject: Findable) -> _Lane:
        return self._known if isinstance(subject, Subject) else self._to_find

    def _write(self, told: _Told) -> None:
        subject = told.subject if isinstance(told.subject, Subject) else self._found(told.subject, last=told.last)
        if subject is None:
            return
        lane = self._lane(told.subject)
        with lane.writing:
            if time.monotonic() < self._quiet_until:
                return
            name = self._name(subject, told.fact["reason"], told.about)
            count = lane.counts.pop(name, 0) + 1
            fact = {**told.fact, "count": count}
            request = _first(subject, name, fact) if count == 1 else _again(subject, name, fact)
            lane.counts[name] = count if self._written(request, told.subject) else 0
            if len(lane.counts) > KEPT:
                del lane.counts[next(iter(lane.counts))]

    def _found(self, find: Callable[[], Subject | None], *, last: bool) -> Subject | None:
        """Find out what an event is about, unless that was in vain or of no use before and may be once more."""
        if (find in self._left_alone and not last) or time.monotonic() < self._quiet_until:
            return None
        subject = find()
        if subject is None:
            self._left_alone.add(find)
        return subject

    def _written(self, request: Request, about: Findable) -> bool:
        """Whether it is there now."""
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
            ours = isinstance(about, Subject)
            self._quiet_until = max(time.monotonic() + QUIET_SECONDS if ours else 0.0, self._asked_until)
            if not ours:
                self._left_alone.add(about)
            log.log(level, "cannot write Kubernetes events, going on without: %s", error)
            return False
        except LeaseLostError:
            return False  # our end is near, and who holds it now tells what goes on
        return True

    def _name(self, subject: Subject, reason: str, about: str) -> str:
        """Name an event by what it is about, so that the same fact of one run is one object."""
        told = f"{self._run_id}\0{subject.uid}\0{reason}\0{about}"
        return f"{subject.name[:200].rstrip('-.')}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"


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
    body = {key: fact[key] for key in ("message", "count", "lastTimestamp")}
    return Request("patch", EVENTS, subject.namespace, name, body=body, content_type="application/merge-patch+json")
