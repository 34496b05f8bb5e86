"""Stop acting when nodes turn stale in a way that no driver causes: then a clock or the API is wrong.

A follower acts while nobody watches. Drivers that reload turn plugins stale, and many may reload at once; but a
reload leaves a trace that no clock can fake: another driver pod, or one more restart of its container. A node that
turns stale without such a trace does so by times alone: it is suspect, and is held for a minute. One that stays alone
is restarted then, because it may be doubt. More than a share of the fleet within that minute are a fault of clocks,
kubelets or the API, and restarting them would take down what works: so the breaker opens before any of them was, and
nothing at all is done until a person or a time closes it.

What is stale at first sight was not seen turning. It counts by the time when its driver became ready, so that what
a serial upgrade left behind does not come together within a minute; and not at all where the driver's revision is
younger than the plugin: that was a rollout, unless the node's clock is behind the API server's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.core import freshness
from hook.core.eligibility import live_pods
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import moment, some
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.operator import Hold
    from hook.core.verdicts import Judgement
    from hook.objects.views import Pod
    from hook.settings import Bound, Settings

WITHIN: Final = timedelta(minutes=1)
"""How long a suspect is held. Nodes that turn stale further apart have nothing to do with each other: kubelets that
are restarted by a tool, and clocks that are set, follow within seconds; a serial upgrade takes two minutes a node."""
FEWEST: Final = 5
"""Fewer nodes are no crowd: so many turn stale together by chance, and four restarts are all there is to save."""
WHOLE: Final = 100
SERVED: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})


@dataclass(frozen=True, slots=True)
class Sight:
    """How a node was when its plugins were last known to be stale, or fresh."""

    load: str
    """Which loading of its driver that was, told without any clock."""
    stale: bool


@dataclass(frozen=True, slots=True)
class Breaker:
    """What one stack's breaker has seen, and whether it is open."""

    opened_at: datetime | None = None
    """None while it is closed."""
    why: str = ""
    """What was seen when it opened."""
    closed_at: datetime | None = None
    """What turned stale no later than this does not count any more: it shall be served. None once all is served."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """By node."""
    turned: Mapping[str, datetime] = field(default_factory=dict)
    """By node that turned stale without a reload within the last minute: when it did."""

    def closed(self, now: datetime) -> Breaker:
        """Close it; what is stale by now is served."""
        return replace(self, opened_at=None, why="", closed_at=now, turned={})


def watched(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Note which nodes turned stale, and open or close. Only a run that follows has a breaker."""
    if not fleet.settings.follow:
        return breaker
    breaker = _closed_in_time(_no_later(breaker, now), fleet.settings, now)
    breaker = replace(breaker, closed_at=None) if _all_served(judgements) else breaker
    sights = _sights(judgements, fleet)
    moments = {node: _turned(node, sight, breaker, fleet, now) for node, sight in sights.items()}
    since = breaker.closed_at
    new = {node: when for node, when in moments.items() if when is not None and (since is None or when > since)}
    turned = {node: when for node, when in breaker.turned.items() if now - when <= WITHIN} | new
    known = {node: sight for node, sight in breaker.sights.items() if node in fleet.seen.nodes}
    unseen = {node: Sight("", stale=False) for node in _unloaded(judgements, fleet)}
    return _opened(replace(breaker, sights=unseen | known | sights, turned=turned), judgements, fleet, now)


def suspect(judged: Judgement, breaker: Breaker, now: datetime) -> bool:
    """Whether a node turned stale without a reload so shortly ago that others may follow it."""
    turned = breaker.turned.get(judged.node)
    return turned is not None and now - turned <= WITHIN


def held_open(breaker: Breaker, settings: Settings) -> Hold | None:
    """Say why nothing is done while the breaker is open, and when that ends."""
    if breaker.opened_at is None:
        return None
    until = f" by itself at {moment(breaker.opened_at + settings.breaker_reset)}" if settings.breaker_reset else ""
    word = " or" if until else " only"
    told = f"{breaker.why} (seen at {moment(breaker.opened_at)})"
    return Reason.BREAKER_OPEN, f"{told}; nothing is restarted until the breaker closes,{until}{word} by a person"


def _no_later(breaker: Breaker, now: datetime) -> Breaker:
    """Move what is still to come to now: the API server's clock was ahead, and was set right since."""
    return replace(
        breaker,
        opened_at=breaker.opened_at and min(breaker.opened_at, now),
        closed_at=breaker.closed_at and min(breaker.closed_at, now),
        turned={node: min(when, now) for node, when in breaker.turned.items()},
    )


def _closed_in_time(breaker: Breaker, settings: Settings, now: datetime) -> Breaker:
    """Close a breaker whose time is over, or that shall never be open (any more)."""
    if breaker.opened_at is None:
        return breaker
    over = settings.breaker_reset and now - breaker.opened_at >= settings.breaker_reset
    return breaker.closed(now) if over or _never(settings.breaker_share) else breaker


def _all_served(judgements: Sequence[Judgement]) -> bool:
    """Whether nobody is left of those for whom a breaker was closed: whoever is stale next is another crowd.

    A fleet that is left alone as a whole was not served: its labels may be gone for a moment.
    """
    states = {one.state for one in judgements}
    return NodeState.VERIFIED in states and states <= SERVED


def _opened(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Open it if a crowd turned stale. Where none ever could, nobody is suspect."""
    eligible = {one.node for one in judgements if one.state is not NodeState.EXCLUDED}
    share = fleet.settings.breaker_share
    if _never(share) or not _is_crowd(len(eligible), eligible, share):
        return replace(breaker, turned={})
    crowd = _crowd({node: when for node, when in breaker.turned.items() if node in eligible})
    if breaker.opened_at is not None or not _is_crowd(len(crowd), eligible, share):
        return breaker
    what = "turned stale within a minute (or their drivers became ready so, before the first look)"
    why = f"{len(crowd)} of {len(eligible)} nodes {what}, and no reload of their drivers was seen"
    return replace(breaker, opened_at=now, why=f"{why}: {some(crowd)}")


def _is_crowd(count: int, eligible: Collection[str], share: Bound) -> bool:
    return count >= FEWEST and share.exceeded_by(count, len(eligible))


def _never(share: Bound) -> bool:
    return not share.value or (share.percent and share.value >= WHOLE)


def _sights(judgements: Iterable[Judgement], fleet: Fleet) -> dict[str, Sight]:
    """Look at each node whose driver is settled: one stale consumer makes it stale, it takes all to be fresh."""
    seen: dict[str, list[Reason]] = {}
    for one in judgements:
        if one.consumer and one.reason is not Reason.NOTHING_TO_REFRESH and _drivers(one.node, fleet):
            seen.setdefault(one.node, []).append(one.reason)
    sights: dict[str, Sight] = {}
    for node, reasons in seen.items():
        fresh = all(Trait.FRESH in reason.traits for reason in reasons)
        if fresh or any(Trait.STALE in reason.traits for reason in reasons):
            sights[node] = Sight(_load(node, fleet), stale=not fresh)
    return sights


def _unloaded(judgements: Iterable[Judgement], fleet: Fleet) -> Iterable[str]:
    """Give the nodes without a ready driver: what is loaded there next was seen coming."""
    return (one.node for one in judgements if not any(pod.ready for pod in _drivers(one.node, fleet)))


def _load(node: str, fleet: Fleet) -> str:
    return freshness.load(_drivers(node, fleet)[0], live_pods(fleet.provider_pods.get(node, ())), fleet.stack)


def _drivers(node: str, fleet: Fleet) -> list[Pod]:
    return live_pods(fleet.driver_pods.get(node, ()))


def _turned(node: str, sight: Sight, breaker: Breaker, fleet: Fleet, now: datetime) -> datetime | None:
    """Give the moment since which a node is stale, if it became so without a reload; None for any other node."""
    before = breaker.sights.get(node)
    if not sight.stale:
        return None
    if before is None:
        return None if _rolled_out(node, fleet) else _ready(node, fleet, now)
    return now if before.load == sight.load and not before.stale else None


def _ready(node: str, fleet: Fleet, now: datetime) -> datetime:
    """Give when a node's driver became ready: by its own clock, which may be ahead."""
    return min(_drivers(node, fleet)[0].containers_ready_since or now, now)


def _rolled_out(node: str, fleet: Fleet) -> bool:
    """Whether a driver's revision was made after a consumer there had started."""
    revision = fleet.newest.get(_drivers(node, fleet)[0].owner_uid)
    pods = live_pods(fleet.consumer_pods[node])
    starts = (one.started_at for pod in pods for one in pod.containers)
    return revision is not None and any(start is not None and start < revision.created for start in starts)


def _crowd(turned: Mapping[str, datetime]) -> list[str]:
    """Give the most nodes that turned stale within a minute of each other."""
    in_turn = sorted(turned, key=lambda node: (turned[node], node))
    best: list[str] = []
    first = 0
    for last, node in enumerate(in_turn):
        while turned[node] - turned[in_turn[first]] > WITHIN:
            first += 1
        if last - first + 1 > len(best):
            best = in_turn[first : last + 1]
    return best
