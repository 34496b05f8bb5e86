"""Circuit breaker: stop restarts when many nodes become stale without a driver reload.

A driver reload makes plugins stale and leaves a trace that does not depend on clocks: a new driver pod, or one more
restart of its container. A node that becomes stale without such a trace does so by timestamps alone: its staleness is
unexplained. The controller holds such a node for a minute. If few others follow, it restarts the plugin then. If more
than a share of the fleet becomes stale within that minute, a clock, a kubelet or the API is wrong, and restarts would
take down working plugins. So the breaker opens before any of them is restarted. While it is open, the controller
restarts nothing. The breaker closes after a time or by an administrator's request.

A node that is stale when the controller first reads it counts by the time at which its driver became ready, so nodes
of an earlier serial upgrade do not form a burst. It does not count if the driver's revision is younger than the
plugin: then a rollout explains it, unless the node's clock is behind the API server's.
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
    from hook.core.views import Pod
    from hook.settings import Bound, Settings

WITHIN: Final = timedelta(minutes=1)
"""Time for which a node with unexplained staleness is held, and the length of a burst. If a tool restarts kubelets or
sets clocks, the nodes follow each other within seconds. A serial upgrade takes two minutes per node."""
FEWEST: Final = 5
"""Nodes in the smallest burst. Fewer may become stale together by chance, and cost at most four restarts."""
WHOLE: Final = 100
SERVED: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})


@dataclass(frozen=True, slots=True)
class Sight:
    """Observation of a node whose plugins were all known to be stale or fresh."""

    load: str
    """Identifier of the loaded driver that depends on no clock (``freshness.load``)."""
    stale: bool


@dataclass(frozen=True, slots=True)
class Breaker:
    """State of one stack's circuit breaker."""

    opened_at: datetime | None = None
    """When it opened. None while it is closed."""
    why: str = ""
    """The observation that opened it."""
    closed_at: datetime | None = None
    """Nodes that became stale no later than this do not count: the breaker was closed for them. None once all nodes are
    verified."""
    sights: Mapping[str, Sight] = field(default_factory=dict)
    """Last observation, by node."""
    turned: Mapping[str, datetime] = field(default_factory=dict)
    """When a node became stale without a reload, within the last minute, by node."""

    def closed(self, now: datetime) -> Breaker:
        """Return the closed breaker. Nodes that are stale now no longer count."""
        return replace(self, opened_at=None, why="", closed_at=now, turned={})


def watched(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Return the breaker after an evaluation of the nodes. Only the controller has one."""
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
    """Return whether a node became stale without a reload less than a minute ago."""
    turned = breaker.turned.get(judged.node)
    return turned is not None and now - turned <= WITHIN


def held_open(breaker: Breaker, settings: Settings) -> Hold | None:
    """Return why restarts stop while the breaker is open, and when it closes; None while it is closed."""
    if breaker.opened_at is None:
        return None
    until = f" by itself at {moment(breaker.opened_at + settings.breaker_reset)}" if settings.breaker_reset else ""
    how = f"{until} or" if until else " only"
    why = f"{breaker.why} (seen at {moment(breaker.opened_at)})"
    message = f"{why}; nothing is restarted until the breaker closes,{how} by request of an administrator"
    return Reason.BREAKER_OPEN, message


def _no_later(breaker: Breaker, now: datetime) -> Breaker:
    """Replace times in the future by now: the API server's clock was ahead, and was corrected since."""
    return replace(
        breaker,
        opened_at=breaker.opened_at and min(breaker.opened_at, now),
        closed_at=breaker.closed_at and min(breaker.closed_at, now),
        turned={node: min(when, now) for node, when in breaker.turned.items()},
    )


def _closed_in_time(breaker: Breaker, settings: Settings, now: datetime) -> Breaker:
    """Return the breaker closed if its reset time is over, or if the settings disable it."""
    if breaker.opened_at is None:
        return breaker
    over = settings.breaker_reset and now - breaker.opened_at >= settings.breaker_reset
    return breaker.closed(now) if over or _never(settings.breaker_share) else breaker


def _all_served(judgements: Sequence[Judgement]) -> bool:
    """Return whether all nodes are verified or excluded, and some are verified.

    A fleet that is excluded as a whole proves nothing: its labels may be missing for a moment.
    """
    states = {status.state for status in judgements}
    return NodeState.VERIFIED in states and states <= SERVED


def _opened(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Return the breaker, open if there is a burst. Where no burst is possible, hold no node."""
    eligible = {status.node for status in judgements if status.state is not NodeState.EXCLUDED}
    share = fleet.settings.breaker_share
    if _never(share) or not _is_crowd(len(eligible), eligible, share):
        return replace(breaker, turned={})
    crowd = _crowd({node: when for node, when in breaker.turned.items() if node in eligible})
    if breaker.opened_at is not None or not _is_crowd(len(crowd), eligible, share):
        return breaker
    what = "became stale within a minute (or, before the first read, their drivers became ready within one)"
    why = f"{len(crowd)} of {len(eligible)} nodes {what}, and no reload of their drivers was seen"
    return replace(breaker, opened_at=now, why=f"{why}: {some(crowd)}")


def _is_crowd(count: int, eligible: Collection[str], share: Bound) -> bool:
    return count >= FEWEST and share.exceeded_by(count, len(eligible))


def _never(share: Bound) -> bool:
    return not share.value or (share.percent and share.value >= WHOLE)


def _sights(judgements: Iterable[Judgement], fleet: Fleet) -> dict[str, Sight]:
    """Return an observation of each node with a settled driver. One stale plugin makes the node stale."""
    seen: dict[str, list[Reason]] = {}
    for status in judgements:
        if status.consumer and status.reason is not Reason.NOTHING_TO_REFRESH and _drivers(status.node, fleet):
            seen.setdefault(status.node, []).append(status.reason)
    sights: dict[str, Sight] = {}
    for node, reasons in seen.items():
        fresh = all(Trait.FRESH in reason.traits for reason in reasons)
        if fresh or any(Trait.STALE in reason.traits for reason in reasons):
            sights[node] = Sight(_load(node, fleet), stale=not fresh)
    return sights


def _unloaded(judgements: Iterable[Judgement], fleet: Fleet) -> Iterable[str]:
    """Return the nodes without a ready driver. The controller sees the next driver load there."""
    return (status.node for status in judgements if not any(pod.ready for pod in _drivers(status.node, fleet)))


def _load(node: str, fleet: Fleet) -> str:
    return freshness.load(_drivers(node, fleet)[0], live_pods(fleet.provider_pods.get(node, ())), fleet.stack)


def _drivers(node: str, fleet: Fleet) -> list[Pod]:
    return live_pods(fleet.driver_pods.get(node, ()))


def _turned(node: str, sight: Sight, breaker: Breaker, fleet: Fleet, now: datetime) -> datetime | None:
    """Return since when a node is stale, if it became stale without a reload; else None."""
    before = breaker.sights.get(node)
    if not sight.stale:
        return None
    if before is None:
        return None if _rolled_out(node, fleet) else _ready(node, fleet, now)
    return now if before.load == sight.load and not before.stale else None


def _ready(node: str, fleet: Fleet, now: datetime) -> datetime:
    """Return when a node's driver became ready, but no later than now: the node's clock may be ahead."""
    return min(_drivers(node, fleet)[0].containers_ready_since or now, now)


def _rolled_out(node: str, fleet: Fleet) -> bool:
    """Return whether the driver's revision was created after a plugin on the node started."""
    revision = fleet.newest.get(_drivers(node, fleet)[0].owner_uid)
    pods = live_pods(fleet.consumer_pods[node])
    starts = (container.started_at for pod in pods for container in pod.containers)
    return revision is not None and any(start is not None and start < revision.created for start in starts)


def _crowd(turned: Mapping[str, datetime]) -> list[str]:
    """Return the largest burst: the most nodes that became stale within one minute."""
    in_turn = sorted(turned, key=lambda node: (turned[node], node))
    best: list[str] = []
    first = 0
    for last, node in enumerate(in_turn):
        while turned[node] - turned[in_turn[first]] > WITHIN:
            first += 1
        if last - first + 1 > len(best):
            best = in_turn[first : last + 1]
    return best
