"""Restart history: match stale pods with earlier restarts, and delay repeated ones.

A Job fails a node whose plugin is stale again after a restart. The controller reports the node at once and tries
again, because the cause (a clock, an admission policy) may be fixed by then. The first restart is immediate. Each
further one waits twice as long as the previous one, up to a limit. The count starts again once a plugin was verified
on the node and its driver has been reloaded since.

The history is in memory only, so a new leader starts with an empty one: at most one extra restart per process that
ends. Only the kubelet's backoff limits a process that ends again and again (docs/reliability.md, "Not survived").

A restart that did not help, or that the API server refused, needs manual action. A Job fails the node. The controller
tries again, later each time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.config import Strategy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Patience
from hook.decide.state import restart_key
from hook.format import moment

if TYPE_CHECKING:
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.result import NodeStatus, StalePod
    from hook.decide.state import Memory, RestartRecord

MOST_DOUBLINGS: Final = 22
"""Limit on doublings, to prevent an overflow. 2^22 s is longer than any duration that a flag accepts."""


def held_until(before: RestartRecord, pod: StalePod, settings: Settings) -> datetime | None:
    """Return when a pod may be restarted after an earlier restart, or None if the earlier one does not delay it."""
    if before.served(pod) or before.pending(pod):
        return None
    return before.at + _pause(before.tries, settings)


def _pause(count: int, settings: Settings) -> timedelta:
    doubled: timedelta = settings.restart_backoff * 2 ** min(count - 1, MOST_DOUBLINGS)
    return min(doubled, settings.restart_backoff_max)


ASK_AGAIN: Final = timedelta(seconds=30)
"""Time after which a deletion that no watch has shown did not happen. Watches deliver within about a second."""


def beside_memory(judged: NodeStatus, settings: Settings, memory: Memory, now: datetime) -> NodeStatus:
    """Return the status of a stale pod in the light of its restart history.

    A pod that this program deleted is restarting. If the pod that replaces it is stale again, it needs manual action.
    """
    if judged.reason is Reason.NOTHING_TO_REFRESH:
        return _must_come_back(judged, memory)
    if judged.stale_pod is None:
        return judged
    asked = memory.restarts.get(restart_key(judged.stale_pod.daemonset_uid, judged.node))
    if asked is not None and _is_another(asked, judged.stale_pod):
        asked = None
    compare = _asked_while_following if settings.follow else _asked_before
    shown = compare(judged, judged.stale_pod, asked, settings, now) if asked else judged
    trouble = memory.troubles.get(judged.stale_pod.uid) if shown.state is NodeState.STALE else None
    return replace(shown, message=f"{shown.message}; restarting it failed: {trouble}") if trouble else shown


def _is_another(asked: RestartRecord, stale: StalePod) -> bool:
    """Return whether the recorded restart does not apply to a pod.

    The pod ran next to the one that was restarted, or the deletion was refused while it was an orphan and a DaemonSet
    has adopted it since.
    """
    return stale.uid in asked.others or (bool(asked.refused) and asked.orphan and not stale.orphan)


def _asked_before(
    judged: NodeStatus, stale: StalePod, asked: RestartRecord, _settings: Settings, now: datetime
) -> NodeStatus:
    """Evaluate a stale pod by the result of the restart under this driver run.

    A deletion that no watch has shown yet is in progress, even if another driver run is seen already.
    """
    same_pod = asked.pod_uid == stale.uid
    if same_pod and not asked.refused:
        return _under_way(judged, stale, asked, now)
    if asked.driver_run != stale.driver_run:
        return judged
    if same_pod:
        return judged.failed(Reason.RESTART_REFUSED, _was_refused(judged, asked))
    return judged.failed(Reason.RESTART_DID_NOT_HELP, _did_not_help(judged))


def _asked_while_following(
    judged: NodeStatus, stale: StalePod, asked: RestartRecord, settings: Settings, now: datetime
) -> NodeStatus:
    """Evaluate a stale pod in the controller, which retries each failed restart after a longer pause."""
    same_run, successor = asked.driver_run == stale.driver_run, asked.pod_uid != stale.uid
    if same_run and successor and settings.strategy is Strategy.ROLLOUT:
        # Another rollout would also restart all verified plugins.
        return judged.failed(Reason.RESTART_DID_NOT_HELP, _did_not_help(judged))
    until = held_until(asked, stale, settings)
    if until is None:
        return judged if successor else _under_way(judged, stale, asked, now)
    if now >= until:
        return replace(judged, stale_pod=replace(stale, again=True))
    later = f"the next try (number {asked.tries + 1}) is at {moment(until)}"
    if not successor:
        return judged.failed(Reason.RESTART_REFUSED, f"{_was_refused(judged, asked)}; {later}")
    if same_run:
        return judged.failed(Reason.RESTART_BACKED_OFF, f"{_did_not_help(judged)}; {later}")
    message = f"{judged.message}, and its predecessor was never verified; {later}"
    return replace(judged, reason=Reason.RESTART_BACKED_OFF, message=message)


def _did_not_help(judged: NodeStatus) -> str:
    return f"{judged.message}, although it was restarted under this driver run"


def _was_refused(judged: NodeStatus, asked: RestartRecord) -> str:
    return f"{judged.message}, and its deletion was refused: {asked.refused}"


def _under_way(judged: NodeStatus, stale: StalePod, asked: RestartRecord, now: datetime) -> NodeStatus:
    """Show a stale pod as restarting, until the deletion must be repeated."""
    if now - asked.at >= ASK_AGAIN:
        return judged
    message = f"plugin pod {stale.name} was deleted to restart it"
    return replace(judged, state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING, message=message)


def _must_come_back(judged: NodeStatus, memory: Memory) -> NodeStatus:
    """Let a node without a plugin wait if this run deleted its plugin, even if the DaemonSet desires none."""
    asked = memory.restarts.get(restart_key(judged.daemonset_uid, judged.node))
    if asked is None or asked.refused or asked.came_back:
        return judged
    message = f"the plugin that was restarted here has not come back: {judged.message}"
    return replace(
        judged,
        state=NodeState.WAITING,
        reason=Reason.PLUGIN_MISSING,
        message=message,
        subject=judged.plugin,
        patience=Patience.PLUGIN,
    )
