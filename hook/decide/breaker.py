"""Circuit breaker: stop restarts when many nodes become stale without a driver reload.

A driver reload makes plugins stale and leaves a trace that does not depend on clocks: a new driver pod, or one more
restart of its container. A node that becomes stale without such a trace does so by timestamps alone: its staleness is
unexplained. The controller holds such a node for a minute. If few others follow, it restarts the plugin then. If more
than a share of the fleet becomes stale within that minute, a clock, a kubelet or the API is wrong, and restarts would
take down working plugins. So the breaker opens before any of them is restarted. While it is open, the controller
restarts nothing. The breaker closes after a time, or when the controller restarts.

The breaker lives in the memory of one process. A new process starts with a closed breaker. It does not count nodes that
are stale when it first reads them, because it did not see them become stale.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.decide.explain import Trait
from hook.decide.fleet import live_pods
from hook.decide.plugins import moments
from hook.decide.reasons import Reason
from hook.decide.result import eligible_nodes, except_verified
from hook.decide.state import Observation
from hook.format import some, timestamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.result import Blocker, NodeStatus
    from hook.decide.state import Breaker
    from hook.format import Bound

WITHIN: Final = timedelta(minutes=1)
"""Time for which a node with unexplained staleness is held, and the length of a burst. If a tool restarts kubelets or
sets clocks, the nodes follow each other within seconds. A serial upgrade takes two minutes per node."""
FEWEST: Final = 5
"""Nodes in the smallest burst. Fewer may become stale together by chance, and cost at most four restarts."""


def observed(
    breaker: Breaker,
    observations: Mapping[str, Observation],
    statuses: Sequence[NodeStatus],
    fleet: Fleet,
    now: datetime,
) -> Breaker:
    """Return the breaker of the controller after an evaluation of the nodes."""
    settings = fleet.context.settings
    breaker = _closed_in_time(_without_future(breaker, now), settings, now)
    before = breaker.observations
    recent = {node: since for node, since in breaker.unexplained.items() if now - since <= WITHIN}
    new = {
        node: now
        for node, observation in observations.items()
        if observation.stale and _is_unexplained(observation, before.get(node))
    }
    nodes = fleet.snapshot.nodes
    known = before if before.keys() <= nodes.keys() else {node: before[node] for node in before if node in nodes}
    breaker = replace(breaker, observations={**known, **observations}, unexplained=recent | new)
    return _opened(breaker, eligible_nodes(fleet.nodes, except_verified(statuses)), settings, now)


def holds(breaker: Breaker, status: NodeStatus, now: datetime) -> bool:
    """Return whether a node became stale without a reload less than a minute ago."""
    since = breaker.unexplained.get(status.node)
    return since is not None and now - since <= WITHIN


def open_blocker(breaker: Breaker, settings: Settings) -> Blocker | None:
    """Return why restarts stop while the breaker is open, and when it closes; None while it is closed."""
    if breaker.opened_at is None:
        return None
    observation = f"{breaker.why} (seen at {timestamp(breaker.opened_at)})"
    reset = settings.controller.circuit_breaker.reset
    time = f" by itself at {timestamp(breaker.opened_at + reset)}, or" if reset else ""
    end = f"the breaker closes{time} when the controller restarts"
    return Reason.BREAKER_OPEN, f"{observation}; nothing is restarted until {end}"


def _without_future(breaker: Breaker, now: datetime) -> Breaker:
    """Replace times in the future by now: the API server's clock was ahead, and was corrected since."""
    return replace(
        breaker,
        opened_at=breaker.opened_at and min(breaker.opened_at, now),
        unexplained={node: min(since, now) for node, since in breaker.unexplained.items()},
    )


def _closed_in_time(breaker: Breaker, settings: Settings, now: datetime) -> Breaker:
    """Return the breaker closed if its reset time is over."""
    reset = settings.controller.circuit_breaker.reset
    if breaker.opened_at is None or not reset:
        return breaker
    return breaker.closed() if now - breaker.opened_at >= reset else breaker


def _opened(breaker: Breaker, eligible: Collection[str], settings: Settings, now: datetime) -> Breaker:
    """Open the breaker after a burst. Where no burst is possible, no staleness is unexplained."""
    share = settings.controller.circuit_breaker.threshold
    if not share.value or not _is_burst(len(eligible), eligible, share):
        return replace(breaker, unexplained={})
    burst = sorted(node for node in eligible if node in breaker.unexplained)
    if breaker.opened_at is not None or not _is_burst(len(burst), eligible, share):
        return breaker
    why = f"{len(burst)} of {len(eligible)} nodes turned stale within a minute, and no reload of their drivers was seen"
    return replace(breaker, opened_at=now, why=f"{why}: {some(burst)}")


def _is_burst(count: int, eligible: Collection[str], share: Bound) -> bool:
    return count >= FEWEST and share.exceeded_by(count, len(eligible))


def observation(statuses: Iterable[NodeStatus], view: NodeView, context: Context) -> Observation | None:
    """Return the observation of a node, if its driver is settled. One stale plugin makes the node stale."""
    reasons = [status.reason for status in statuses if status.plugin and status.reason is not Reason.NOTHING_TO_REFRESH]
    fresh = all(Trait.FRESH in reason.traits for reason in reasons)
    if reasons and (fresh or any(Trait.STALE in reason.traits for reason in reasons)):
        return Observation(_load(view, context), stale=not fresh)
    return None


def _load(view: NodeView, context: Context) -> frozenset[str]:
    """Return identifiers of the loaded driver and the prerequisites that depend on no kubelet's clock."""
    driver, name = live_pods(view.driver_pods)[0], context.stack.driver.container
    restarts = sum(container.restarts for container in driver.containers if container.name == name)
    return frozenset([f"{driver.uid}/{restarts}", *(each.run for each in moments(view, context) if not each.bound)])


def _is_unexplained(observation: Observation, before: Observation | None) -> bool:
    """Return whether a node that was fresh is stale under the same load of its driver."""
    return observation.stale and before is not None and observation.load <= before.load and not before.stale
