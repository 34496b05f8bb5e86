"""EventRecorder: write Kubernetes Events in the background.

Flux drops the logs of hooks, and Argo CD shows the Job. So users read the Events on the Job and on the DaemonSets, and
the pod's termination message.

No deployment tool copies this program's messages into the status of its own objects. But user interfaces show the
Events of such an object, which they find by its UID.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from hook.errors import ClusterError, ConflictError, LeaseLostError, NotFoundError, TerminatedError
from hook.format import shown
from hook.kube import retry
from hook.kube.requests import EVENTS, GroupVersionResource, Request, versions_of
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hook.config import EventTarget
    from hook.kube.client import Api
    from hook.objects.decoding import Json
    from hook.objects.views import DaemonSet

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

JOIN_SECONDS: Final = 0.2
"""Time for pending calls after a signal: twice the response time of a busy API server. With the time for Events and one
second for the Lease, the program exits within two seconds."""


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result | Exception]:
    """Call a function for several items, each in a thread. Return the results or exceptions in order.

    The threads are daemons, unlike those of `concurrent.futures`, so a process that gets a signal does not wait for a
    response that never comes.
    """
    found: dict[int, Result | Exception] = {}
    complete = threading.Event()

    def do(number: int) -> None:
        try:
            found[number] = work(items[number])
        except Exception as error:  # noqa: BLE001 - returned to the caller, which raises it
            found[number] = error
        if len(found) == len(items):
            complete.set()

    if len(items) <= 1:
        for number in range(len(items)):
            do(number)
        return list(found.values())
    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(items))]
    try:
        for thread in threads:
            thread.start()
        complete.wait()
    except TerminatedError:
        complete.wait(JOIN_SECONDS)
        raise
    return [found[number] for number in range(len(items))]


class Outbox(Generic[Item]):
    """Queue of work that a background thread does in order."""

    def __init__(self, work: Callable[[Item], None], limit: int) -> None:
        self._work, self._limit = work, limit
        self._waiting: deque[Item] = deque()
        self._busy = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, item: Item) -> bool:
        """Add an item. Return False if the queue is full."""
        with self._changed:
            if len(self._waiting) >= self._limit:
                return False
            self._waiting.append(item)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
                self._thread.start()
        return True

    def flush(self, seconds: float) -> int:
        """Wait until the queue is empty, at most `seconds`. Drop the rest and return its length."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout=seconds)
            left = len(self._waiting)
            self._waiting.clear()
        return left

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                item = self._waiting.popleft()
                self._busy = True
            try:
                self._work(item)
            except Exception:
                log.exception("a background task failed")
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()


COMPONENT: Final = "gpu-operator-post"
EVENT_SECONDS: Final = 3.0
"""Timeout of one write. Events must not delay restarts."""
QUIET_SECONDS: Final = 30.0
"""Pause after a failure, so that the program does not retry for each node."""
KEPT: Final = 4096
"""Latest facts whose count is kept, so that the memory of the controller does not grow."""
MOST_WAITING: Final = 2048
"""Longest queue, at a kilobyte per fact: enough for a thousand nodes that are refreshed at the same time."""
LAST_SECONDS: Final = 5.0
"""Time to flush the queue at the end of a run: enough for 500 Events at 10 ms each."""
FOUND_SECONDS: Final = 5.0
"""Time to write the last Events on targets that must be read first, after all other Events."""
SPARE_SECONDS: Final = 1.0
"""Time that is reserved for the process to exit before its deadline."""
STOPPED_SECONDS: Final = 0.5
"""Time to flush the queue after a signal, when the kubelet waits: enough for 50 Events."""
NOTE_LIMIT: Final = 1024
"""Longest message, in bytes (K8S ``pkg/apis/core/validation/events.go``)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Target of an Event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


Findable = Subject | Callable[[], Subject | None]
"""Target of an Event, or a function that reads it and returns None if it cannot."""


@dataclass(frozen=True, slots=True)
class _Told:
    """Fact in the queue."""

    subject: Findable
    about: str
    fact: dict[str, Any]
    last: bool
    """The fact is about the end of the run, so targets that failed before are tried again."""


class _Lane:
    """Queue of Events with its own thread, so that it does not wait for another queue."""

    def __init__(self, write: Callable[[_Told], None]) -> None:
        self.waiting = Outbox(write, MOST_WAITING)
        self.writing = threading.Lock()
        self.counts: dict[str, int] = {}

    def flush(self, seconds: float) -> None:
        """Return when the queue is empty, or after a time drop the rest."""
        if left := self.waiting.flush(seconds):
            log.warning("%d Kubernetes Events could not be written in time; the log has the same facts", left)


def daemonset(seen: DaemonSet) -> Subject:
    """Return a DaemonSet as the target of an Event."""
    return Subject("apps/v1", "DaemonSet", seen.namespace, seen.name, seen.uid)


class EventRecorder:
    """Event recorder. Errors are logged once and never stop the program.

    A thread writes the Events in order, so that restarts do not wait for them. Events on targets that must be read
    first, which may hang, have another thread.
    """

    def __init__(self, api: Api, run_id: str, *, silent: bool) -> None:
        self._api, self._run_id, self._silent = api, run_id, silent
        self._quiet_until = self._asked_until = 0.0
        self._complained = False
        self._excluded: set[Findable] = set()
        """Targets that could not be read, or whose Events were refused. They do not affect other targets."""
        self._known, self._to_find = _Lane(self._write), _Lane(self._write)
        self._over = False

    def tell(self, subject: Findable, reason: str, note: str, *, about: str = "", warning: bool = False) -> None:
        """Record a fact. The same reason for the same `about` (such as a node) updates the Event and its count.

        If the target must be read first, the thread that writes does that.
        """
        if self._silent:
            return
        when = self._api.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        kind = "Warning" if warning else "Normal"
        fact = {"message": _fitting(note), "lastTimestamp": when, "type": kind, "reason": reason}
        queued = _Told(subject, about, fact, self._over)
        if self._over and isinstance(subject, Subject):
            self._write(queued)
        elif not self._lane(subject).waiting.put(queued):
            log.debug("too many Events wait to be written; dropping %s %s", reason, about)

    def flush(self) -> None:
        """Flush the queue for a short time, then write directly, because users look for the end of a run.

        End the pause after a failure, but obey Retry-After.
        """
        self._known.flush(LAST_SECONDS)
        self._quiet_until, self._over = self._asked_until, True

    def await_found(self, left: float) -> None:
        """Return once Events on targets that must be read are written, or the time is over."""
        self._to_find.flush(max(0.0, min(FOUND_SECONDS, left - SPARE_SECONDS)))

    def stop(self) -> None:
        """Flush the queue briefly after a signal, because the kubelet waits for the process to exit."""
        self._known.flush(STOPPED_SECONDS)

    def _lane(self, subject: Findable) -> _Lane:
        return self._known if isinstance(subject, Subject) else self._to_find

    def _write(self, queued: _Told) -> None:
        subject = (
            queued.subject if isinstance(queued.subject, Subject) else self._found(queued.subject, last=queued.last)
        )
        if subject is None:
            return
        lane = self._lane(queued.subject)
        with lane.writing:
            if time.monotonic() < self._quiet_until:
                return
            name = self._name(subject, queued.fact["reason"], queued.about)
            count = lane.counts.pop(name, 0) + 1
            fact = {**queued.fact, "count": count}
            request = _first(subject, name, fact) if count == 1 else _again(subject, name, fact)
            lane.counts[name] = count if self._written(request, queued.subject) else 0
            if len(lane.counts) > KEPT:
                del lane.counts[next(iter(lane.counts))]

    def _found(self, find: Callable[[], Subject | None], *, last: bool) -> Subject | None:
        """Resolve the target, unless resolving it failed before. At the end of the run, try again."""
        if (find in self._excluded and not last) or time.monotonic() < self._quiet_until:
            return None
        subject = find()
        if subject is None:
            self._excluded.add(find)
        return subject

    def _written(self, request: Request, about: Findable) -> bool:
        """Write an Event. Return whether it exists now."""
        try:
            self._api.send(request, EVENT_SECONDS)
        except ConflictError:
            log.debug("Event %s exists already", request.name)
        except NotFoundError:
            log.debug("Event %s has expired; the next one is new", request.name)
            return False
        except ClusterError as error:
            level = logging.DEBUG if self._complained else logging.WARNING
            self._complained = True
            self._asked_until = time.monotonic() + retry.asked(error)
            ours = isinstance(about, Subject)
            self._quiet_until = max(time.monotonic() + QUIET_SECONDS if ours else 0.0, self._asked_until)
            if not ours:
                self._excluded.add(about)
            log.log(level, "cannot write Kubernetes Events, continuing without them: %s", error)
            return False
        except LeaseLostError:
            return False  # this process is about to exit, and the new leader reports
        return True

    def _name(self, subject: Subject, reason: str, about: str) -> str:
        """Return the name of an Event. It depends on the fact, so that the same fact of one run is one object."""
        fact = f"{self._run_id}\0{subject.uid}\0{reason}\0{about}"
        return f"{subject.name[:200].rstrip('-.')}.{hashlib.sha256(fact.encode()).hexdigest()[:16]}"


def _fitting(note: str) -> str:
    """Return a note without control characters, cut to the length that the API server accepts."""
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


LOOK_SECONDS: Final = 2.0
"""Timeout of each request."""
MOST_VERSIONS: Final = 4
"""Most versions of a group in which the kind is searched."""


class Regarding:
    """One event target. The thread that writes Events reads it when there is one to write."""

    def __init__(self, api: Api, named: EventTarget) -> None:
        self._api, self._named = api, named
        self._found: Subject | None = None
        self._complained = False

    def __call__(self) -> Subject | None:
        """Return the target, or None if it cannot be read. Then its Events are dropped."""
        if self._found is None:
            try:
                self._found = self._look()
            except (ClusterError, MalformedObjectError) as error:
                level = logging.DEBUG if self._complained else logging.WARNING
                self._complained = True
                log.log(level, "cannot read %s, continuing without Events on it: %s", self._named, error)
        return self._found

    def _look(self) -> Subject:
        """Read the object in the version that the API server prefers, or in another one that has the kind."""
        group = decoding.read(wire.ApiGroup, self._api.send(versions_of(self._resource("")), LOOK_SECONDS))
        found = [*filter(None, (group.preferred_version,)), *(group.versions or ())]
        missing = NotFoundError(f"the API server has no version of {self._named.group}")
        for version in list(dict.fromkeys(each.version for each in found))[:MOST_VERSIONS]:
            request = Request("get", self._resource(version), self._named.namespace, self._named.name)
            try:
                return self._subject(self._api.send(request, LOOK_SECONDS))
            except NotFoundError as error:
                missing = error
        raise missing

    def _subject(self, found: Json) -> Subject:
        named, target = self._named, decoding.read(wire.EventTarget, found)
        return Subject(target.api_version, target.kind, named.namespace, named.name, target.metadata.uid)

    def _resource(self, version: str) -> GroupVersionResource:
        return GroupVersionResource(self._named.group, version, self._named.resource, kind="")
