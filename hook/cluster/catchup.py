"""Prove that what the watches show is as new as a consistent read, without reading everything again.

A consistent list of one object says at which version a kind is now. A watch that goes on from what was already seen,
and in which the server's own bookmark says that everything up to that version was sent, is then as good as a list.
Such a watch is opened anew: the one that runs may be behind, or cut off. What it brings is put on a copy of what was
seen. Where no bookmark comes, or versions do not compare, nothing is proven and the kind must be listed
(docs/decisions/0013-catch-up-instead-of-listing-again.md).
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hook.cluster.listing import key_of, version_of
from hook.errors import ClusterError, ThrottledError, UnreachableError
from hook.objects import readers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import urllib3

    from hook.cluster.api import Api
    from hook.cluster.requests import Selection
    from hook.objects.decoding import Key, Raw, Reader

log = logging.getLogger(__name__)

SPANS: Final = (3, 10)
"""Seconds for which a server agrees to watch; it sends a bookmark up to two seconds before the end (K8S
``apiserver/pkg/storage/cacher/cache_watcher.go``, ``nextBookmarkTime``), looking once a second: one of three seconds
is the shortest that has one. A server that is busy, or another one than was asked for the version, may need longer."""
SLACK_SECONDS: Final = 2.0
"""A server that is silent for longer than it agreed to is not worth waiting for: a list tells more."""
ASK_SECONDS: Final = 15.0
"""For a list of one object; it took under four on a machine with nine times the load that it has cores for."""
ORDERED: Final = re.compile("[1-9][0-9]*")
"""Versions that compare as numbers of any length (Kubernetes API concepts, "Resource versions")."""


def at_least(version: str, wanted: str) -> bool:
    """Whether a version of a kind is as new as another one. False also where they are no numbers."""
    if not (ORDERED.fullmatch(version) and ORDERED.fullmatch(wanted)):
        return False
    return (len(version), version) >= (len(wanted), wanted)


@dataclass(slots=True)
class Chase:
    """One selection on its way from what its watch has shown to what is there now."""

    selection: Selection
    read: Reader[Any]
    views: dict[Key, Any]
    """A copy, taken before the version that is wanted was asked for; nobody else changes it."""
    version: str
    """Where to go on; empty where a list was not followed by a watch."""
    wanted: str = ""
    proven: bool = False
    lost: bool = False
    """There is no point in trying again."""
    watch: urllib3.BaseHTTPResponse | None = None

    @property
    def ended(self) -> bool:
        """It is proven, or will not be."""
        return self.proven or self.lost or not self.version

    def set_out(self, api: Api, seconds: int, end: float) -> None:
        """Ask at which version the kind is now, and watch from where we are; both end by `end` (monotonic).

        Also the second time: to answer, a server brings its own cache up to date, and with it our bookmark.
        """
        meta, _one = api.list_page(self.selection.newest(), min(ASK_SECONDS, end - time.monotonic()))
        if not self.wanted:
            self.wanted = str(meta["resourceVersion"])
            ahead = at_least(self.version, self.wanted)
            # Nothing happened since: a watch would bring no bookmark, because it would be of no later version.
            self.proven = ahead and self.version == self.wanted
            # What we saw is of a later version than there is: the cluster was set back, and what we saw is gone.
            self.lost = ahead and not self.proven
        if self.ended:
            return
        self.watch = api.open_watch(self.selection.watch(self.version, seconds), seconds, SLACK_SECONDS, end)

    def follow(self, api: Api) -> None:
        """Take what the watch sends, until a bookmark says that this was everything up to what is wanted."""
        if self.watch is None:
            return
        response, self.watch = self.watch, None
        for kind, obj in api.events(response, self.selection.resource):
            if kind == "ERROR":
                raise api.watch_error(self.selection, obj)
            if kind != "BOOKMARK":
                self._take(kind, obj)
            self.version = version_of(obj) or self.version
            if kind == "BOOKMARK" and at_least(self.version, self.wanted):
                self.proven = True
                return

    def _take(self, kind: str, obj: Raw) -> None:
        if kind == "DELETED":
            self.views.pop(key_of(obj), None)
        else:
            key, _version, view = readers.entry(self.read, self.selection.resource.kind, obj)
            self.views[key] = view


def catch_up(api: Api, chases: Sequence[Chase], end: float) -> None:
    """Prove what can be proven before `end` (monotonic); whatever is not must be listed.

    All watches are opened before the first is read, so that all together take as long as one.
    """
    for seconds in SPANS:
        going = [chase for chase in chases if not chase.ended]
        for step in (lambda chase, span=seconds: chase.set_out(api, span, end), lambda chase: chase.follow(api)):
            for chase in going:
                if time.monotonic() > end or not _stepped(chase, step):
                    _close(going)
                    return


def _stepped(chase: Chase, step: Callable[[Chase], None]) -> bool:
    """Do a step. False where the server cannot be reached: then asking for another kind will not help."""
    try:
        step(chase)
    except (UnreachableError, ThrottledError) as error:
        log.debug("cannot catch up with %s: %s", chase.selection.resource.plural, error)
        return False
    except ClusterError as error:
        log.debug("cannot catch up with %s: %s", chase.selection.resource.plural, error)
        chase.lost = True
    return True


def _close(chases: Sequence[Chase]) -> None:
    for chase in chases:
        if chase.watch is not None:
            chase.watch.close()
