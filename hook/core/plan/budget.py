"""Calculate the limits of the upgrade controller, with the arithmetic of its library.

LIB is NVIDIA/k8s-operator-libs, ``pkg/upgrade/common_manager.go``. A node counts as unavailable while it is cordoned or
its Ready condition is not true, for any cause. A percentage refers to all nodes with a driver pod, rounded up. Nodes
whose upgrade failed count as in progress. A node that was cordoned before needs no place: the controller upgrades it
regardless of the limits, and it stays cordoned.
"""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Final

from hook.core.plan.values import Budget

if TYPE_CHECKING:
    from collections.abc import Collection

    from hook.objects.policies import UpgradePolicy

_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def allowed(limit: str, total: int) -> int | None:
    """Read ``maxUnavailable`` (K8S ``intstr.GetScaledValueFromIntOrPercent``, rounded up); None if it is invalid.

    Without a limit every node is allowed.
    """
    if not limit:
        return total
    if _PERCENT.fullmatch(limit):
        return ceil(total * int(limit[:-1]) / 100)
    return int(limit) if _NUMBER.fullmatch(limit) else None


def available(  # noqa: PLR0913 - the library's own function has as many
    *, required: int, in_progress: int, total: int, lost: int, parallel: int, most: int
) -> int:
    """Return how many more nodes may begin now (LIB ``GetUpgradesAvailable``)."""
    free = required if parallel == 0 else parallel - in_progress
    free = min(free, most)
    if lost >= most:
        return 0
    if most < total and lost + free > most:
        return most - lost
    return max(free, 0)


def budget(policy: UpgradePolicy, total: int, waiting: int, lost: Collection[str], stuck: Collection[str]) -> Budget:
    """Calculate how many of the waiting nodes are upgraded at once.

    The result holds for the moment in which the next node gets a place. Earlier nodes are then available again.
    """
    most = allowed(policy.unavailable, total)
    at_once = 0
    if most is not None:
        at_once = available(
            required=waiting,
            in_progress=len(stuck),
            total=total,
            lost=len(lost),
            parallel=policy.parallel,
            most=most,
        )
    return Budget(
        total=total,
        parallel=policy.parallel,
        unavailable=policy.unavailable,
        allowed=most,
        lost=tuple(sorted(lost)),
        stuck=tuple(sorted(stuck)),
        at_once=min(at_once, waiting),
    )
