"""Stop all restarts when many nodes turn stale at once and no driver reload explains it: a clock or the API is wrong.

Drivers that reload turn plugins stale, and many may reload at once. A reload leaves a trace that no clock can fake:
another driver pod, or one more restart of its container. A node that turns stale without such a trace is suspect, and
is held for a minute. If it stays alone, it is restarted then. If more than a share of the fleet turns stale within that
minute, clocks, kubelets or the API are at fault, and a restart would take down plugins that work: the breaker opens
before any of them is restarted, and nothing is restarted until its time is over.

The breaker lives in the memory of one process. A new process starts with a closed one, and does not count what was
stale at its first look, because it did not see those nodes turn. So a restart of the controller's pod closes it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.core import freshness
from hook.core.eligibility import live_pods
from hook.core.memory import Sight
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import moment, some
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.memory import Breaker
    from hook.core.verdicts import Hold, Judgement
    from hook.core.views import Pod
    from hook.settings import Bound, Settings

WITHIN: Final = timedelta(minutes=1)
"""How long a suspect is held. Nodes that turn stale further apart have no common cause: a tool that restarts kubelets,
or sets clocks, reaches the next node within seconds."""
FEWEST: Final = 5
"""Fewer nodes are no crowd: so many turn stale together by chance, and four restarts are all there is to save."""
WHOLE: Final = 100


def watched(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Note which nodes turned stale, and open or close. Only a controller has a breaker."""
    if not fleet.settings.follow:
        return breaker
    breaker = _closed_in_time(_no_later(breaker, now), fleet.settings, now)
    sights = _sights(judgements, fleet)
    new = {node: now for node, sight in sights.items() if _turned(sight, breaker.sights.get(node))}
    turned = {node: when for node, when in breaker.turned.items() if now - when <= WITHIN} | new
    known = {node: sight for node, sight in breaker.sights.items() if node in fleet.seen.nodes}
    return _opened(replace(breaker, sights=known | sights, turned=turned), judgements, fleet, now)


def suspect(judged: Judgement, breaker: Breaker, now: datetime) -> bool:
    """Whether a node turned stale without a reload so shortly ago that others may follow it."""
    turned = breaker.turned.get(judged.node)
    return turned is not None and now - turned <= WITHIN


def held_open(breaker: Breaker, settings: Settings) -> Hold | None:
    """Return why nothing is done while the breaker is open, and when that ends."""
    if breaker.opened_at is None:
        return None
    seen = f"{breaker.why} (seen at {moment(breaker.opened_at)})"
    time = f" by itself at {moment(breaker.opened_at + settings.breaker_reset)}, or" if settings.breaker_reset else ""
    end = f"the breaker closes{time} when the controller restarts"
    return Reason.BREAKER_OPEN, f"{seen}; nothing is restarted until {end}"


def _no_later(breaker: Breaker, now: datetime) -> Breaker:
    """Move what is still to come to now: the API server's clock was ahead, and was set right since."""
    return replace(
        breaker,
        opened_at=breaker.opened_at and min(breaker.opened_at, now),
        turned={node: min(when, now) for node, when in breaker.turned.items()},
    )


def _closed_in_time(breaker: Breaker, settings: Settings, now: datetime) -> Breaker:
    """Close a breaker whose time is over."""
    if breaker.opened_at is None or not settings.breaker_reset:
        return breaker
    return breaker.closed() if now - breaker.opened_at >= settings.breaker_reset else breaker


def _opened(breaker: Breaker, judgements: Sequence[Judgement], fleet: Fleet, now: datetime) -> Breaker:
    """Open it if a crowd turned stale. Where no crowd is possible, no node is suspect."""
    eligible = {one.node for one in judgements if one.state is not NodeState.EXCLUDED}
    share = fleet.settings.breaker_share
    if _never(share) or not _is_crowd(len(eligible), eligible, share):
        return replace(breaker, turned={})
    crowd = sorted(eligible & breaker.turned.keys())
    if breaker.opened_at is not None or not _is_crowd(len(crowd), eligible, share):
        return breaker
    why = f"{len(crowd)} of {len(eligible)} nodes turned stale within a minute, and no reload of their drivers was seen"
    return replace(breaker, opened_at=now, why=f"{why}: {some(crowd)}")


def _is_crowd(count: int, eligible: Collection[str], share: Bound) -> bool:
    return count >= FEWEST and share.exceeded_by(count, len(eligible))


def _never(share: Bound) -> bool:
    return not share.value or (share.percent and share.value >= WHOLE)


def _sights(judgements: Iterable[Judgement], fleet: Fleet) -> dict[str, Sight]:
    """Return each node whose driver is settled: stale if one consumer is stale, fresh if all are fresh."""
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


def _load(node: str, fleet: Fleet) -> str:
    return freshness.load(_drivers(node, fleet)[0], live_pods(fleet.provider_pods.get(node, ())), fleet.stack)


def _drivers(node: str, fleet: Fleet) -> list[Pod]:
    return live_pods(fleet.driver_pods.get(node, ()))


def _turned(sight: Sight, before: Sight | None) -> bool:
    """Return whether a node that was fresh is stale under the same load of its driver."""
    return before is not None and before.load == sight.load and sight.stale and not before.stale
