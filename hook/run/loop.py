"""Reconcile loop: read the cache, decide, execute restarts, record the results."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hook.decide.reasons import Reason
from hook.decide.record import ASK_AGAIN, Memory
from hook.decide.result import Decision, Phase
from hook.decide.run import decide
from hook.errors import CONFLICT, NOT_FOUND, ApiError, PermissionDeniedError, TerminatedError, UntrustedError
from hook.kube import client, events, resources, retry
from hook.objects import deleted_at
from hook.run.report import RestartResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
    from datetime import datetime

    from hook.decide.result import DeletePod, StalePod
    from hook.kube.cache import Cache
    from hook.kube.client import Api
    from hook.objects import Snapshot
    from hook.run.clock import Clock
    from hook.run.report import ProgressReporter
    from hook.settings import Settings

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

ACT_SECONDS: Final = 2.0
"""Time after which no further restart of a decision begins, because the decision may be outdated."""
WRITE_SECONDS: Final = 10.0
"""Timeout of one write."""
DENIED_SECONDS: Final = 30.0
"""Time until a missing permission is tried again. An administrator or a GitOps tool has to restore it."""
SIDE_BY_SIDE: Final = 8
"""Concurrent deletions, once one has succeeded. A busy API server takes 0.1 s and more for each, and 50 nodes may
become stale at once. API servers allow a client far more (priority and fairness)."""
JOIN_SECONDS: Final = 1.0
"""Time for pending calls after a signal: ten times the response time of a busy API server. With the limits of what is
written then, the program exits within the pod's grace period."""
SHORTEST_WRITE_SECONDS: Final = 1.0
"""Shortest timeout of a write. Near the deadline a write must be short, but needs a chance to succeed."""


class _Answer(NamedTuple):
    """Result of a deletion."""

    error: ApiError | None = None
    lost: bool = False
    """There was no response to some attempt, which may have deleted the pod."""
    deleted_at: datetime | None = None
    """When the API server accepted it, by its own clock."""


class Restarter:
    """Executes all restarts. In the controller (`lasting`), a missing permission does not end the process."""

    def __init__(self, api: Api, *, lasting: bool = False) -> None:
        self._api, self._lasting = api, lasting
        self._not_before = 0.0
        self._width = 1
        self._unanswered: dict[str, tuple[DeletePod, float]] = {}
        """Deletions whose response was lost, with their time, by UID of the pod."""
        self.restarted = 0

    def act(self, actions: Sequence[DeletePod], left: float) -> Iterator[RestartResult]:
        """Execute restarts. None begins after ``ACT_SECONDS``: the next decision covers the remaining ones.

        Slow start: the first deletion is sent alone. Once one succeeds, several are sent at a time. After any other
        response, one is sent alone again. All retries end before the `left` seconds are over, because another process
        may act then.
        """
        began = time.monotonic()
        until, end = began + ACT_SECONDS, began + max(left, SHORTEST_WRITE_SECONDS)
        deletions = deque(actions)
        while deletions:
            now = time.monotonic()
            if now > until or now < self._not_before:
                log.debug("%d restarts are left for the next decision", len(deletions))
                return
            batch = [deletions.popleft() for _each in range(min(self._width, len(deletions)))]
            self._width = 1
            if (yield from self._delete_together(batch, end)):
                self._width = SIDE_BY_SIDE

    @property
    def unanswered(self) -> bool:
        """Return whether the response to a deletion was lost, and its result is unknown so far."""
        return bool(self._unanswered)

    def settle(self, live: Collection[str], *, current: bool = True) -> list[RestartResult]:
        """Return the results of deletions whose response was lost, once their pods are no longer live.

        If a pod is still live after 30 s in a `current` cache, the deletion did not happen. A later deletion of that
        pod does not count as ours.
        """
        gone = [uid for uid in self._unanswered if uid not in live]
        results = [self._deleted(self._unanswered[uid][0]) for uid in gone]
        if current:
            since = time.monotonic() - ASK_AGAIN.total_seconds()
            self._unanswered = {uid: deletion for uid, deletion in self._unanswered.items() if deletion[1] > since}
        return results

    def _delete_together(self, actions: Sequence[DeletePod], end: float) -> Generator[RestartResult, None, bool]:
        """Delete pods concurrently. Return whether all deletions succeeded.

        Successful deletions are reported first, because the result of another one, or a signal, may end the program.
        """
        granted: list[tuple[DeletePod, datetime | None]] = []

        def ask(action: DeletePod) -> _Answer:
            answer = self._send(action.pod, end)
            if answer.error is None:
                granted.append((action, answer.deleted_at))
            return answer

        try:
            answers = at_once(ask, actions)
        finally:
            yield from starmap(self._deleted, granted)
        for action, answer in zip(actions, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            if answer.lost:
                self._unanswered[action.pod.uid] = action, time.monotonic()
            if answer.error is not None and (result := self._failed(action, answer.error)) is not None:
                yield result
        return len(granted) == len(actions)

    def _failed(self, action: DeletePod, error: ApiError) -> RestartResult | None:
        """Return the result of a deletion that failed; None if it needs a new decision.

        Raise the error if the server's certificate is refused, or a permission is missing, except in the controller.
        """
        what = f"node {action.node}: cannot delete plugin pod {action.pod.name}"
        if error.status == NOT_FOUND:
            log.info("%s: it is gone already", what)
            return None
        if error.status == CONFLICT:
            log.info("%s: it has changed since it was read, evaluating it again", what)
            return None
        if isinstance(error, PermissionDeniedError) and self._lasting:
            self._not_before = time.monotonic() + DENIED_SECONDS
            return RestartResult(action, trouble=str(error))
        if isinstance(error, PermissionDeniedError | UntrustedError):
            raise error
        if not error.transient:
            log.warning("%s: %s", what, error)
            return RestartResult(action, refused=str(error))
        self._not_before = max(self._not_before, time.monotonic() + error.retry_after)
        log.warning("%s, trying again: %s", what, error)
        return RestartResult(action, trouble=str(error))

    def _deleted(self, action: DeletePod, at: datetime | None = None) -> RestartResult:
        pod = action.pod
        self._unanswered.pop(pod.uid, None)
        self.restarted += 1
        note = f"node {action.node}: restarted plugin pod {pod.name}: {pod.because}"
        log.info("%s", note, extra={"facts": {"node": action.node, "pod": pod.name, "action": "delete"}})
        return RestartResult(action, note, deleted_at=at)

    def _send(self, pod: StalePod, end: float) -> _Answer:
        """Delete a pod, if it is still the same object and version. Retry for a short time."""
        pods, options = resources.PODS.select(pod.namespace), client.delete_options(pod.uid, pod.resource_version)
        lost = False

        def attempt() -> datetime | None:
            nonlocal lost
            try:
                seconds = min(WRITE_SECONDS, max(end - time.monotonic(), SHORTEST_WRITE_SECONDS))
                return deleted_at(self._api.send("delete", pods, pod.name, options, seconds))
            except ApiError as error:
                lost = lost or error.unreachable
                raise

        try:
            return _Answer(deleted_at=retry.patiently(attempt, retry.WRITE, end - SHORTEST_WRITE_SECONDS))
        except ApiError as error:
            return _Answer(error, lost)


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result | Exception]:
    """Call a function for several items at the same time, each in a thread. Return the results or exceptions in order.

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

    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(items))]
    try:
        for thread in threads:
            thread.start()
        complete.wait()
    except TerminatedError:
        complete.wait(JOIN_SECONDS)
        raise
    return [found[number] for number in range(len(items))]


TICK_SECONDS: Final = 1.0
"""Longest wait for a change. Grace periods and quiet times end without one."""
DECISION_SECONDS: Final = 1.0
"""Shortest time from one decision to the next: hundreds of objects change in a second while a large fleet reloads."""


NOT_READ: Final = Decision(Phase.WAIT, Reason.NODES_PENDING, "the cluster has not been read yet")
"""Decision before the first one."""


class ReconcileLoop:
    """State of the reconcile loop: memory, and writes whose response was lost."""

    def __init__(self, api: Api, cache: Cache, settings: Settings, reporter: ProgressReporter, clock: Clock) -> None:
        self._cache, self._settings, self._reporter, self._clock = cache, settings, reporter, clock
        self._next_decision = 0.0
        """The earliest time of the next decision, by the monotonic clock."""
        self.restarter = Restarter(api, lasting=settings.is_controller)
        self.memory = Memory(started=clock.began)
        self._changed: set[str] = set()
        """Nodes whose objects changed between the last two snapshots."""
        self.subjects: dict[str, events.ObjectReference] = {}
        """The plugins' DaemonSets as targets of Events, by UID."""
        self.last = NOT_READ

    def observe(self) -> Snapshot | None:
        """Return a snapshot with the pods of all plugins, or None while the cache is not synced."""
        if not self._cache.synced:
            return None
        plugins = self._cache.watch_plugins()
        self.subjects = {ds.uid: events.daemonset_reference(ds) for ds in plugins}
        # A new DaemonSet may need a watch of its pods that is not synced yet.
        if not self._cache.synced:
            return None
        snapshot, self._changed = self._cache.observe()
        return snapshot

    def await_sync(self) -> None:
        """Wait a moment for the cache to sync."""
        self._reporter.report_sync(self._cache.out_of_sync)
        self._cache.wait(TICK_SECONDS)

    def decide(self, snapshot: Snapshot) -> Decision:
        """Record the results of writes whose response was lost, then decide."""
        if self.restarter.unanswered:
            live = {pod.uid for pod in snapshot.plugin_pods if pod.live}
            self._account(self.restarter.settle(live, current=self._cache.out_of_sync is None))
        self._next_decision = time.monotonic() + DECISION_SECONDS
        self.last, self.memory = decide(snapshot, self.memory, self._settings, self._clock.now(), self._changed)
        self._reporter.report_sync(self._cache.out_of_sync)
        return self.last

    def decide_in_full(self, snapshot: Snapshot) -> Decision:
        """Evaluate all nodes of a second read. The views of the last decision are freed first: a fleet has many."""
        self.memory = replace(self.memory, evaluation=None)
        return decide(snapshot, self.memory, self._settings, self._clock.now())[0]

    def act(self, decision: Decision, left: float) -> list[RestartResult]:
        """Execute the restarts, unless the cache is out of sync. Return their results."""
        return self._account(self.restarter.act(decision.actions, left)) if self._cache.out_of_sync is None else []

    def rest(self, seconds: float = TICK_SECONDS) -> None:
        """Wait for the next change, and until the next decision may be made."""
        self._cache.wait(seconds)
        time.sleep(max(0.0, self._next_decision - time.monotonic()))

    def _account(self, results: Iterable[RestartResult]) -> list[RestartResult]:
        """Record and report each result at once, because the next restart may end the program."""
        done: list[RestartResult] = []
        for result in results:
            self.remember(result)
            done.append(result)
            self._reporter.report_restart(result, self.subjects.get(result.action.pod.daemonset_uid))
        return done

    def stop_events(self) -> None:
        """Flush the Events for a short time, because the kubelet waits for the process to exit."""
        self._reporter.recorder.flush(events.STOP_SECONDS)

    def remember(self, result: RestartResult) -> None:
        """Record the result of a restart in the memory."""
        memory, action, now = self.memory, result.action, self._clock.now()
        self.memory = (
            memory.troubled(action.node, action.pod, now, result.trouble)
            if result.trouble
            else memory.asked(action.node, action.pod, now, result.refused, result.deleted_at)
        )
