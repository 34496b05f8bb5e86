"""Which devices no new claim may get, because their node's driver is not ready or its plugin stale.

A taint begins with the driver or with a stale plugin. A plugin that restarts for another reason causes none. A taint
that exists stays until the plugin is verified: the rule itself, which is listed, is all that is remembered of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.decide.reasons import Reason
from hook.decide.result import TERMINAL, Phase
from hook.objects.taints import Place

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hook.decide.fleet import Fleet, NodeView
    from hook.decide.result import Decision, NodeStatus
    from hook.objects.stacks import Stack


def wanted(decision: Decision, fleet: Fleet, existing: Collection[Place]) -> Mapping[Place, Reason]:
    """Return the devices that need a taint, with the reason. `existing` are those that have one.

    Nothing keeps claims from an excluded node, because nothing verifies it. If there is nothing to protect, no node is.
    """
    found: dict[Place, Reason] = {}
    if decision.phase is Phase.SKIP:
        return found
    for status in decision.statuses:
        if status.state in TERMINAL or status.node not in fleet.nodes:
            continue
        for place in _places(fleet.nodes[status.node], fleet.stack):
            if status.exposed is not None:
                found[place] = status.exposed
            elif place in existing and _is_unverified(status, fleet):
                found.setdefault(place, status.reason)
    return found


def _places(view: NodeView, stack: Stack) -> list[Place]:
    """Return the pools of a node, for each DRA driver of its plugin.

    DRA names a pool by its node. ResourceSlices are deleted while a plugin is down for long, and return.
    """
    pools = sorted({each.pool for each in view.slices}) or [view.name]
    return [Place(driver, pool) for driver in stack.plugin.claim_drivers for pool in pools]


def _is_unverified(status: NodeStatus, fleet: Fleet) -> bool:
    """Return whether the driver is settled, and a plugin is not verified on it.

    A failed upgrade takes the place of a plugin that is verified.
    """
    if status.reason is Reason.UPGRADE_FAILED:
        return False
    return bool(status.plugin) and fleet.context.plugins.is_plugin(status.daemonset_uid)
