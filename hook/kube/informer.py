"""Informer: list the objects of one resource, watch them from there, and keep them as views.

Each object is reduced to its view as it arrives, so a page is never kept. Each informer has a thread: a dozen, which
mostly wait in a read. A watch ends by itself after about a minute and is continued from its last version, which limits
for how long a broken connection goes unnoticed.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hook.errors import GONE, NOT_FOUND, UNREADABLE, ApiError
from hook.kube import retry
from hook.kube.client import READ_SECONDS
from hook.kube.retry import patiently
from hook.objects import decoding, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from hook.kube.client import Api
    from hook.kube.resources import Resource
    from hook.kube.retry import Patience
    from hook.objects.decoding import Json, Key, Raw, Reader

    Views = dict[Key, Any]
    """By key: a view, or a Malformed. Objects without a view are left out."""

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 60
"""Timeout of a watch. A new watch costs one request."""
WATCH_SPREAD_SECONDS: Final = 15
"""Random part of that timeout, so that the watches do not end at the same time."""
NEXT_WATCH_SECONDS: Final = 0.2
"""Pause between a watch and the next one."""
SHORT_WATCH_SECONDS: Final = 5.0
"""A watch that ends sooner without any event causes backoff, so that a server which ends watches at once is not
flooded with requests."""
LONGEST_GAP_SECONDS: Final = 5.0
"""After a longer time out of sync, the informer lists again. A watch from an old version does not report when it has
caught up, and outdated views must not cause a restart."""
LASTING_SECONDS: Final = 5.0
"""A shorter time out of sync is not reported: watches break from time to time, and are opened again at once."""
ABSENT_SECONDS: Final = 5.0
"""Pause after a list of a kind that the API server does not know. Its CRD may be installed later."""


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """A cache that may be out of date."""

    plural: str
    """The resource."""
    last_synced: float
    """By the monotonic clock."""
    why: str

    @property
    def seconds(self) -> float:
        """Return for how long the cache has been out of sync."""
        return time.monotonic() - self.last_synced

    @property
    def lasting(self) -> bool:
        """Return whether it is worth a report."""
        return self.seconds >= LASTING_SECONDS

    def __str__(self) -> str:
        return f"cannot read {self.plural} for {self.seconds:.0f} s: {self.why}"


@dataclass(frozen=True, slots=True)
class ListWatch:
    """Objects to list and watch, and how they become views."""

    resource: Resource
    read: Reader[Any]


class Listed(NamedTuple):
    """What a list shows."""

    resource: Resource
    """The resource in the version that the API server has."""
    views: Views
    version: str
    """Version from which a watch continues."""


def list_views(  # noqa: PLR0913 - as `patiently` has them
    api: Api,
    list_watch: ListWatch,
    patience: Patience,
    *,
    known: Callable[[Key], Any | None] = lambda _key: None,
    end: float = retry.FOREVER,
    sleep: Callable[[float], None] = time.sleep,
    failed: Callable[[ApiError], object] = lambda _error: None,
) -> Listed | None:
    """List everything in the newest version that the API server has, or return None if it does not know the kind.

    Each page is read patiently. An object whose view is equal to the known one keeps that, so a fleet that is listed
    twice is in memory once.
    """

    def read_page(resource: Resource, token: str, views: Views) -> Json:
        """Add the views of one page. Decoding is part of the attempt, so what is no object of a kind is read again."""
        metadata, objects = api.list_page(resource, token, min(READ_SECONDS, end - time.monotonic()))
        for obj in objects:
            key, view = entry(list_watch.read, resource.kind, obj)
            if view is not None:
                before = known(key)
                views[key] = before if before == view else view
        return metadata

    for resource in list_watch.resource.versions:
        views: Views = {}
        token = ""
        try:
            while True:
                metadata = patiently(partial(read_page, resource, token, views), patience, end, sleep, failed)
                token = str(metadata.get("continue") or "")
                if not token:
                    return Listed(resource, views, str(metadata.get("resourceVersion") or ""))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
    return None


class _StoppedError(Exception):
    """The informer was stopped during a retry."""


class Informer:
    """The current views of the objects of one ListWatch. Its thread writes them, and other threads read copies."""

    def __init__(
        self,
        api: Api,
        list_watch: ListWatch,
        patience: Patience,
        changed: Callable[[Any, Any], None] = lambda _before, _after: None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Call `changed` with the view before and after each change, and with None twice if the state changes.

        It is called within the lock, which several informers may share. Its holder sees a whole change, or none.
        """
        self.absent = False
        """Whether the API server does not know the kind."""
        self.synced = False
        """Whether the first list is complete."""
        self.out_of_sync: OutOfSync | None = None
        """Set while the views may be out of date. Only the thread sets it."""
        self.problem: ApiError | None = None
        """Why the thread ended."""
        self._api, self._changed, self._patience = api, changed, patience
        self.list_watch, self._plural = list_watch, list_watch.resource.plural
        self._watched = list_watch.resource
        """The resource in the version that the API server has."""
        self._lock = lock if lock is not None else threading.RLock()
        """Guards the views and the version, which change together."""
        self._views: Views = {}
        self._version = ""
        """Version up to which the watch has delivered; empty to list again."""
        self._failures = 0
        """Consecutive watches that brought nothing."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{self._plural}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. It is a daemon, so its end need not be awaited."""
        self._stopping.set()

    def views(self) -> tuple[Any, ...]:
        """Return the current views."""
        with self._lock:
            return tuple(self._views.values())

    def read_again(self, end: float) -> tuple[tuple[Any, ...], bool]:
        """List everything now, because a watch may be behind. Return the views, and whether the kind is unknown.

        It ends before `end`, by the monotonic clock. Raises the ApiError that prevented it.
        """
        found = list_views(self._api, self.list_watch, retry.WRITE, known=self._views.get, end=end)
        return ((), True) if found is None else (tuple(found.views.values()), False)

    # List.

    def _list(self) -> None:
        """Replace the views. Afterwards the version is where the watch begins, or empty to list again."""
        patience = self._patience.synced if self.synced else self._patience

        started = time.monotonic()
        try:
            found = list_views(
                self._api,
                self.list_watch,
                patience,
                known=self._views.get,
                sleep=self._sleep,
                failed=self._note_transient,
            )
        except ApiError as error:
            if error.status != GONE:
                raise
            # A page has expired, and pages of two lists are not consistent.
            self._note_failure(error)
            self._sleep(retry.backoff(0))
            return
        if found is None:
            self._replace({}, "", absent=True)
            self._sleep(ABSENT_SECONDS)
            return
        self._watched = found.resource
        self._replace(found.views, found.version, absent=False)
        log.debug("listed %d %s in %.2f s", len(found.views), self._plural, time.monotonic() - started)

    def _replace(self, views: Views, version: str, *, absent: bool) -> None:
        with self._lock:
            before, self._views = self._views, views
            self._version = version
            self.absent, self.synced = absent, True
            for key in before.keys() | views.keys():
                if before.get(key) is not views.get(key):
                    self._changed(before.get(key), views.get(key))
        self.out_of_sync = None
        self._changed(None, None)

    # Watch.

    def _run(self) -> None:
        """List and watch until the informer is stopped or an error needs an administrator."""
        try:
            while not self._stopping.is_set():
                if self._version:
                    self._watch()
                else:
                    self._list()
        except _StoppedError:
            return
        except ApiError as error:
            lasting = type(error) is ApiError and not error.transient
            self.problem = ApiError(error.status, f"cannot watch {self._plural}: {error}") if lasting else error
        except Exception as error:
            log.debug("the informer of %s failed", self._plural, exc_info=True)
            self.problem = ApiError(UNREADABLE, f"cannot watch {self._plural}: {error!r}")
        self._changed(None, None)

    def _watch(self) -> None:
        """Watch once, then pause. Afterwards the version is where the next watch begins, or empty to list again."""
        started, version, is_open = time.monotonic(), self._version, False
        try:
            with ExitStack() as stack:
                events = patiently(
                    partial(self._open, stack), self._patience.synced, sleep=self._sleep, failed=self._note_transient
                )
                started, is_open = time.monotonic(), True
                if self._has_missed_changes():
                    return
                for kind, obj in events:
                    if self._stopping.is_set():
                        return
                    self._apply(kind, obj)
        except ApiError as error:
            lists = error.status in {GONE, NOT_FOUND} or (is_open and error.denied)
            if not lists and not (is_open and error.transient):
                raise
            log.debug("watching %s again: %s", self._plural, error)
            self._note_failure(error)
            if lists:
                self._version = ""
        useful = self._version not in (version, "") or time.monotonic() - started > SHORT_WATCH_SECONDS
        self._failures = 0 if useful else self._failures + 1
        self._sleep(retry.backoff(self._failures) if self._failures > 1 else NEXT_WATCH_SECONDS)

    def _open(self, stack: ExitStack) -> Iterator[tuple[str, Raw]]:
        seconds = WATCH_SECONDS + retry.CHANCE.randrange(WATCH_SPREAD_SECONDS)
        return stack.enter_context(self._api.watch(self._watched, self._version, seconds))

    def _has_missed_changes(self) -> bool:
        """Return whether a gap was so long that a list has to follow. Otherwise the open watch ends the gap."""
        gap = self.out_of_sync
        if gap is not None and gap.seconds > LONGEST_GAP_SECONDS:
            self._version, self._failures = "", 0
            return True
        self.out_of_sync = None
        return False

    def _apply(self, kind: str, obj: Raw) -> None:
        """Apply an event. Most events of a large fleet change no view."""
        if kind == "BOOKMARK":
            with self._lock:
                self._version = decoding.version(obj) or self._version
            return
        key, view = entry(self.list_watch.read, self._watched.kind, obj)
        if kind == "DELETED":
            view = None
        with self._lock:
            before = self._views.get(key)
            if view is None:
                self._views.pop(key, None)
            else:
                self._views[key] = before if view == before else view
            self._version = decoding.version(obj) or self._version
            if view != before:
                self._changed(before, view)

    def _note_failure(self, error: ApiError) -> None:
        """Set `out_of_sync`, with the time of the first failure and the reason of the last one."""
        since = self.out_of_sync.last_synced if self.out_of_sync else time.monotonic()
        self.out_of_sync = OutOfSync(self._plural, since, str(error))

    def _note_transient(self, error: ApiError) -> None:
        if error.transient:
            self._note_failure(error)

    def _sleep(self, seconds: float) -> None:
        """Wait. With endless retries, only an error can end them when the informer is stopped."""
        if self._stopping.wait(seconds):
            raise _StoppedError
