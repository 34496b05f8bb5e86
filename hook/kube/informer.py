"""Informer: list the objects of one resource, watch them from there, and keep them as views.

Each object is reduced to its view as it arrives, so a page is never kept. Each informer has a thread: a dozen, which
mostly wait in a read.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hook.errors import FORBIDDEN, GONE, NOT_FOUND, UNAUTHORIZED, UNREADABLE, ApiError
from hook.kube import retry
from hook.kube.listing import list_views, version_of
from hook.objects import readers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import urllib3

    from hook.kube.client import Api
    from hook.kube.listing import ListWatch
    from hook.objects.decoding import Key, Raw

Result = TypeVar("Result")

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 60
"""Timeout of a watch. It limits for how long a black-holed connection goes unnoticed. A new watch costs one request."""
WATCH_SPREAD_SECONDS: Final = 15
"""Random part of that timeout, so that the watches do not end at the same time."""
NEXT_WATCH_SECONDS: Final = 0.2
"""Pause between a list or a watch and the next watch."""
SHORT_WATCH_SECONDS: Final = 5.0
"""A watch that ends sooner without any event causes backoff, so that a server which ends watches at once is not
flooded with requests."""
LONGEST_GAP_SECONDS: Final = 5.0
"""After a longer time out of sync, the informer lists again. A watch from an old version does not report when it has
caught up, and outdated views must not cause a restart."""
NEXT_LIST_SECONDS: Final = 5.0
"""Pause after a list that failed."""
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

    def __str__(self) -> str:
        return f"cannot read {self.plural} for {self.seconds:.0f} s: {self.why}"


class _StoppedError(Exception):
    """The informer was stopped during a retry."""


class Informer:
    """The current views of the objects of one ListWatch. Its thread writes them, and other threads read copies."""

    def __init__(
        self,
        api: Api,
        list_watch: ListWatch,
        changed: Callable[[Any, Any], None],
        policy: retry.RetryPolicy,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Call `changed` with the view before and after each change, and with None twice if the state changes.

        It is called within the lock, which several informers may share. Its holder sees a whole change, or none.
        """
        self.list_watch = list_watch
        self.absent = False
        """Whether the API server does not know the kind."""
        self.synced = False
        """Whether the first list is complete."""
        self.out_of_sync: OutOfSync | None = None
        """Set while the views may be out of date. Only the thread sets it."""
        self.problem: ApiError | None = None
        """Why the thread ended."""
        self._api, self._changed = api, changed
        self._options, self._plural = list_watch.options, list_watch.options.resource.plural
        self._before_sync, self._after_sync = policy, retry.synced(policy)
        self._lock = lock if lock is not None else threading.RLock()
        """Guards the attributes that follow, which change together."""
        self._views: dict[Key, Any] = {}
        self._version = ""
        """Version up to which the watch has delivered; empty if there is nothing to watch."""
        self._short_watches = 0
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

    def view(self, key: Key) -> Any | None:  # noqa: ANN401 - the views of any kind
        """Return the current view of one object, or None."""
        with self._lock:
            return self._views.get(key)

    def _run(self) -> None:
        """List and watch until the informer is stopped or an error needs an administrator."""
        try:
            while not self._stopping.is_set():
                self._list()
                self._stopping.wait(NEXT_WATCH_SECONDS)
                while self._version and not self._stopping.is_set():
                    self._watch()
        except _StoppedError:
            return
        except ApiError as error:
            lasting = type(error) is ApiError and not error.transient
            self.problem = ApiError(error.status, f"cannot watch {self._plural}: {error}") if lasting else error
        except Exception as error:
            log.debug("the informer of %s failed", self._plural, exc_info=True)
            self.problem = ApiError(UNREADABLE, f"cannot watch {self._plural}: {error!r}")
        self._changed(None, None)

    def _list(self) -> None:
        policy = self._after_sync if self.synced else self._before_sync
        started = time.monotonic()
        fetch = self._noting_failures(self._api.list_page)
        try:
            views, version = list_views(fetch, self.list_watch, self._retrier(policy), self.view)
        except ApiError as error:
            if error.status == NOT_FOUND:
                self._replace({}, "", absent=True)
                self._stopping.wait(ABSENT_SECONDS)
                return
            # A list may expire again and again while it is read. Only a Job that has not synced yet gives up.
            if not error.unreachable or (not self.synced and self._before_sync is not retry.CONTROLLER):
                raise
            log.warning("listing %s again: %s", self._plural, error)
            self._stopping.wait(NEXT_LIST_SECONDS)
            return
        self._replace(views, version, absent=False)
        log.debug("listed %d %s in %.2f s", len(views), self._plural, time.monotonic() - started)

    def _watch(self) -> None:
        """Watch once. After that the version is where the next watch begins, or empty to list again."""
        seconds = WATCH_SECONDS + retry.CHANCE.randrange(WATCH_SPREAD_SECONDS)
        request, version = self._options.watch(self._version, seconds), self._version
        started, retry_after = time.monotonic(), 0.0
        try:
            open_watch = self._noting_failures(self._api.open_watch)
            response = self._retrier(self._after_sync)(open_watch, request, seconds)
            started = time.monotonic()
            self._receive(response)
        except ApiError as error:
            if error.status in {GONE, NOT_FOUND}:
                self._version = ""
            elif not error.transient or error.status in {UNAUTHORIZED, FORBIDDEN}:
                raise
            # A watch that was open and broke is no failed attempt, so the retries of the next one start again.
            log.debug("watching %s again: %s", self._plural, error)
            self._note_failure(error)
            retry_after = error.retry_after
        useful = self._version not in (version, "") or time.monotonic() - started > SHORT_WATCH_SECONDS
        self._short_watches = 0 if useful else self._short_watches + 1
        pause = retry.backoff(self._short_watches) if self._short_watches > 1 else NEXT_WATCH_SECONDS
        self._stopping.wait(max(retry_after, pause))

    def _receive(self, response: urllib3.BaseHTTPResponse) -> None:
        """Apply the events of an open watch."""
        gap = self.out_of_sync
        if gap is not None and gap.seconds > LONGEST_GAP_SECONDS:
            response.close()
            raise ApiError(GONE, f"the changes of {gap.seconds:.0f} s are not known")
        self.out_of_sync = None
        for kind, obj in self._api.events(response, self._options.resource):
            if self._stopping.is_set():
                return
            self._handle(kind, obj)

    def _handle(self, kind: str, obj: Raw) -> None:
        if kind == "ERROR":
            error = self._api.watch_error(self._options, obj)
            if error.status in {UNAUTHORIZED, FORBIDDEN}:
                # It may pass. The list that follows is retried for that, and may end the informer.
                raise ApiError(GONE, str(error)) from error
            raise error
        if kind == "BOOKMARK":
            with self._lock:
                self._version = version_of(obj) or self._version
        else:
            self._apply(kind, obj)

    def _apply(self, kind: str, obj: Raw) -> None:
        """Apply an event. Most events of a large fleet change no view."""
        key, version, view = readers.entry(self.list_watch.read, self._options.resource.kind, obj)
        if kind == "DELETED":
            view = None
        with self._lock:
            before = self._views.get(key)
            if view is None:
                self._views.pop(key, None)
            else:
                self._views[key] = before if view == before else view
            self._version = version or self._version
            if view != before:
                self._changed(before, view)

    def _replace(self, views: dict[Key, Any], version: str, *, absent: bool) -> None:
        with self._lock:
            before, self._views = self._views, views
            self._version = version
            self.absent, self.synced = absent, True
            for key in before.keys() | views.keys():
                if before.get(key) is not views.get(key):
                    self._changed(before.get(key), views.get(key))
        self.out_of_sync = None
        self._changed(None, None)

    def _note_failure(self, error: Exception) -> None:
        """Set `out_of_sync`, with the time of the first failure and the reason of the last one."""
        since = self.out_of_sync.last_synced if self.out_of_sync else time.monotonic()
        self.out_of_sync = OutOfSync(self._plural, since, str(error))

    def _noting_failures(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """Return a function that notes each failure, so that retries do not hide it."""

        def call(*arguments: object) -> Result:
            try:
                return function(*arguments)
            except ApiError as error:
                if error.transient:
                    self._note_failure(error)
                raise

        return call

    def _retrier(self, policy: retry.RetryPolicy) -> retry.Retrier:
        return retry.retrying(policy, self._sleep)

    def _sleep(self, seconds: float) -> None:
        """Wait before a retry. With endless retries, only an error can end them when the informer is stopped."""
        if self._stopping.wait(seconds):
            raise _StoppedError
