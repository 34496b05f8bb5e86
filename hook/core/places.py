"""How many plugins may go down now: because of us alone, and whoever took the others down.

A plugin is down while it does not serve on a node whose driver is settled: missing, going, starting, not ready, or
without its devices. A stale one is not down: it is Ready, and restarting it is what takes it away for a moment.
Where a stale one is not Ready either, restarting it costs nothing, so it needs no place (nor does a DaemonSet's own
update ask for one). Nodes whose driver is being reloaded are not counted: the upgrade controller has its own bound
for those, and a plugin that was served late because of them would be stale for that much longer. Nor are nodes that
are left alone, or one that is lost would take a place for as long as it is.

A plugin that we restarted takes its place until it is back, whatever befalls its node meanwhile: the node may be
silent, its label may announce the next upgrade, its driver may reload. A plugin that does not come back in its time
(``plugin_timeout``) gives that place away, so that one such node does not hold up all others.
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
    """What is left of both bounds; None where there is no such bound."""

    ours: int | None
    anyones: int | None
    why_full: str = ""
    """What to tell one for which there is no place left."""

    @classmethod
    def left(
        cls, judgements: Sequence[Judgement], restarts: Mapping[str, AskedRestart], fleet: Fleet, now: datetime
    ) -> Places:
        """Count what is down, by whoever's doing."""
        limit, bound = fleet.settings.max_parallel_restarts, fleet.settings.max_unavailable
        if not limit and bound is None:
            return cls(None, None)
        awaited = [_awaited(one, restarts, fleet, now) for one in judgements]
        in_flight = [_in_flight(one, restarts, fleet) for one in judgements]
        # One plugin that used its time without coming back gives its place to the others. A second one does not: then
        # restarts do harm, and the run ends with the reason.
        failed = sum(one.state is NodeState.FAILED for one, away in zip(judgements, in_flight, strict=True) if away)
        ours = limit - sum(map(or_, awaited, in_flight)) + min(failed, 1) if limit else None
        if bound is None:
            return cls(ours, None, f"max {limit} plugins down at once")
        down = [one.node for one, away in zip(judgements, awaited, strict=True) if away or _down(one, fleet)]
        apart = (Reason.UNNAMED_CONSUMER,)
        plugins = [one for one in judgements if one.state is not NodeState.EXCLUDED and one.reason not in apart]
        total = sum(one.reason is not Reason.NOTHING_TO_REFRESH for one in plugins)
        told = f"max {limit} because of us, " if limit else ""
        named = f": {some(down)}" if down else ""
        why = f"{told}max {bound} of {total} plugins down at once, {len(down)} are{named}"
        return cls(ours, bound.of(total) - len(down), why)

    def has(self, *, serving: bool) -> bool:
        """Whether one more plugin may be restarted: one that serves, or one that is down already."""
        ours = self.ours is None or self.ours > 0
        return ours and (not serving or self.anyones is None or self.anyones > 0)

    def taken(self, *, serving: bool) -> Places:
        """Give what is left after that."""
        ours = None if self.ours is None else self.ours - 1
        anyones = None if self.anyones is None else self.anyones - serving
        return Places(ours, anyones, self.why_full)


def serving(judged: Judgement, fleet: Fleet) -> bool:
    """Whether the stale pod of a node is ready all the same."""
    stale = judged.stale_pod
    pods = fleet.consumer_pods.get(judged.node, ())
    return stale is not None and any(pod.uid == stale.uid and _is_up(pod) for pod in pods)


def _is_up(pod: Pod) -> bool:
    """Whether a pod is ready by its kubelet's word: the node controller takes Ready alone from a silent node's pods."""
    return pod.ready or pod.containers_ready_since is not None


def _down(judged: Judgement, fleet: Fleet) -> bool:
    if judged.stale_pod is not None and judged.state is not NodeState.RESTARTING:
        return not serving(judged, fleet)
    return judged.state is NodeState.RESTARTING or Trait.PLUGIN_DOWN in judged.reason.traits


def _in_flight(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet) -> bool:
    """Whether a plugin is down because of us: restarting, or asked to and not verified (any more)."""
    if judged.state is NodeState.RESTARTING:
        return True
    if Trait.PLUGIN_DOWN not in judged.reason.traits:
        return False
    asked = (restarts.get(restart_key(ds.uid, judged.node)) for ds in fleet.consumers.named)
    return any(one is not None and not one.refused for one in asked)


def _awaited(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet, now: datetime) -> bool:
    """Whether a plugin that we restarted is not back, although the judgement is about its node or its driver."""
    if judged.stale_pod is not None or judged.state in (NodeState.EXCLUDED, NodeState.VERIFIED):
        return False
    consumers = (ds for ds in fleet.consumers.named if judged.consumer in ("", str(ds)))
    asked = {ds.uid: restarts.get(restart_key(ds.uid, judged.node)) for ds in consumers}
    return any(one is not None and _away(judged.node, uid, one, fleet, now) for uid, one in asked.items())


def _away(node: str, daemonset_uid: str, asked: AskedRestart, fleet: Fleet, now: datetime) -> bool:
    """Whether no plugin is up on a node but the one that was asked to go, which may be seen for a while yet."""
    if asked.refused or asked.came_back or now - asked.at >= fleet.settings.plugin_timeout:
        return False
    pods = (pod for pod in fleet.consumer_pods.get(node, ()) if pod.owner_uid == daemonset_uid and pod.live)
    return not any(_is_up(pod) for pod in pods if pod.uid != asked.pod_uid)
