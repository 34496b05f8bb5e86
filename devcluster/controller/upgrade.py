"""The upgrade state machine: from what is seen of the nodes to what to change on them now.

One pass moves each node by at most one state, from one picture of all nodes, in the order of the
real library. The states' names and the arithmetic of the limits are its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import HASH, annotations_of, labels_of, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Object = dict[str, Any]

UNKNOWN = ""
REQUIRED = "upgrade-required"
CORDON = "cordon-required"
WAIT_FOR_JOBS = "wait-for-jobs-required"
POD_DELETION = "pod-deletion-required"
DRAIN = "drain-required"
POD_RESTART = "pod-restart-required"
VALIDATION = "validation-required"
UNCORDON = "uncordon-required"
DONE = "upgrade-done"
FAILED = "upgrade-failed"

IDLE = {UNKNOWN, DONE, REQUIRED}
"""States that take no place among the parallel upgrades."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The node labels and annotations of one driver, which the library derives from its name."""

    driver: str

    @property
    def state(self) -> str:
        """The label with the upgrade state."""
        return f"nvidia.com/{self.driver}-driver-upgrade-state"

    @property
    def skip(self) -> str:
        """The label by which a user has the node left alone."""
        return f"nvidia.com/{self.driver}-driver-upgrade.skip"

    @property
    def initially_cordoned(self) -> str:
        """The annotation that remembers somebody else's cordon."""
        return f"nvidia.com/{self.driver}-driver-upgrade.node-initial-state.unschedulable"

    @property
    def safe_load(self) -> str:
        """The annotation by which a starting driver asks for the node to be emptied first."""
        return f"nvidia.com/{self.driver}-driver-upgrade.driver-wait-for-safe-load"


@dataclass(frozen=True, slots=True)
class Flow:
    """How one operator uses the library: its driver's keys, and the states that it switched on."""

    keys: Keys
    before_restart: Mapping[str, str]
    """States that end at once: the simulated nodes have no jobs, and no pods that must go before the driver."""
    validates: bool


GPU = Flow(Keys("gpu"), {WAIT_FOR_JOBS: POD_DELETION, POD_DELETION: POD_RESTART}, validates=True)
OFED = Flow(Keys("ofed"), {WAIT_FOR_JOBS: DRAIN, DRAIN: POD_RESTART}, validates=False)


@dataclass(frozen=True, slots=True)
class Change:
    """What to do with one node; None leaves things as they are."""

    node: str
    state: str | None = None
    cordon: bool | None = None
    remember_cordon: bool | None = None
    """Note on the node that it was cordoned before us, or forget that."""
    delete_pod: Object | None = None
    let_load: bool = False
    """Take the annotation away with which the driver waits for a safe moment."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A node and the driver pod on it."""

    node: Object
    pod: Object
    newest_hash: str
    """Of the DaemonSet that owns the pod; none for a pod that nobody owns any more, which is never in sync."""
    keys: Keys = GPU.keys

    @property
    def name(self) -> str:
        """The node's name."""
        return name_of(self.node)

    @property
    def state(self) -> str:
        """The upgrade state in the node's label."""
        return labels_of(self.node).get(self.keys.state, UNKNOWN)

    @property
    def skipped(self) -> bool:
        """Whether the user wants this node left alone."""
        return labels_of(self.node).get(self.keys.skip) == "true"

    @property
    def cordoned(self) -> bool:
        """Whether the node takes no new pods."""
        return bool(self.node.get("spec", {}).get("unschedulable", False))

    @property
    def cordoned_before(self) -> bool:
        """Whether somebody else had cordoned it."""
        return self.keys.initially_cordoned in annotations_of(self.node)

    @property
    def waits_for_safe_load(self) -> bool:
        """Whether the driver waits until the node is empty."""
        return bool(annotations_of(self.node).get(self.keys.safe_load))

    @property
    def available(self) -> bool:
        """Whether the node counts as available: schedulable and Ready."""
        conditions = self.node.get("status", {}).get("conditions", [])
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        return ready and not self.cordoned

    @property
    def synced(self) -> bool:
        """Whether the pod is of the newest revision. Nobody asks here whether it is Ready."""
        return labels_of(self.pod).get(HASH) == self.newest_hash

    @property
    def pod_ready(self) -> bool:
        """Whether the pod runs and all its containers are ready."""
        containers = self.pod.get("status", {}).get("containerStatuses", [])
        running = self.pod.get("status", {}).get("phase") == "Running"
        return running and bool(containers) and all(each["ready"] for each in containers)

    @property
    def restarts(self) -> int:
        """The most restarts among the pod's containers."""
        containers = self.pod.get("status", {}).get("containerStatuses", [])
        return max((each["restartCount"] for each in containers), default=0)


def advance(seats: list[Seat], limits: Object, failed_restarts: int, flow: Flow = GPU) -> list[Change]:
    """Decide one pass over all nodes. `limits` is the policy's upgradePolicy."""
    changes = [change for seat in seats if (change := _settle(seat)) is not None]
    changes += _begin(seats, limits)
    changes += [change for seat in seats if (change := _proceed(seat, failed_restarts, flow)) is not None]
    return changes


def is_quiet(node: Object, keys: Keys = GPU.keys) -> bool:
    """Tell whether a node's upgrade is over, or kept from it by its user."""
    labels = labels_of(node)
    return labels.get(keys.state, UNKNOWN) in {UNKNOWN, DONE} or labels.get(keys.skip) == "true"


def slots(seats: list[Seat], limits: Object) -> int:
    """Return how many more nodes may begin now."""
    waiting = sum(seat.state == REQUIRED for seat in seats)
    busy = sum(seat.state not in IDLE for seat in seats)
    parallel = int(limits.get("maxParallelUpgrades", 1))
    free = waiting if parallel == 0 else parallel - busy
    allowed = _max_unavailable(limits.get("maxUnavailable", "25%"), len(seats))
    lost = sum(not seat.available or seat.state == CORDON for seat in seats)
    return max(0, min(free, allowed - lost))


def _settle(seat: Seat) -> Change | None:
    """Judge nodes that are idle, by the hash of their pod, and by whether it waits to be let."""
    if seat.state not in {UNKNOWN, DONE}:
        return None
    if not seat.synced or seat.waits_for_safe_load:
        return Change(seat.name, REQUIRED, remember_cordon=True if seat.cordoned else None)
    return Change(seat.name, DONE) if seat.state == UNKNOWN else None


def _begin(seats: list[Seat], limits: Object) -> list[Change]:
    """Let nodes begin while there are slots; one that is cordoned already needs none."""
    free = slots(seats, limits)
    begun = []
    for seat in seats:
        if seat.state != REQUIRED or seat.skipped:
            continue
        if free > 0 or seat.cordoned:
            begun.append(Change(seat.name, CORDON))
            free -= 1
    return begun


def _proceed(seat: Seat, failed_restarts: int, flow: Flow) -> Change | None:
    """Move a node that is under way."""
    if seat.state == CORDON:
        return Change(seat.name, WAIT_FOR_JOBS, cordon=True)
    if seat.state in flow.before_restart:
        return Change(seat.name, flow.before_restart[seat.state])
    if seat.state == POD_RESTART:
        return _restart(seat, failed_restarts, flow)
    if seat.state == UNCORDON:
        return Change(seat.name, DONE, cordon=False)
    recovered = seat.state == FAILED and seat.synced and seat.pod_ready
    return _leave(seat) if recovered or seat.state == VALIDATION else None


def _restart(seat: Seat, failed_restarts: int, flow: Flow) -> Change | None:
    """Delete the old pod; let the new one load; go on when it is Ready; give up on one that keeps crashing."""
    if not seat.synced:
        terminating = "deletionTimestamp" in seat.pod["metadata"]
        return None if terminating else Change(seat.name, delete_pod=seat.pod)
    if seat.waits_for_safe_load:
        return Change(seat.name, let_load=True)
    if seat.pod_ready:
        return Change(seat.name, VALIDATION) if flow.validates else _leave(seat)
    return Change(seat.name, FAILED) if seat.restarts > failed_restarts else None


def _leave(seat: Seat) -> Change:
    """Uncordon the node, unless somebody else had cordoned it."""
    if seat.cordoned_before:
        return Change(seat.name, DONE, remember_cordon=False)
    return Change(seat.name, UNCORDON)


def _max_unavailable(limit: str | int, nodes: int) -> int:
    """Read a number, or a percentage rounded up; none at all means no limit."""
    if isinstance(limit, str) and limit.endswith("%"):
        return math.ceil(nodes * int(limit[:-1]) / 100)
    return int(limit)
