"""How many plugins may go down now: because of us alone, and whoever took the others down.

A plugin is down while it does not serve on a node whose driver is settled: missing, going, starting, not ready, or
without its devices. A stale one is not down: it is Ready, and restarting it is what takes it away for a moment.
Where a stale one is not Ready either, restarting it costs nothing, so it needs no place (nor does a DaemonSet's own
update ask for one). Nodes whose driver is being reloaded are not counted: the upgrade controller has its own bound
for those, and a plugin that was served late because of them would be stale for that much longer. Nor are nodes that
are left alone, or one that is lost would take a place for as long as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hook.core.memory import restart_key
from hook.core.reasons import Reason
from hook.core.sentences import some
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hook.core.fleet import Fleet
    from hook.core.memory import AskedRestart
    from hook.core.verdicts import Judgement

DOWN: Final = frozenset(
    {
        Reason.PLUGIN_RESTARTING,
        Reason.PLUGIN_MISSING,
        Reason.PLUGIN_STARTING,
        Reason.PLUGIN_NOT_READY,
        Reason.SLICE_MISSING,
        Reason.SLICE_OUTDATED,
    }
)
"""A plugin that does not serve, whether it is still on its way or failed."""


@dataclass(frozen=True, slots=True)
class Places:
    """What is left of both bounds; None where there is no such bound."""

    ours: int | None
    anyones: int | None
    why_full: str = ""
    """What to tell one for which there is no place left."""

    @classmethod
    def left(cls, judgements: Sequence[Judgement], restarts: Mapping[str, AskedRestart], fleet: Fleet) -> Places:
        """Count what is down, by whoever's doing."""
        limit, bound = fleet.settings.max_parallel_restarts, fleet.settings.max_unavailable
        under_way = [one for one in judgements if _in_flight(one, restarts, fleet)]
        failed = sum(one.state is NodeState.FAILED for one in under_way)
        # One plugin that used its time without coming back gives its place to the others. A second one does not: then
        # restarts do harm, and the run ends with the reason.
        ours = limit - len(under_way) + min(failed, 1) if limit else None
        if bound is None:
            return cls(ours, None, f"max {limit} plugins down at once")
        down = [one.node for one in judgements if _down(one, fleet)]
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
    """Whether the stale pod of a node is Ready all the same."""
    stale = judged.stale_pod
    pods = fleet.consumer_pods.get(judged.node, ())
    return stale is not None and any(pod.uid == stale.uid and pod.ready for pod in pods)


def _down(judged: Judgement, fleet: Fleet) -> bool:
    if judged.stale_pod is not None and judged.state is not NodeState.RESTARTING:
        return not serving(judged, fleet)
    return judged.state is NodeState.RESTARTING or judged.reason in DOWN


def _in_flight(judged: Judgement, restarts: Mapping[str, AskedRestart], fleet: Fleet) -> bool:
    """Whether a plugin is down because of us: restarting, or asked to and not verified (any more)."""
    if judged.state is NodeState.RESTARTING:
        return True
    if judged.reason not in DOWN:
        return False
    asked = (restarts.get(restart_key(ds.uid, judged.node)) for ds in fleet.consumers.named)
    return any(one is not None and not one.refused for one in asked)
