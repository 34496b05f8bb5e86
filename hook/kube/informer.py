"""Informer: list one resource, watch it from there, and keep its objects as views.

Each object is cut down to its view as it arrives, so a page is never kept. A thread per selection:
a dozen, mostly asleep in a read.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hook.errors import (
    ClusterError,
    GoneError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    ThrottledError,
    UnauthorizedError,
    UnreachableError,
)
from hook.kube import retry
from hook.kube.connection import ENDED, kind_of
from hook.kube.listing import Contents, list_views, version_of
from hook.objects import readers
from hook.objects.views import Malformed, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import urllib3

    from hook.kube.client import Api
    from hook.kube.requests import ListOptions
    from hook.objects.decoding import Key, Raw, Reader

Answer = TypeVar("Answer")

LOSSES: Final = (UnreachableError, ThrottledError, UnauthorizedError, PermissionDeniedError)
"""Trouble that may pass, and that keeps us from seeing what happens meanwhile."""


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """Contact that broke off, and is not back."""

    plural: str
    since: float
    """By the monotonic clock."""
    why: str

    @property
    def seconds(self) -> float:
        """For how long."""
        return time.monotonic() - self.since

    def __str__(self) -> str:
        return f"cannot read {self.plural} for {self.seconds:.0f} s: {self.why}"


class Contact:
    """The contact of one reflector. It is one thread that writes, and another one that reads."""

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self.lost: OutOfSync | None = None

    def break_off(self, error: Exception) -> None:
        """Note that it is lost; the first moment and the last reason count."""
        since = self.lost.since if self.lost else time.monotonic()
        self.lost = OutOfSync(self._plural, since, str(error))

    def restore(self) -> None:
        """Note that what is known is of now."""
        self.lost = None

    def watched(self, function: Callable[..., Answer]) -> Callable[..., Answer]:
        """Note each failure of a function that is tried again and again."""

        def call(*arguments: object) -> Answer:
            try:
                return function(*arguments)
            except LOSSES as error:
                self.break_off(error)
                raise

        return call


POLICIES, POOLS, DAEMON_SETS, NODES, SLICES = "policies", "pools", "daemonsets", "nodes", "slices"
DRIVER_PODS, PREREQUISITE_PODS, PLUGIN_PODS, REVISIONS = "driver_pods", "provider_pods", "consumers", "revisions"
DEPLOYMENTS, REPLICA_SETS, LEASES = "deployments", "replicasets", "leases"
INTENT = frozenset({POLICIES, POOLS, DAEMON_SETS})
"""Parts that tell what else is worth looking at."""


@dataclass(frozen=True, slots=True)
class Source:
    """One selection and how to read it."""

    selection: ListOptions
    read: Reader[Any]


Found = dict[Source, tuple[tuple[Any, ...], bool]]
"""By source: its views, and whether the API server does not know the kind."""


def assembled(filled: Mapping[Source, str], views: Found) -> Snapshot:
    """Put together what one stack's sources show, each of which fills a part."""
    parts: dict[str, list[Any]] = {}
    absent: set[str] = set()
    for source, part in filled.items():
        if source not in views:
            continue
        found, unknown = views[source]
        parts.setdefault(part, []).extend(found)
        if unknown:
            absent.add(part)
    malformed = tuple(one for part in parts.values() for one in part if isinstance(one, Malformed))
    good = {part: tuple(one for one in found if not isinstance(one, Malformed)) for part, found in parts.items()}
    return Snapshot(
        policies=None if POLICIES in absent else good.get(POLICIES, ()),
        pools=good.get(POOLS, ()),
        nodes={node.name: node for node in good.get(NODES, ())},
        daemonsets=good.get(DAEMON_SETS, ()),
        revisions=_once(good.get(REVISIONS, ())),
        driver_pods=_once(good.get(DRIVER_PODS, ())),
        prerequisite_pods=good.get(PREREQUISITE_PODS, ()),
        plugin_pods=_once(good.get(PLUGIN_PODS, ())),
        slices=None if SLICES in absent or SLICES not in good else good[SLICES],
        deployments=good.get(DEPLOYMENTS, ()),
        replicasets=good.get(REPLICA_SETS, ()),
        leases=good.get(LEASES, ()),
        malformed=malformed,
    )


def _once(found: Iterable[Any]) -> tuple[Any, ...]:
    """Let an object count once: selectors may overlap (v0.4.0 pods carry the labels of both charts)."""
    return tuple({getattr(one, "uid", "") or (one.namespace, one.name): one for one in found}.values())


log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 60
"""Short watches bound how long a black-holed one can blind us; restarting one costs a request."""
WATCH_SPREAD_SECONDS: Final = 15
ABSENT_SECONDS: Final = 5.0
"""How often to ask again for a kind that the API server does not know (a CRD to come)."""
BREATH_SECONDS: Final = 0.2
"""Between watches that end by themselves."""
FRUITLESS_SECONDS: Final = 5.0
"""A watch that ends sooner, without any event, brought nothing: the next one waits longer, so that a server that
ends them at once is not hammered."""
GAP_SECONDS: Final = 5.0
"""After a longer outage we list again: a watch that goes on from an old version does not say when it has caught up,
and nothing may be restarted on what was true a minute ago."""


class _StoppedError(Exception):
    """Told to stop while something was tried again."""


class Informer:
    """The current views of one selection, kept by a thread of its own."""

    def __init__(
        self,
        api: Api,
        selection: ListOptions,
        read: Reader[Any],
        changed: Callable[[], None],
        patience: retry.RetryPolicy,
    ) -> None:
        self.selection = selection
        self.read = read
        self.absent = False
        """The API server does not know the kind."""
        self.problem: ClusterError | None = None
        """Why this reflector gave up."""
        self.contact = Contact(selection.resource.plural)
        self._api = api
        self._changed = changed
        self._starting, self._watching = patience, retry.synced(patience)
        self._views: dict[Key, Any] = {}
        self._changes: dict[Key, str] = {}
        """Versions that the watch has brought since the last list."""
        self._listed = self._version = ""
        """Versions of that list, and of where the watch is; empty where nothing can be watched."""
        self._fruitless = 0
        self._synced = False
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch-{selection.resource.plural}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end; it is a daemon and need not be waited for."""
        self._stopping.set()

    @property
    def synced(self) -> bool:
        """The first list is in."""
        return self._synced

    def views(self) -> tuple[Any, ...]:
        """Give what is known now."""
        with self._lock:
            return tuple(self._views.values())

    def contents(self) -> Contents:
        """Return a copy of what is known now, and of which versions it is."""
        with self._lock:
            return Contents(dict(self._views), dict(self._changes), self._listed, self._version)

    def view(self, key: Key) -> Any | None:  # noqa: ANN401 - whatever `read` gives
        """Give what is known now of one object."""
        with self._lock:
            return self._views.get(key)

    def _run(self) -> None:
        """List and watch until told to stop, or until only a person can help."""
        try:
            while not self._stopping.is_set():
                self._list()
                self._stopping.wait(BREATH_SECONDS)
                while self._version and not self._stopping.is_set():
                    self._watch()
        except _StoppedError:
            return
        except RejectedError as error:
            self.problem = RejectedError(f"cannot follow {self.selection.resource.plural}: {error}")
        except ClusterError as error:
            self.problem = error
        except Exception as error:
            log.debug("a watch of %s failed", self.selection.resource.plural, exc_info=True)
            self.problem = RejectedError(f"cannot follow {self.selection.resource.plural}: {error!r}")
        self._changed()

    def _list(self) -> None:
        patience = self._watching if self._synced else self._starting
        started = time.monotonic()
        fetch = self.contact.watched(self._api.list_page)
        try:
            views, version = list_views(fetch, self.selection, self.read, self._retrier(patience), self.view)
        except NotFoundError:
            self._replace({}, "", absent=True)
            self._stopping.wait(ABSENT_SECONDS)
            return
        except UnreachableError as error:
            if not self._synced and self._starting is not retry.CONTROLLER:
                raise
            # What was read once is outlived, also a list that expires again and again while it is read; by who
            # follows, from the beginning.
            log.warning("listing %s again: %s", self.selection.resource.plural, error)
            self._stopping.wait(GAP_SECONDS)
            return
        self._replace(views, version, absent=False)
        log.debug("listed %d %s in %.2f s", len(views), self.selection.resource.plural, time.monotonic() - started)

    def _watch(self) -> None:
        """Follow changes once; afterwards the version says where to go on, or is empty to list again."""
        seconds = WATCH_SECONDS + random.randrange(WATCH_SPREAD_SECONDS)  # noqa: S311 - jitter, not a secret
        request, version, asked = self.selection.watch(self._version, seconds), self._version, 0.0
        started, why = time.monotonic(), ENDED
        try:
            response = self._retrier(self._watching)(self.contact.watched(self._api.open_watch), request, seconds)
            started = time.monotonic()
            self._follow(response)
        except (GoneError, NotFoundError) as error:
            why = kind_of(error)
            log.debug("listing %s again: %s", self.selection.resource.plural, error)
            self.contact.break_off(error)
            self._version = ""
        except (UnreachableError, ThrottledError) as error:
            # A watch that was open and broke off is no failed attempt: the next one starts with new patience.
            why = kind_of(error)
            log.debug("watching %s again: %s", self.selection.resource.plural, error)
            self.contact.break_off(error)
            asked = retry.retry_after(error)
        self._api.counters.watch_ended(self.selection.resource.grant, why)
        brought = self._version not in (version, "") or time.monotonic() - started > FRUITLESS_SECONDS
        self._fruitless = 0 if brought else self._fruitless + 1
        self._stopping.wait(max(asked, retry.backoff(self._fruitless) if self._fruitless > 1 else BREATH_SECONDS))

    def _follow(self, response: urllib3.BaseHTTPResponse) -> None:
        """Take what an open watch sends."""
        lost = self.contact.lost
        if lost is not None and lost.seconds > GAP_SECONDS:
            response.close()
            raise GoneError(f"what happened in {lost.seconds:.0f} s is not known")
        self.contact.restore()
        for kind, obj in self._api.events(response, self.selection.resource):
            if self._stopping.is_set():
                return
            self._apply(kind, obj)

    def _apply(self, kind: str, obj: Raw) -> None:
        if kind == "ERROR":
            error = self._api.watch_error(self.selection, obj)
            if isinstance(error, UnauthorizedError | PermissionDeniedError):
                # It may pass: the list that follows has the patience for it, and the right to give up.
                raise GoneError(str(error)) from error
            raise error
        if kind == "BOOKMARK":
            with self._lock:
                self._version = version_of(obj) or self._version
        elif self._take(kind, obj):
            self._changed()

    def _take(self, kind: str, obj: Raw) -> bool:
        """Keep what an event brings. Whether it tells anything new: most of a busy fleet's events do not."""
        key, version, view = readers.entry(self.read, self.selection.resource.kind, obj)
        if kind == "DELETED":
            view = None
        with self._lock:
            before = self._views.get(key)
            if view is None:
                self._views.pop(key, None)
                self._changes.pop(key, None)
            else:
                self._views[key] = before if view == before else view
                self._changes[key] = version
            self._version = version or self._version
        return bool(view != before)

    def _replace(self, views: dict[Key, Any], version: str, *, absent: bool) -> None:
        with self._lock:
            self._views, self._changes, self._listed, self._version = views, {}, version, version
            self.absent, self._synced = absent, True
        self.contact.restore()
        self._changed()

    def _retrier(self, patience: retry.RetryPolicy) -> retry.Retrier:
        return retry.retrying(patience, self._sleep)

    def _sleep(self, seconds: float) -> None:
        """Wait before another try. Who was told to stop makes none: with endless patience it would never end."""
        if self._stopping.wait(seconds):
            raise _StoppedError
