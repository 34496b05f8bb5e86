"""EventRecorder: write Kubernetes Events in the background.

Flux drops the logs of hooks, and Argo CD shows the Job. So users read the Events on the Job and on the DaemonSets, and
the pod's termination message.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hook.errors import FORBIDDEN, ApiError, LeaseLostError
from hook.format import printable, timestamp
from hook.kube.resources import EVENTS

if TYPE_CHECKING:
    from hook.kube.client import Api
    from hook.objects import DaemonSet

log = logging.getLogger(__name__)

COMPONENT: Final = "gpu-operator-post"
MESSAGE_LIMIT: Final = 1024
"""Longest message, in bytes (K8S ``pkg/apis/core/validation/events.go``)."""
QUEUE_LIMIT: Final = 2048
"""Most Events that wait, at a kilobyte each: enough for a thousand nodes that are refreshed at the same time."""
WRITTEN_LIMIT: Final = 4096
"""Latest Events whose count is kept, so that the memory of the controller does not grow."""

WRITE_SECONDS: Final = 3.0
"""Timeout of one write."""
PAUSE_SECONDS: Final = 30.0
"""Pause after a failure, so that the program does not retry for each node."""
FLUSH_SECONDS: Final = 5.0
"""Time to write the Events that wait at the end of a run: enough for 500 at 10 ms each."""
STOP_SECONDS: Final = 0.5
"""Time to write the Events that wait after a signal, when the kubelet waits: enough for 50."""
EXIT_SECONDS: Final = 1.0
"""Time that the process needs to exit."""


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Object that Events are about (core/v1 ``ObjectReference``)."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def daemonset_reference(daemonset: DaemonSet) -> ObjectReference:
    """Return the reference to a DaemonSet."""
    return ObjectReference("apps/v1", "DaemonSet", daemonset.namespace, daemonset.name, daemonset.uid)


@dataclass(slots=True)
class _Event:
    """An Event that waits to be written."""

    subject: ObjectReference
    reason: str
    message: str
    type: str
    at: str
    count: int = 1
    """Occurrences that are not written yet."""


class EventRecorder:
    """Event recorder (client-go's EventRecorder). Errors are logged once and never stop the program.

    A thread writes the Events in order, so that restarts do not wait for them.
    """

    def __init__(self, api: Api, writer: str, *, silent: bool) -> None:
        self._api, self._writer, self._silent = api, writer, silent
        self._changed = threading.Condition()
        """Guards what follows."""
        self._waiting: dict[str, _Event] = {}
        """By the Event's name, in the order of their first occurrence."""
        self._writing = False
        self._thread: threading.Thread | None = None
        self._written: dict[str, tuple[str, int]] = {}
        """By name of an Event that was written: when it first occurred, and how often. Only the thread uses it."""
        self._paused_until = 0.0
        self._refused_until: dict[str, float] = {}
        """By namespace: its quota, its end or a policy may refuse Events, while others take them."""
        self._retry_after_until = 0.0
        self._logged = False

    def event(
        self, subject: ObjectReference, reason: str, message: str, *, about: str = "", warning: bool = False
    ) -> None:
        """Record an Event. The same reason for the same `about` (such as a node) updates an Event and its count."""
        if self._silent:
            return
        at = timestamp(datetime.now(UTC))
        new = _Event(subject, reason, _fitting(message), "Warning" if warning else "Normal", at)
        name = self._name(new, about)
        with self._changed:
            if (waiting := self._waiting.get(name)) is not None:
                new.count += waiting.count
            elif len(self._waiting) >= QUEUE_LIMIT:
                log.debug("too many Events wait to be written; dropping %s %s", reason, about)
                return
            self._waiting[name] = new
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Write the Events that wait, for at most `seconds`, and drop the others.

        Then end the pause after a failure, because users look for the end of a run. Obey Retry-After.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout=seconds)
            dropped = len(self._waiting)
            self._waiting.clear()
        if dropped:
            log.warning("%d Kubernetes Events could not be written in time; the log has the same facts", dropped)
        self._paused_until = self._retry_after_until
        self._refused_until = {}

    def _name(self, event: _Event, about: str) -> str:
        """Return the name of an Event. It depends on the fact, so that the same fact of one writer is one object."""
        fact = f"{self._writer}\0{event.subject.uid}\0{event.reason}\0{about}"
        return f"{event.subject.name[:200].rstrip('-.')}.{hashlib.sha256(fact.encode()).hexdigest()[:16]}"

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                name = next(iter(self._waiting))
                event, self._writing = self._waiting.pop(name), True
            try:
                if time.monotonic() >= max(self._paused_until, self._refused_until.get(event.subject.namespace, 0.0)):
                    self._write(name, event)
            except LeaseLostError:
                pass  # This process is about to exit, and the new leader reports.
            except ApiError as error:
                self._pause(error, event.subject.namespace)
            except Exception:
                log.exception("the Event %s could not be written", name)
            finally:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()

    def _write(self, name: str, event: _Event) -> None:
        """Apply an Event: it is created, or updated if it exists. The API server deletes Events after an hour."""
        first, count = self._written.get(name, (event.at, 0))
        count += event.count
        subject = event.subject
        involved = {"apiVersion": subject.api_version, "kind": subject.kind, "namespace": subject.namespace}
        fields: dict[str, Any] = {
            "involvedObject": {**involved, "name": subject.name, "uid": subject.uid},
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": count,
            "firstTimestamp": first,
            "lastTimestamp": event.at,
        }
        self._api.apply(EVENTS.select(subject.namespace), name, fields, COMPONENT, WRITE_SECONDS)
        self._written.pop(name, None)
        self._written[name] = first, count
        if len(self._written) > WRITTEN_LIMIT:
            del self._written[next(iter(self._written))]

    def _pause(self, error: ApiError, namespace: str) -> None:
        """Write no Events for some time after an error; after a refusal, none in its namespace."""
        now = time.monotonic()
        if error.transient and error.status != FORBIDDEN:
            self._retry_after_until = now + error.retry_after
            self._paused_until = max(now + PAUSE_SECONDS, self._retry_after_until)
        else:
            self._refused_until[namespace] = now + PAUSE_SECONDS
        level = logging.DEBUG if self._logged else logging.WARNING
        self._logged = True
        log.log(level, "cannot write Kubernetes Events, continuing without them: %s", error)


def _fitting(message: str) -> str:
    """Return a message without control characters, cut to the length that the API server accepts."""
    return printable(message, MESSAGE_LIMIT).encode()[:MESSAGE_LIMIT].decode(errors="ignore")
