"""Restarts: delete the stale pods of a decision, and know what became of each deletion."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hook.decide.record import ASK_AGAIN
from hook.errors import CONFLICT, NOT_FOUND, ApiError, TerminatedError, UntrustedError
from hook.kube import client, resources, retry
from hook.objects import deleted_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence
    from datetime import datetime

    from hook.decide.result import StalePlugin
    from hook.kube.client import Api

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


@dataclass(frozen=True, slots=True)
class RestartResult:
    """A restart and its result."""

    action: StalePlugin
    note: str = ""
    """Text for the log and the Event. Empty if nothing was restarted."""
    refused: str = ""
    """The API server's message, if it refused the restart for good."""
    trouble: str = ""
    """Why the restart failed, if a retry may succeed."""
    deleted_at: datetime | None = None
    """When the API server accepted the deletion, by its own clock, if its answer shows that."""


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
        self._unanswered: dict[str, tuple[StalePlugin, float]] = {}
        """Deletions whose response was lost, with their time, by UID of the pod."""
        self.restarted = 0

    def act(self, actions: Sequence[StalePlugin], left: float) -> Iterator[RestartResult]:
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

    def _delete_together(self, actions: Sequence[StalePlugin], end: float) -> Generator[RestartResult, None, bool]:
        """Delete pods concurrently. Return whether all deletions succeeded.

        Successful deletions are reported first, because the result of another one, or a signal, may end the program.
        """
        granted: list[tuple[StalePlugin, datetime | None]] = []

        def ask(action: StalePlugin) -> _Answer:
            answer = self._send(action, end)
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

    def _failed(self, action: StalePlugin, error: ApiError) -> RestartResult | None:
        """Return the result of a deletion that failed; None if it needs a new decision.

        Raise the error if the server's certificate is refused; in a Job also if the account is.
        """
        what = f"node {action.node}: cannot delete plugin pod {action.pod.name}"
        if error.status == NOT_FOUND:
            log.info("%s: it is gone already", what)
            return None
        if error.status == CONFLICT:
            log.info("%s: it has changed since it was read, evaluating it again", what)
            return None
        if error.denied and self._lasting:
            self._not_before = time.monotonic() + DENIED_SECONDS
            return RestartResult(action, trouble=str(error))
        if error.denied or isinstance(error, UntrustedError):
            raise error
        if not error.transient:
            log.warning("%s: %s", what, error)
            return RestartResult(action, refused=str(error))
        self._not_before = max(self._not_before, time.monotonic() + error.retry_after)
        log.warning("%s, trying again: %s", what, error)
        return RestartResult(action, trouble=str(error))

    def _deleted(self, action: StalePlugin, at: datetime | None = None) -> RestartResult:
        pod = action.pod
        self._unanswered.pop(pod.uid, None)
        self.restarted += 1
        note = f"node {action.node}: restarted plugin pod {pod.name}: {action.because}"
        log.info("%s", note, extra={"facts": {"node": action.node, "pod": pod.name, "action": "delete"}})
        return RestartResult(action, note, deleted_at=at)

    def _send(self, action: StalePlugin, end: float) -> _Answer:
        """Delete a pod, if it is still the same object and version. Retry for a short time."""
        pod = action.pod
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
