"""EventRecorder: write Kubernetes Events in the background.

Flux drops the logs of hooks, and Argo CD shows the Job. So users read the Events on the Job and on the DaemonSets, and
the pod's termination message.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.errors import CONFLICT, NOT_FOUND, ApiError, LeaseLostError, UntrustedError
from hook.format import printable
from hook.kube import retry
from hook.kube.client import READ_SECONDS
from hook.kube.requests import DEPLOYMENTS, EVENTS, JOBS, Request, merge_patch
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hook.kube.client import Api
    from hook.objects.views import DaemonSet

log = logging.getLogger(__name__)

COMPONENT: Final = "gpu-operator-post"
MESSAGE_LIMIT: Final = 1024
"""Longest message, in bytes (K8S ``pkg/apis/core/validation/events.go``)."""
QUEUE_LIMIT: Final = 2048
"""Longest queue, at a kilobyte per Event: enough for a thousand nodes that are refreshed at the same time."""
COUNTS_LIMIT: Final = 4096
"""Latest Events whose count is kept, so that the memory of the controller does not grow."""

WRITE_SECONDS: Final = 3.0
"""Timeout of one write."""
OWNER_SECONDS: Final = 5.0
"""Timeout of all requests for the own Deployment together, and the shortest timeout of one request for the own Job."""
PAUSE_SECONDS: Final = 30.0
"""Pause after a failure, so that the program does not retry for each node."""
FLUSH_SECONDS: Final = 5.0
"""Time to write the Events in a queue at the end of a run: enough for 500 at 10 ms each."""
STOP_SECONDS: Final = 0.5
"""Time to write the Events in the queue after a signal, when the kubelet waits: enough for 50."""
EXIT_SECONDS: Final = 1.0
"""Time that is reserved for the process to exit before its deadline."""


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


@dataclass(frozen=True, slots=True)
class Job:
    """The Job that runs this program."""

    reference: ObjectReference
    started: datetime


def own_job(
    api: Api, namespace: str, name: str, policy: retry.RetryPolicy, seconds: float = retry.FOREVER
) -> Job | None:
    """Return the own Job, read within `seconds`, or None. Without it, the timeout counts from the start of the process.

    Raises ApiError if the policy retries for less than `seconds`. Otherwise the deadline ends the run.
    """
    found = _own(api, Request("get", JOBS, namespace, name), policy, seconds)
    if found is None:
        return None
    began = decoding.moment(found.status.start_time) if found.status is not None else None
    # A start time in the future would delay the deadline.
    started = min(began or api.now(), api.now())
    return Job(ObjectReference("batch/v1", "Job", namespace, name, found.metadata.uid), started)


def own_deployment(api: Api, namespace: str, name: str) -> ObjectReference | None:
    """Return the own Deployment, or None if it cannot be read within a few seconds. Then its Events are dropped."""
    policy = retry.RetryPolicy(OWNER_SECONDS, OWNER_SECONDS, OWNER_SECONDS)
    found = _own(api, Request("get", DEPLOYMENTS, namespace, name), policy, OWNER_SECONDS)
    if found is None:
        return None
    return ObjectReference("apps/v1", "Deployment", namespace, name, found.metadata.uid)


def _own(api: Api, request: Request, policy: retry.RetryPolicy, seconds: float) -> wire.Job | None:
    """Read the object that runs this program.

    Raises ApiError if the policy's time ends before `seconds`, and UntrustedError.
    """
    if not request.name:
        return None
    end = time.monotonic() + seconds
    timeout = min(READ_SECONDS, max(policy.unreachable, OWNER_SECONDS))
    try:
        answer = retry.retrying(policy, time.sleep, end)(
            lambda: api.send(request, min(timeout, end - time.monotonic()))
        )
        return decoding.read(wire.Job, answer)
    except (ApiError, MalformedObjectError) as error:
        unreachable = isinstance(error, ApiError) and error.unreachable
        another_pod_follows = unreachable and policy.unreachable < seconds
        if isinstance(error, UntrustedError) or (another_pod_follows and time.monotonic() < end):
            raise
        where = f"{request.resource.kind} {request.namespace}/{request.name}"
        log.warning("cannot read the own %s, continuing without it: %s", where, error)
        return None


class _Worker:
    """Queue of tasks that a thread of its own executes in order."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], object]) -> bool:
        """Add a task. Return False if the queue is full."""
        if self._tasks.qsize() >= QUEUE_LIMIT:
            return False
        self._tasks.put(task)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()
        return True

    def flush(self, seconds: float) -> None:
        """Wait until the tasks are done, at most `seconds`. Drop those that wait longer."""
        if self._thread is None:
            return
        done = threading.Event()
        self._tasks.put(done.set)
        if done.wait(seconds):
            return
        dropped = 0
        while not self._tasks.empty():
            dropped += self._tasks.get() != done.set
        log.warning("%d Kubernetes Events could not be written in time; the log has the same facts", dropped)

    def _run(self) -> None:
        while True:
            try:
                self._tasks.get()()
            except Exception:
                log.exception("a background task failed")


class EventRecorder:
    """Event recorder (client-go's EventRecorder). Errors are logged once and never stop the program.

    A thread writes the Events in order, so that restarts do not wait for them.
    """

    def __init__(self, api: Api, run_id: str, *, silent: bool) -> None:
        self._api, self._run_id, self._silent = api, run_id, silent
        self._worker = _Worker()
        self._counts: OrderedDict[str, int] = OrderedDict()
        """By name of an Event: how often it occurred. Only the thread uses it."""
        self._paused_until = self._retry_after_until = 0.0
        self._logged = False

    def event(
        self, subject: ObjectReference, reason: str, message: str, *, about: str = "", warning: bool = False
    ) -> None:
        """Record an Event. The same reason for the same `about` (such as a node) updates an Event and its count."""
        if self._silent:
            return
        fields = {
            "message": _fitting(message),
            "lastTimestamp": self._api.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "type": "Warning" if warning else "Normal",
            "reason": reason,
        }
        if not self._worker.submit(lambda: self._write(subject, fields, about)):
            log.debug("too many Events wait to be written; dropping %s %s", reason, about)

    def flush(self) -> None:
        """Write the Events in the queue for a short time.

        Then end the pause after a failure, because users look for the end of a run. Obey Retry-After.
        """
        self._worker.flush(FLUSH_SECONDS)
        self._paused_until = self._retry_after_until

    def shutdown(self, left: float) -> None:
        """Write the last Events, while the process has time `left`."""
        self._worker.flush(max(0.0, min(FLUSH_SECONDS, left - EXIT_SECONDS)))

    def stop(self) -> None:
        """Write the Events in the queue briefly after a signal, because the kubelet waits for the process to exit."""
        self._worker.flush(STOP_SECONDS)

    def _write(self, reference: ObjectReference, fields: dict[str, Any], about: str) -> None:
        if time.monotonic() < self._paused_until:
            return
        # The name depends on the fact, so that the same fact of one run is one object.
        fact = f"{self._run_id}\0{reference.uid}\0{fields['reason']}\0{about}"
        name = f"{reference.name[:200].rstrip('-.')}.{hashlib.sha256(fact.encode()).hexdigest()[:16]}"
        count = self._counts.pop(name, 0) + 1
        fields = {**fields, "count": count}
        request = _create(reference, name, fields) if count == 1 else _update(reference, name, fields)
        self._counts[name] = count if self._send(request) else 0
        if len(self._counts) > COUNTS_LIMIT:
            self._counts.popitem(last=False)

    def _send(self, request: Request) -> bool:
        """Write an Event. Return whether it exists now."""
        try:
            self._api.send(request, WRITE_SECONDS)
        except ApiError as error:
            if error.status == CONFLICT:
                log.debug("Event %s exists already", request.name)
                return True
            if error.status == NOT_FOUND:
                log.debug("Event %s has expired; the next one is new", request.name)
                return False
            self._pause(error)
            level = logging.DEBUG if self._logged else logging.WARNING
            self._logged = True
            log.log(level, "cannot write Kubernetes Events, continuing without them: %s", error)
            return False
        except LeaseLostError:
            return False  # this process is about to exit, and the new leader reports
        return True

    def _pause(self, error: ApiError) -> None:
        """Write no Events for some time after an error."""
        now = time.monotonic()
        self._retry_after_until = now + retry.retry_after(error)
        self._paused_until = max(now + PAUSE_SECONDS, self._retry_after_until)


def _fitting(message: str) -> str:
    """Return a message without control characters, cut to the length that the API server accepts."""
    return printable(message, MESSAGE_LIMIT).encode()[:MESSAGE_LIMIT].decode(errors="ignore")


def _create(reference: ObjectReference, name: str, fields: dict[str, Any]) -> Request:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": reference.namespace},
        "involvedObject": {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "namespace": reference.namespace,
            "name": reference.name,
            "uid": reference.uid,
        },
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": fields["lastTimestamp"],
        **fields,
    }
    return Request("create", EVENTS, reference.namespace, body=body)


def _update(reference: ObjectReference, name: str, fields: dict[str, Any]) -> Request:
    body = {key: fields[key] for key in ("message", "count", "lastTimestamp")}
    return merge_patch(EVENTS, reference.namespace, name, body)
