"""Objects of the deployer's: what a run ends with is told on them too, beside the condition that their users read.

Nobody writes text of ours into a HelmRelease or an Application. But an Event about one is an object of its own, and
tools that show one show its Events, by its UID.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hook.cluster.events import Subject
from hook.cluster.requests import Request, Resource, versions_of
from hook.errors import ClusterError, NotFoundError
from hook.objects import decoding, wire
from hook.objects.decoding import MalformedObjectError

if TYPE_CHECKING:
    from hook.cluster.api import Api
    from hook.objects.decoding import Json
    from hook.settings import Regarded

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""For each request; a server that takes longer to show one object will not take an event of it either."""
MOST_VERSIONS: Final = 4
"""Of a group, in which its kind is looked for."""


class Regarding:
    """One such object. It is looked up when there is something to tell, by the thread that writes events."""

    def __init__(self, api: Api, named: Regarded) -> None:
        self._api, self._named = api, named
        self._found: Subject | None = None
        self._complained = False

    def __call__(self) -> Subject | None:
        """Give what events are about; nothing where it cannot be read: then they are left out."""
        if self._found is None:
            try:
                self._found = self._look()
            except (ClusterError, MalformedObjectError) as error:
                level = logging.DEBUG if self._complained else logging.WARNING
                self._complained = True
                log.log(level, "cannot read %s, going on without events on it: %s", self._named, error)
        return self._found

    def _look(self) -> Subject:
        """Read it in the version that the API server prefers, or in another: several kinds may share a group."""
        group = decoding.read(wire.ApiGroup, self._api.send(versions_of(self._resource("")), LOOK_SECONDS))
        found = [*filter(None, (group.preferred_version,)), *(group.versions or ())]
        missing = NotFoundError(f"the API server names no version of {self._named.group}")
        for version in list(dict.fromkeys(each.version for each in found))[:MOST_VERSIONS]:
            request = Request("get", self._resource(version), self._named.namespace, self._named.name)
            try:
                return self._subject(self._api.send(request, LOOK_SECONDS))
            except NotFoundError as error:
                missing = error
        raise missing

    def _subject(self, found: Json) -> Subject:
        named, target = self._named, decoding.read(wire.EventTarget, found)
        return Subject(target.api_version, target.kind, named.namespace, named.name, target.metadata.uid)

    def _resource(self, version: str) -> Resource:
        return Resource(self._named.group, version, self._named.resource, kind="")
