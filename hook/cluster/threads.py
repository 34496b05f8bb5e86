"""Work beside the loop: several things at once, and things that nobody waits for. No thread outlives the program."""

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
"""For what is under way when the program is told to stop: twice what a busy API server takes for an answer. With the
moment that events have, and the second for a Lease, it is less than the two seconds within which a program ends."""


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result | Exception]:
    """Do the same with several things, a thread each; give what came of each, or what it raised, in order.

    The threads are daemons, unlike those of `concurrent.futures`: who is told to stop meanwhile waits a moment, and not
    for an answer that does not come.
    """
    found: dict[int, Result | Exception] = {}
    complete = threading.Event()

    def do(number: int) -> None:
        try:
            found[number] = work(items[number])
        except Exception as error:  # noqa: BLE001 - given to the caller, who raises it
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
    """Things that are done one after the other by a thread of their own, so that who puts them here goes on."""

    def __init__(self, work: Callable[[Item], None], limit: int) -> None:
        self._work, self._limit = work, limit
        self._waiting: deque[Item] = deque()
        self._busy = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, item: Item) -> bool:
        """Leave something to be done soon; False where too much waits already."""
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
        """Wait until all is done, at most so long, and drop the rest; gives how much that is."""
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
                log.exception("what was left to be done beside the loop failed")
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
