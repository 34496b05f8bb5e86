"""Which NVIDIADriver a node belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.operator import names as n
from devcluster.operator.labels import is_present

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Object = dict[str, Any]


def owner_of(node: Object, drivers: Iterable[Object]) -> Object | None:
    """Return the driver object that a node belongs to: one that selects it, or the default one."""
    if not is_present(node):
        return None
    drivers = list(drivers)
    selecting = [each for each in drivers if not is_default(each) and selects(each, node)]
    return next(iter(selecting), next((each for each in drivers if is_default(each)), None))


def is_default(driver: Object) -> bool:
    """Return whether a driver object takes the nodes that no other selects (26.7)."""
    return bool(driver["spec"].get("default", False))


def selects(driver: Object, node: Object) -> bool:
    """Return whether a driver object selects a node; without a selector it selects all."""
    return n.matches(node, driver["spec"].get("nodeSelector", {}))


def conflicts(drivers: Sequence[Object], nodes: Iterable[Object]) -> bool:
    """Return whether two driver objects select one node."""
    specific = [each for each in drivers if not is_default(each)]
    return any(sum(selects(each, node) for each in specific) > 1 for node in nodes if is_present(node))
