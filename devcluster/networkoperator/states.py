"""What the policy's status says: one state for each part, and one for all."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import labels_of
from devcluster.networkoperator.names import FIELDS, NOT_SIMULATED, STATE

Object = dict[str, Any]

READY, NOT_READY, IGNORE, ERROR = "ready", "notReady", "ignore", "error"


def applied_states(policy: Object, daemonsets: list[Object], trouble: str = "") -> list[Object]:
    """Judge each part of the policy by its DaemonSets; `trouble` is why the driver could not be rendered."""
    states = [{"name": name, "state": IGNORE} for name in NOT_SIMULATED]
    for name, field in FIELDS.items():
        mine = [each for each in daemonsets if labels_of(each).get(STATE) == name]
        if policy["spec"].get(field) is None:
            states.append({"name": name, "state": NOT_READY if mine else IGNORE})
        elif trouble and name == next(iter(FIELDS)):
            states.append({"name": name, "state": ERROR, "message": trouble})
        else:
            ready = bool(mine) and all(is_ready(each) for each in mine)
            states.append({"name": name, "state": READY if ready else NOT_READY})
    return states


def overall(states: list[Object]) -> str:
    """Sum up: an error counts most, then what is not ready."""
    found = {each["state"] for each in states}
    return next((state for state in (ERROR, NOT_READY) if state in found), READY)


def is_ready(daemonset: Object) -> bool:
    """Judge a DaemonSet as the real one does: pods everywhere, all of them new, and never without any.

    It does not ask whether the status is of this generation.
    """
    status = daemonset.get("status", {})
    desired = status.get("desiredNumberScheduled", 0)
    return bool(desired != 0 and desired == status.get("numberAvailable") == status.get("updatedNumberScheduled"))
