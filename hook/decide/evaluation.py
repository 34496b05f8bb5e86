"""Evaluate the nodes of a fleet: all of them, or only those about which something changed since the last decision.

The evaluation of a node is a pure function of the objects on it, of what applies to all nodes, of the restarts that
were issued on it, and of the time. So both ways lead to the same statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hook.decide.fleet import Fleet, context_of, views_of
from hook.decide.nodes import evaluate_node
from hook.decide.plugins import STEADY_AFTER_CRASHES
from hook.decide.state import Evaluation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import NodeView
    from hook.decide.record import RestartRecord
    from hook.decide.state import Memory
    from hook.objects.views import Snapshot

Value = TypeVar("Value")


def evaluate(
    snapshot: Snapshot, memory: Memory, settings: Settings, now: datetime, changed: Collection[str] | None
) -> Evaluation:
    """Evaluate the nodes about which something changed since the decision that the memory is of.

    `changed` are the nodes whose objects changed; None if they are not known. Then all nodes are evaluated, as they are
    if something changed that applies to all of them, or if the clock went back.
    """
    context, before = context_of(snapshot, settings), memory.evaluation
    names: set[str] | None = None
    if before is not None and changed is not None and before.holds(context, now):
        names = {*changed, *before.passing, *_restarted_on(before.restarts, memory.restarts)}
    views = views_of(snapshot, context, names)
    statuses = {name: evaluate_node(view, context, memory, now) for name, view in views.items()}
    passing = frozenset(name for name, view in views.items() if _is_passing(view, now))
    if before is not None and names is not None:
        views = _replaced(before.fleet.nodes, views, names)
        statuses = _replaced(before.statuses, statuses, names)
    return Evaluation(Fleet(context, views, snapshot), statuses, passing, now, memory.restarts)


def _replaced(before: Mapping[str, Value], again: Mapping[str, Value], names: AbstractSet[str]) -> dict[str, Value]:
    """Return the values of all nodes by name, where some nodes have other values, or none any more."""
    merged = {**before, **again}
    for name in names - again.keys():
        merged.pop(name, None)
    return merged if merged.keys() == before.keys() else dict(sorted(merged.items()))


def _restarted_on(before: Mapping[str, RestartRecord], after: Mapping[str, RestartRecord]) -> set[str]:
    """Return the nodes whose records of restarts differ.

    A proof that was recorded makes no difference at once, because it rests on the objects that were evaluated.
    """
    if before is after:
        return set()
    keys = (key for key in before.keys() | after.keys() if before.get(key) is not after.get(key))
    return {key.partition("/")[2] for key in keys}


def _is_passing(view: NodeView, now: datetime) -> bool:
    """Return whether the status of a node may change with the time alone: a plugin crashed a moment ago.

    Nothing else in the evaluation of a node depends on the time.
    """
    restarted = (container for pod in view.plugin_pods for container in pod.containers if container.restarts)
    return any(each.started_at is not None and now - each.started_at < STEADY_AFTER_CRASHES for each in restarted)
