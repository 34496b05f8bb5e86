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

import msgspec

from ctl.plan.result import Budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hook.objects.drivers import Stack
    from hook.objects.policies import Policy
    from hook.objects.views import Snapshot

PARALLEL: Final = "maxParallelUpgrades"
UNAVAILABLE: Final = "maxUnavailable"
DEFAULT_PARALLEL: Final = 1
DEFAULT_UNAVAILABLE: Final = "25%"
"""LIB ``api/upgrade/v1alpha1``, GO ``api/nvidia/v1alpha1``: defaults of the kinds."""
LOOKS_LIKE_A_LIMIT: Final = ("maxparallel", "maxunavailable")
"""Beginnings of such fields, in lower case, so that a misspelt field is found."""
HARMLESS: Final = ("", "1")
"""Values that charts write without a decision of the user (GO ``daemonsets.rollingUpdate.maxUnavailable``)."""
LONGEST: Final = 80
"""Characters that are kept of a text: no valid value is longer."""
DEEPEST: Final = 20
"""Levels of an object that are searched; the real kinds have half as many."""
MOST_MISPLACED: Final = 8
LARGEST: Final = 10**9

_PERCENT: Final = re.compile(r"[0-9]{1,9}%")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


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
    unavailable: str = ""
    """Nodes that may be unavailable, a number or a percentage; empty where the kind has no such limit."""
    waits_for: str = ""
    """Selector of pods that must complete before a node begins."""
    wait_seconds: int = 0
    """How long they may take; zero means no limit."""
    deletion: Removal = Removal()
    """Of GPU pods."""
    drain: Removal | None = None
    """Of whole nodes; None if it is not enabled."""
    misplaced: tuple[str, ...] = ()
    """Fields that look like such limits, but that no upgrade controller reads, as ``path=value``."""


def upgrade_policy(policy: Policy, stack: Stack) -> UpgradePolicy:
    """Read the upgrade policy of an object that specifies drivers."""
    kind = stack.pool if stack.pool is not None and policy.kind == stack.pool.kind else stack.policy
    path = tuple(kind.upgrade.split("."))
    found = _inside(policy.spec, *path)
    deletion, drain, waiting = (_inside(found, part) for part in ("podDeletion", "drain", "waitForCompletion"))
    limited = stack.upgrade.counts_unavailable
    known = {(*path, PARALLEL), (*path, UNAVAILABLE)} if limited else {(*path, PARALLEL)}
    return UpgradePolicy(
        parallel=_number(found, PARALLEL, DEFAULT_PARALLEL),
        unavailable=_limit(found.get(UNAVAILABLE, DEFAULT_UNAVAILABLE)) if limited else "",
        waits_for=_text(waiting.get("podSelector", "")),
        wait_seconds=_number(waiting, "timeoutSeconds", 0),
        deletion=_removal(deletion),
        drain=_removal(drain, stack.upgrade.drains) if drain.get("enable") is True else None,
        misplaced=tuple(sorted(_misplaced(policy, known))[:MOST_MISPLACED]),
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
        unavailable=policy.unavailable or None,
        allowed=most,
        lost=tuple(sorted(lost)),
        stuck=tuple(sorted(stuck)),
        at_once=min(at_once, waiting),
    )


def _misplaced(policy: Policy, known: set[tuple[str, ...]]) -> set[str]:
    """Find fields that look like limits, in the spec and in what ``kubectl apply`` sent; except for the known ones."""
    try:
        applied = msgspec.json.decode(policy.last_applied or "{}")
    except (ValueError, RecursionError):
        applied = {}
    fields = (field for spec in (policy.spec, _inside(applied, "spec")) for field in _limits_in(spec, ()))
    return {
        f"{_plain('.'.join(path))}={_text(value)}"
        for path, value in fields
        if path not in known and _text(value) not in HARMLESS
    }


def _limits_in(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if not isinstance(value, Mapping) or len(path) >= DEEPEST:
        return
    for key, inner in value.items():
        here = (*path, str(key))
        if here[-1].lower().startswith(LOOKS_LIKE_A_LIMIT):
            yield here, inner
        yield from _limits_in(inner, here)


def _inside(value: object, *path: str) -> Mapping[str, Any]:
    """Return the object at a path; empty if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _number(found: Mapping[str, Any], key: str, default: int) -> int:
    value = found.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    return default


def _limit(value: object) -> str:
    """Format a limit; a text that is no percentage keeps its quotes, because ``"7"`` is no number (K8S ``intstr``)."""
    written = _text(value)
    return f'"{written}"' if isinstance(value, str) and not value.endswith("%") else written


def _text(value: object) -> str:
    """Format a number or a text; anything else is empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) <= LARGEST else "(out of range)"
    return _plain(value) if isinstance(value, str) else ""


def _plain(text: str) -> str:
    """Make a text short and printable: anyone who can write policies wrote it, and users see it."""
    short = text[:LONGEST].encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else "?" for char in short)
