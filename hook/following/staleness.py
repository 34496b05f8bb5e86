"""Measure how long each plugin is stale: from the ready time of its driver until the plugin is verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.core.reasons import Reason
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from hook.core.verdicts import Judgement

Key = tuple[str, str, str]
"""Stack, node, consumer."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A plugin that was stale and is verified now."""

    stack: str
    after: timedelta


def is_stale(judged: Judgement) -> bool:
    """Return whether a plugin pod is stale, restarted or not."""
    return judged.stale_pod is not None or judged.reason is Reason.PLUGIN_UNWELCOME


def is_served(judged: Judgement) -> bool:
    """Return whether the status is that of a plugin on an eligible node with a settled driver."""
    return bool(judged.consumer) and judged.state is not NodeState.EXCLUDED


class Staleness:
    """Stale plugins, and since when they are stale."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def update(self, judgements: Iterable[Judgement], now: datetime) -> list[Recovery]:
        """Record the statuses of a reconcile. Return the plugins that were verified since the last one."""
        judged = {(status.stack, status.node, status.consumer): status for status in judgements}
        back: list[Recovery] = []
        after: dict[Key, datetime] = {}
        for key, since in self._since.items():
            status = judged.get(key)
            if status is not None and status.state is NodeState.VERIFIED:
                back.append(Recovery(status.stack, now - since))
            elif _goes_on(status, key, judged):
                after[key] = since
        for key, status in judged.items():
            if is_stale(status) and status.state is not NodeState.EXCLUDED:
                after[key] = min(after.get(key, now), _ready(status) or now)
        self._since = after
        return back

    def oldest(self, stack: str) -> datetime | None:
        """Return since when the plugin that has waited longest is stale, or None."""
        return min((since for (of, _node, _consumer), since in self._since.items() if of == stack), default=None)


def _goes_on(judged: Judgement | None, key: Key, others: Mapping[Key, Judgement]) -> bool:
    """Return whether a plugin that was stale is not verified yet: its own status, or that of its node, shows it."""
    if judged is None:
        stack, node, _consumer = key
        judged = others.get((stack, node, ""))
    return judged is not None and judged.state is not NodeState.EXCLUDED


def _ready(judged: Judgement) -> datetime | None:
    return judged.stale_pod.driver_ready if judged.stale_pod is not None else None
