"""Objects of the deployer's: what a run ends with is told on them too, beside the condition that their users read.

Nobody writes text of ours into a HelmRelease or an Application. But an Event about one is an object of its own, and
tools that show one show its Events, by its UID.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from hook.cluster.events import Subject
from hook.cluster.requests import Request, Resource
from hook.core.fields import MalformedObjectError, text
from hook.errors import ClusterError

if TYPE_CHECKING:
    from hook.cluster.api import Api
    from hook.settings import Regarded

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""For each of two requests. They stand between a run and its end, so less than an event itself may take."""


class Regarding:
    """One such object. It is looked up when there is something to tell, and when that fails, once more for the end."""

    def __init__(self, api: Api, named: Regarded) -> None:
        self._api, self._named = api, named
        self._found: Subject | None = None
        self._asked = self._complained = False

    def __call__(self) -> Subject | None:
        """Give what events are about; nothing where it cannot be read: then they are left out."""
        if not self._asked:
            self._asked = True
            try:
                self._found = self._look()
            except (ClusterError, MalformedObjectError) as error:
                level = logging.DEBUG if self._complained else logging.WARNING
                self._complained = True
                log.log(level, "cannot read %s, going on without events on it: %s", self._named, error)
        return self._found

    def ask_again(self) -> None:
        """Have it looked up once more if it is not known: what is told last is what people look for."""
        self._asked = self._found is not None

    def _look(self) -> Subject:
        """Read it, in the version that the API server prefers."""
        named = self._named
        group = self._api.send(Request("get", self._resource(""), path=f"/apis/{named.group}"), LOOK_SECONDS)
        version = text(group, "preferredVersion", "version")
        if not version:
            raise MalformedObjectError(f"the API server names no version of {named.group}")
        request = Request("get", self._resource(version), named.namespace, named.name)
        found = self._api.send(request, LOOK_SECONDS)
        return Subject(
            text(found, "apiVersion"), text(found, "kind"), named.namespace, named.name, text(found, "metadata", "uid")
        )

    def _resource(self, version: str) -> Resource:
        return Resource(self._named.group, version, self._named.resource, kind="")
