"""Run work in threads: several calls concurrently, or a queue in the background. No thread outlives the program."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from hook.errors import TerminatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger(__name__)

STOPPED_SECONDS: Final = 0.2
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
        complete.wait(STOPPED_SECONDS)
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
