"""Count what goes wrong on the way to the API server, for whoever wants to show it; costs a lock and an addition."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hook.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENDED: Final = "Ended"
"""Why a watch is opened again: its time was over, as agreed with the server."""

Failure = tuple[str, str, str]
"""Kind, verb, resource."""
Restart = tuple[str, str]
"""Resource, and why its watch was opened again: ``ENDED`` or a kind of error."""


def kind_of(error: ClusterError) -> str:
    """Name an error by its class, as reasons are written: there are as many kinds as classes."""
    return type(error).__name__.removesuffix("Error")


class Counters:
    """Counts of one connection since its start. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors: Counter[Failure] = Counter()
        self._watches: Counter[Restart] = Counter()

    @contextmanager
    def counting(self, verb: str, resource: str) -> Iterator[None]:
        """Count an error that ends what is done inside."""
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
        """Count a watch that will be opened again."""
        with self._lock:
            self._watches[resource, why] += 1

    @property
    def errors(self) -> Mapping[Failure, int]:
        """Return the errors counted so far."""
        with self._lock:
            return dict(self._errors)

    @property
    def watches(self) -> Mapping[Restart, int]:
        """Return the watches that ended so far."""
        with self._lock:
            return dict(self._watches)
