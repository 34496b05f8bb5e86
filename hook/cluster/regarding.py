"""Event targets: also record the result of a run as Events on the HelmRelease or Application.

No deployment tool copies this program's messages into the status of its own objects. But user interfaces show the
Events of such an object, which they find by its UID.
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
"""Timeout of each request."""
MOST_VERSIONS: Final = 4
"""Most versions of a group in which the kind is searched."""


class Regarding:
    """One event target. The thread that writes Events reads it when there is one to write."""

    def __init__(self, api: Api, named: Regarded) -> None:
        self._api, self._named = api, named
        self._found: Subject | None = None
        self._complained = False

    def __call__(self) -> Subject | None:
        """Return the target, or None if it cannot be read. Then its Events are dropped."""
        if self._found is None:
            try:
                self._found = self._look()
            except (ClusterError, MalformedObjectError) as error:
                level = logging.DEBUG if self._complained else logging.WARNING
                self._complained = True
                log.log(level, "cannot read %s, continuing without Events on it: %s", self._named, error)
        return self._found

    def _look(self) -> Subject:
        """Read the object in the version that the API server prefers, or in another one that has the kind."""
        group = decoding.read(wire.ApiGroup, self._api.send(versions_of(self._resource("")), LOOK_SECONDS))
        found = [*filter(None, (group.preferred_version,)), *(group.versions or ())]
        missing = NotFoundError(f"the API server has no version of {self._named.group}")
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
