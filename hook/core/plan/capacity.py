"""Count the GPUs of a pool, and how many of them an upgrade makes unavailable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hook.core import names
from hook.core.plan.values import Capacity, Range
from hook.objects.readers import small_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hook.core.plan.pools import Pool

LABEL: Final = f"label {names.GPU_COUNT_LABEL}"
RESOURCE: Final = f"capacity {names.GPU_RESOURCE}"
SLICES: Final = "devices in ResourceSlices"
"""Sources of a node's number of GPUs, the most reliable first. MIG and time slicing change the capacity. MIG and
passthrough to virtual machines change the number of devices."""
SECONDS_AN_HOUR: Final = 3600


def of_nodes(pool: Pool) -> dict[str, tuple[int, str]]:
    """Return the number of GPUs of each node, with its source; nodes without a known number are left out."""
    counts = ((name, _of_node(name, pool)) for name in pool.all_nodes)
    return {name: count for name, count in counts if count is not None}


def lost(pool: Pool, nodes: Sequence[str], at_once: int, step: Range) -> Capacity:
    """Calculate the GPUs that are unavailable during the upgrade. The worst case is the nodes with the most GPUs."""
    known = of_nodes(pool)
    counts = {name: count for name, (count, _source) in known.items()}
    away = sum(counts.get(name, 0) for name in nodes)
    hours = Range(away * step.typical / SECONDS_AN_HOUR, away * step.slow / SECONDS_AN_HOUR) if at_once else None
    return Capacity(
        gpus=sum(counts.values()),
        at_once=worst(counts, nodes, at_once),
        hours=hours,
        sources=dict(Counter(source for _count, source in known.values())),
        unknown=tuple(name for name in pool.all_nodes if name not in known),
    )


def worst(counts: Mapping[str, int], nodes: Sequence[str], at_once: int) -> int:
    """Return the number of GPUs of the nodes that have the most."""
    return sum(sorted((counts.get(name, 0) for name in nodes), reverse=True)[:at_once])


def _of_node(name: str, pool: Pool) -> tuple[int, str] | None:
    node = pool.node(name)
    label = small_number(node.labels.get(names.GPU_COUNT_LABEL)) if node is not None else None
    if label is not None:
        return label, LABEL
    if node is not None and node.gpus is not None:
        return node.gpus, RESOURCE
    devices = sum(device_slice.devices for device_slice in pool.fleet.slices.get(name, ()))
    return (devices, SLICES) if devices else None
