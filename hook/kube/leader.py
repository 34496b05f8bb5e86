"""Find the controller of a stack by its Lease, for ``status``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from hook.errors import ApiError
from hook.kube.informer import ListWatch, list_views
from hook.kube.resources import LEASES
from hook.kube.retry import NO_RETRY
from hook.objects import Malformed, names
from hook.objects.decoding import Text, Time  # noqa: TC001 - msgspec evaluates them
from hook.objects.parts import Namespaced
from hook.objects.views import at, reader

if TYPE_CHECKING:
    from hook.kube.client import Api
    from hook.objects.stacks import StackName

READ_SECONDS: Final = 10.0
"""Timeout of the read."""
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
ALIVE_WITHIN: Final = timedelta(seconds=30)
"""A leader renews every two seconds and loses its Lease after 15; clocks may differ by the rest."""


class Lease(Namespaced, frozen=True):
    """Lease of a controller."""

    holder: Annotated[Text, at("spec", "holderIdentity")] = ""
    """Empty: no leader."""
    renewed: Annotated[Time | None, at("spec", "renewTime")] = None

    def alive(self, now: datetime) -> bool:
        """Return whether the controller has a leader, as far as a single read can show."""
        return bool(self.holder) and self.renewed is not None and abs(now - self.renewed) <= ALIVE_WITHIN


read_lease: Final = reader(Lease)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The controllers that were found, and when."""

    now: datetime
    lease: Lease | None = None
    problem: str = ""
    """Why it is not known whether a controller is alive."""

    @property
    def alive(self) -> Lease | None:
        """Return the Lease, if the controller is alive."""
        return self.lease if self.lease is not None and self.lease.alive(self.now) else None


def find_controller(api: Api, stack: StackName) -> Lookup:
    """Find the controller of a stack: of several, the one that renewed its Lease last.

    A missing permission is not an error.
    """
    labels = ",".join(f"{key}={value}" for key, value in {**names.OWN_LABELS, names.OWN_STACK_LABEL: stack}.items())
    leases = ListWatch(LEASES.select(labels=labels), read_lease)
    try:
        listed = list_views(api, leases, NO_RETRY, end=time.monotonic() + READ_SECONDS)
    except ApiError as error:
        return Lookup(datetime.now(UTC), problem=f"cannot read whether a controller is alive: {error}")
    found = listed.views.values() if listed is not None else ()
    broken = next((each.problem for each in found if isinstance(each, Malformed)), "")
    known = [each for each in found if not isinstance(each, Malformed)]
    newest = max(known, key=lambda lease: lease.renewed or LONG_AGO, default=None)
    problem = f"cannot read the Lease of a controller: {broken}" if broken and newest is None else ""
    return Lookup(datetime.now(UTC), newest, problem)
