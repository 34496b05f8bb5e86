"""Count failed requests to the API server, and restarts of watches."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hook.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENDED: Final = "Ended"
"""Reason for the restart of a watch: its timeout ended."""

Failure = tuple[str, str, str]
"""Kind, verb, resource."""
Restart = tuple[str, str]
"""Resource, and why its watch was restarted: ``ENDED`` or a kind of error."""


def kind_of(error: ClusterError) -> str:
    """Return the class name of an error in the style of reasons."""
    return type(error).__name__.removesuffix("Error")


class Counters:
    """Counters of one client since its start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: Counter[Failure] = Counter()
        self._watches: Counter[Restart] = Counter()

    @contextmanager
    def counting(self, verb: str, resource: str) -> Iterator[None]:
        """Count a ClusterError that is raised inside the context."""
        try:
            yield
        except ClusterError as error:
            self.failed(error, verb, resource)
            raise

    def failed(self, error: ClusterError, verb: str, resource: str) -> None:
        """Count an error."""
        with self._lock:
            self._errors[kind_of(error), verb, resource] += 1

    def watch_ended(self, resource: str, why: str) -> None:
        """Count a watch that will be restarted."""
        with self._lock:
            self._watches[resource, why] += 1

    @property
    def errors(self) -> Mapping[Failure, int]:
        """Return the number of errors by kind, verb and resource."""
        with self._lock:
            return dict(self._errors)

    @property
    def watches(self) -> Mapping[Restart, int]:
        """Return the number of ended watches by resource and reason."""
        with self._lock:
            return dict(self._watches)
