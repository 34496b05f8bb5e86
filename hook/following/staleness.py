"""Since when each plugin that went stale has been without its driver: from the driver's ready time until verified."""

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
    """A plugin that was stale and is verified."""

    stack: str
    after: timedelta


def is_stale(judged: Judgement) -> bool:
    """Whether there is a pod that runs on a driver that is gone, whatever is being done about it."""
    return judged.stale_pod is not None or judged.reason is Reason.PLUGIN_UNWELCOME


def is_served(judged: Judgement) -> bool:
    """Whether it is about a plugin that is looked after, on a node whose driver is settled."""
    return bool(judged.consumer) and judged.state is not NodeState.EXCLUDED


class Staleness:
    """Remembers what is stale between rounds; grows with the fleet and shrinks with it."""

    def __init__(self) -> None:
        self._since: dict[Key, datetime] = {}

    def update(self, judgements: Iterable[Judgement], now: datetime) -> list[Recovery]:
        """Take a round's judgements; gives what came back since the last one."""
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
        """Give the moment since which the one that has waited longest is stale."""
        return min((since for (of, _node, _consumer), since in self._since.items() if of == stack), default=None)


def _goes_on(judged: Judgement | None, key: Key, others: Mapping[Key, Judgement]) -> bool:
    """Whether what was stale still waits: as itself, or with its node for a driver that reloads once more."""
    if judged is None:
        stack, node, _consumer = key
        judged = others.get((stack, node, ""))
    return judged is not None and judged.state is not NodeState.EXCLUDED


def _ready(judged: Judgement) -> datetime | None:
    return judged.stale_pod.driver_ready if judged.stale_pod is not None else None
