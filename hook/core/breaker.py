"""Stop acting when nodes turn stale in a way that no driver causes: a clock or the API is wrong.

A follower acts while nobody watches. Drivers that reload turn plugins stale, and many may reload at once; but each
of them leaves a trace that no clock can fake: another driver pod, or one more restart of its container. A node
that turns stale without such a trace, by its times alone, is suspect. One of them may be doubt, and is restarted;
more than a share of the fleet within a minute are a fault of clocks, kubelets or the API, and restarting them all
would take down what works. Then the breaker opens: it tells, and nothing is done until a person or a time closes it.

What a follower finds stale at first sight it has not seen turning. That counts by the time when its driver became
ready, so the leftovers of a serial upgrade do not meet within a minute; and not at all where the driver is of a
revision that is younger than the plugin: the API server's own clock then tells that it was a rollout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

WITHIN: Final = timedelta(minutes=1)
"""Nodes that turn stale further apart than this have nothing to do with each other: kubelets that are told to
restart, or clocks that are set, all follow within seconds; a serial upgrade takes two minutes a node."""
FEWEST: Final = 5
"""Fewer nodes are no crowd: that many turn stale together by chance, and four restarts are all there is to save."""


@dataclass(frozen=True, slots=True)
class Sight:
    """How a node was when its driver was last seen settled."""

    load: str
    """Which loading of the driver it was, without any clock: pod, and count of restarts; the same of providers."""
    stale: bool


@dataclass(frozen=True, slots=True)
class Breaker:
    """What one stack's breaker has seen, and whether it is open."""

    opened_at: datetime | None = None
    """None while it is closed."""
    why: str = ""
    """What was seen when it opened."""
    closed_at: datetime | None = None
    """What turned stale no later than this does not count any more."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """By node."""
    turned: Mapping[str, datetime] = field(default_factory=dict)
    """By node: when it turned stale without a reload, within the last minute."""

    @classmethod
    def restored(cls, opened_at: datetime, why: str) -> Breaker:
        """Go on with a breaker that another follower opened."""
        return cls(opened_at=opened_at, why=why)
