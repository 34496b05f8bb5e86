"""Show people the follower: whether it is alive, when it last acted, and whether its breaker is open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hook.cluster import followers
from hook.core.sentences import moment
from hook.errors import ClusterError
from hook.flags.kinds import as_text
from hook.logs import shown
from hook.looking import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.cluster.followers import Led
    from hook.settings import Settings


@dataclass(frozen=True, slots=True)
class Seen:
    """What can be seen of followers, and when."""

    now: datetime
    led: Led | None = None
    problem: str = ""
    """Why nothing can be seen."""


def look(api: Api, settings: Settings) -> Seen:
    """Find the follower of these stacks: of several, the one that was renewed last. Not being allowed is no failure."""
    try:
        found = followers.find(api, settings.namespaces, PATIENCE_SECONDS)
    except ClusterError as error:
        return Seen(api.now(), problem=f"whether a follower is alive cannot be told: {error}")
    if settings.namespaces and not found:
        looked = ", ".join(settings.namespaces)
        return Seen(api.now(), problem=f"no follower was found in {looked}; its Lease may be in another namespace")
    ours = [one for one in found if one.record is None or set(one.record.epochs) & set(settings.stacks)] or found
    return Seen(api.now(), max(ours, key=lambda one: one.renewal, default=None))


def lines(seen: Seen) -> list[str]:
    """Give sentences for a terminal; none where there is no follower."""
    return [shown(line) for line in _lines(seen)]


def _lines(seen: Seen) -> Iterator[str]:
    if seen.problem or seen.led is None:
        yield seen.problem
        return
    led, record = seen.led, seen.led.record
    state = f"alive ({led.holder})" if led.alive(seen.now) else "NOT ALIVE"
    yield f"follower {led}: {state}, last renewed {_ago(led.renewed, seen.now)}"
    if record is None:
        yield f"follower {led}: {led.problem}"
        return
    left = f", about {as_text(timedelta(seconds=record.about))}" if record.about is not None and record.to_go else ""
    if led.inherited:
        # The numbers would be read as those of who leads; only an open breaker is taken over.
        yield f"follower {led}: it has not looked at the fleet yet, what it found is of {record.by or 'another one'}"
    else:
        acted = f"last acted {_ago(record.last_acted, seen.now)}, {record.restarted} plugins restarted since it leads"
        yield f"follower {led}: {acted}, {record.to_go} nodes to go{left}"
    for stack, one in record.breakers.items():
        yield f"WARNING follower {led}: the circuit breaker of stack {stack} is open since {moment(one.at)}: {one.why}"


def as_json(seen: Seen) -> dict[str, Any] | None:
    """Give the same for programs; null where there is no follower, `alive` null where none could be looked for."""
    if seen.problem:
        return {"alive": None, "problem": seen.problem}
    if seen.led is None:
        return None
    led, record = seen.led, seen.led.record
    story: dict[str, Any] = {
        "alive": led.alive(seen.now),
        "lease": str(led),
        "holder": led.holder,
        "lastRenewed": _time(led.renewed),
        "problem": led.problem,
    }
    if record is None:
        return story
    breakers = {stack: {"openedAt": _time(one.at), "why": one.why} for stack, one in record.breakers.items()}
    return story | {
        "recordedBy": record.by,
        "lastActed": _time(record.last_acted),
        "lastLook": _time(record.last_look),
        "restarted": record.restarted,
        "toGo": record.to_go,
        "aboutSeconds": record.about,
        "openBreakers": breakers,
    }


def _time(when: datetime | None) -> str | None:
    return moment(when) if when is not None else None


def _ago(when: datetime | None, now: datetime) -> str:
    """Say how long ago something was; clocks may differ by a little."""
    return f"{as_text(max(now - when, timedelta()))} ago" if when is not None else "never"
