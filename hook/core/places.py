"""Disruption budget: how many more plugins may be restarted now.

There are two limits: on plugins that are down because of this program (``max_parallel_restarts``), and on plugins
that are down for any reason (``max_unavailable``).

A plugin is down on a node with a settled driver if its pod is missing, terminating, starting or not Ready, or if it
publishes no devices. A stale plugin that is Ready is not down. A stale plugin that is not Ready is down already, so
its restart needs no budget. The second limit does not count nodes whose driver reloads, because the upgrade controller
limits those itself. It does not count excluded nodes either: a lost node would use up budget until it is back.

A plugin that this program restarted uses budget until it is back, even if its node becomes silent or its driver
reloads meanwhile. One plugin that does not come back within ``plugin_timeout`` returns its budget, so that it does not
block all other nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import or_
from typing import TYPE_CHECKING

from hook.core.memory import restart_key
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import some
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.memory import AskedRestart
    from hook.core.verdicts import Judgement
    from hook.objects.views import Pod


@dataclass(frozen=True, slots=True)
class Places:
    """Disruption budget that is left. None means no limit."""

    ours: int | None
    """Left for plugins that are down because of this program."""
    anyones: int | None
    """Left for plugins that are down for any reason."""
    why_full: str = ""
    """Message for a node that has to wait because no budget is left."""

    @classmethod
    def left(
        cls, judgements: Sequence[Judgement], restarts: Mapping[str, AskedRestart], fleet: Fleet, now: datetime
    ) -> Places:
        """Return the budget that is left by the plugins that are down now."""
        limit, bound = fleet.settings.max_parallel_restarts, fleet.settings.max_unavailable
        if not limit and bound is None:
            return cls(None, None)
        awaited = [_awaited(status, restarts, fleet, now) for status in judgements]
        in_flight = [_in_flight(status, restarts, fleet) for status in judgements]
        failed = sum(
            status.state is NodeState.FAILED for status, away in zip(judgements, in_flight, strict=True) if away
        )
        ours = limit - sum(map(or_, awaited, in_flight)) + _given_back(failed) if limit else None
        if bound is None:
            return cls(ours, None, f"max {limit} plugins down at once")
        down = [status.node for status, away in zip(judgements, awaited, strict=True) if away or _down(status, fleet)]
        apart = (Reason.UNNAMED_CONSUMER,)
        plugins = [
            status for status in judgements if status.state is not NodeState.EXCLUDED and status.reason not in apart
        ]
        total = sum(status.reason is not Reason.NOTHING_TO_REFRESH for status in plugins)
        own = f"max {limit} because of this program, " if limit else ""
        named = f": {some(down)}" if down else ""
        why = f"{own}max {bound} of {total} plugins down at once, {len(down)} are{named}"
        return cls(ours, bound.of(total) - len(down), why)

    def has(self, *, serving: bool) -> bool:
        """Return whether one more plugin may be restarted. `serving` is False for a plugin that is down already."""
        ours = self.ours is None or self.ours > 0
        return ours and (not serving or self.anyones is None or self.anyones > 0)

    def taken(self, *, serving: bool) -> Places:
        """Return the budget after one more restart."""
        ours = None if self.ours is None else self.ours - 1
        anyones = None if self.anyones is None else self.anyones - serving
        return Places(ours, anyones, self.why_full)


def _given_back(failed: int) -> int:
    """Return how many places are free again, of those of plugins that did not come back in their time.

    One at most: where a second plugin fails, restarts do harm, and the run ends with the reason.
    """
    return min(failed, 1)


def serving(judged: Judgement, fleet: Fleet) -> bool:
    """Return whether the stale pod of a node is Ready."""
    stale = judged.stale_pod
    pods = fleet.consumer_pods.get(judged.node, ())
    return stale is not None and any(pod.uid == stale.uid and _is_up(pod) for pod in pods)


def _is_up(pod: Pod) -> bool:
    """Return whether the kubelet reports a pod as ready.

    On a silent node the node controller sets Ready to False, but leaves ContainersReady as it was.
    """
    return pod.ready or pod.containers_ready_since is not None


def _down(judged: Judgement, fleet: Fleet) -> bool:
    if judged.stale_pod is not None and judged.state is not NodeState.RESTARTING:
        return not serving(judged, fleet)
    return judged.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in judged.reason.traits


def _in_flight(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet) -> bool:
    """Return whether a plugin is down because this program restarted it."""
    if judged.state is NodeState.RESTARTING:
        return True
    if Trait.PLUGIN_DOWN not in judged.reason.traits:
        return False
    asked = (restarts.get(restart_key(ds.uid, judged.node)) for ds in fleet.consumers.named)
    return any(restart is not None and not restart.refused for restart in asked)


def _awaited(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet, now: datetime) -> bool:
    """Return whether a restarted plugin is not back, where the status is about the node or its driver."""
    if judged.stale_pod is not None or judged.state in (NodeState.EXCLUDED, NodeState.VERIFIED):
        return False
    consumers = (ds for ds in fleet.consumers.named if judged.consumer in ("", str(ds)))
    asked = {ds.uid: restarts.get(restart_key(ds.uid, judged.node)) for ds in consumers}
    return any(restart is not None and _away(judged.node, uid, restart, fleet, now) for uid, restart in asked.items())


def _away(node: str, daemonset_uid: str, asked: AskedRestart, fleet: Fleet, now: datetime) -> bool:
    """Return whether no plugin is ready on a node, apart from the deleted pod, which the cache may still show."""
    if asked.refused or asked.came_back or now - asked.at >= fleet.settings.plugin_timeout:
        return False
    pods = (pod for pod in fleet.consumer_pods.get(node, ()) if pod.owner_uid == daemonset_uid and pod.live)
    return not any(_is_up(pod) for pod in pods if pod.uid != asked.pod_uid)
