"""How many nodes an upgrade controller upgrades at a time: the limits in its policy, and its arithmetic.

Decoding is lenient: a policy that the operator understands must not become malformed because of a field that only
plans read, so a field of a wrong type has its default.

LIB is NVIDIA/k8s-operator-libs, ``pkg/upgrade/common_manager.go``. A node counts as unavailable while it is cordoned or
its Ready condition is not true, for any cause. A percentage refers to all nodes with a driver pod, rounded up. Nodes
whose upgrade failed count as in progress.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from ctl.plan.result import Budget

if TYPE_CHECKING:
    from collections.abc import Collection

    from hook.objects import Snapshot
    from hook.objects.policies import Policy
    from hook.objects.stacks import Stack

DEFAULT_PARALLEL: Final = 1
DEFAULT_UNAVAILABLE: Final = "25%"
"""LIB ``api/upgrade/v1alpha1``, GO ``api/nvidia/v1alpha1``: defaults of the kinds."""
LONGEST: Final = 80
"""Characters that are kept of a text: no valid value is longer."""
LARGEST: Final = 10**9

_PERCENT: Final = re.compile(r"[0-9]{1,9}%")


@dataclass(frozen=True, slots=True)
class Removal:
    """How pods are removed from a node: ``podDeletion`` and ``drain`` of a policy."""

    force: bool = False
    """Pods without a controller are deleted, too."""
    delete_empty_dir: bool = False
    """Pods with local data are deleted, too."""
    selector: str = ""
    """Label selector of the pods that are drained."""


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """How an upgrade controller handles its nodes, as written in a policy."""

    parallel: int = DEFAULT_PARALLEL
    """Nodes at once; zero means no limit."""
    unavailable: int | str | None = None
    """Nodes that may be unavailable, a number or a percentage; None where the kind has no such limit."""
    waits_for: str = ""
    """Selector of pods that must complete before a node begins."""
    wait_seconds: int = 0
    """How long they may take; zero means no limit."""
    deletion: Removal = Removal()
    """Of GPU pods."""
    drain: Removal | None = None
    """Of whole nodes; None if it is not enabled."""


def upgrade_policy(policy: Policy, stack: Stack) -> UpgradePolicy:
    """Read the upgrade policy of an object that specifies drivers."""
    found = policy.driver.upgrade_policy or {}
    deletion, drain, waiting = (_inside(found, part) for part in ("podDeletion", "drain", "waitForCompletion"))
    unavailable = found.get("maxUnavailable", DEFAULT_UNAVAILABLE)
    return UpgradePolicy(
        parallel=_number(found, "maxParallelUpgrades", DEFAULT_PARALLEL),
        unavailable=unavailable if stack.upgrade.counts_unavailable else None,
        waits_for=_text(waiting.get("podSelector")),
        wait_seconds=_number(waiting, "timeoutSeconds", 0),
        deletion=_removal(deletion),
        drain=_removal(drain, stack.upgrade.drains) if drain.get("enable") is True else None,
    )


def drain_selectors(snapshot: Snapshot, stack: Stack) -> set[str]:
    """Return the selectors of all drains that the policies of a stack enable."""
    policies = [upgrade_policy(each, stack) for each in (*(snapshot.policies or ()), *snapshot.pools)]
    return {policy.drain.selector for policy in policies if policy.drain is not None}


def _removal(found: Mapping[str, Any], selector: str = "") -> Removal:
    own = found.get("podSelector")
    return Removal(
        force=found.get("force") is True,
        delete_empty_dir=found.get("deleteEmptyDir") is True,
        selector=",".join(filter(None, (own if isinstance(own, str) else "", selector))),
    )


def allowed(limit: object, total: int) -> int:
    """Read ``maxUnavailable`` (K8S ``intstr.GetScaledValueFromIntOrPercent``, rounded up).

    An invalid limit, such as ``"7"`` in quotes, allows no node: the upgrade controller stops with an error.
    """
    if isinstance(limit, int) and not isinstance(limit, bool):
        return limit if 0 <= limit <= LARGEST else 0
    return ceil(total * int(limit[:-1]) / 100) if isinstance(limit, str) and _PERCENT.fullmatch(limit) else 0


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
    limit = policy.unavailable
    most = total if limit is None else allowed(limit, total)
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
        unavailable=None if limit is None else _written(limit),
        allowed=most,
        lost=tuple(sorted(lost)),
        stuck=tuple(sorted(stuck)),
        at_once=min(at_once, waiting),
    )


def _inside(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object under a key; empty if there is none."""
    value = found.get(key)
    return value if isinstance(value, Mapping) else {}


def _number(found: Mapping[str, Any], key: str, default: int) -> int:
    value = found.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    return default


def _text(value: object) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""


def _written(limit: object) -> str:
    """Format a limit. A text that is no percentage gets quotes, because ``"7"`` is no number."""
    quoted = isinstance(limit, str) and not _PERCENT.fullmatch(limit)
    return f'"{limit}"'[:LONGEST] if quoted else str(limit)[:LONGEST]
