"""Pools: the nodes that one policy upgrades, and the GPUs that their upgrade takes away.

A node that was cordoned before needs no place: the upgrade controller upgrades it regardless of the limits, and it
stays cordoned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ctl.plan import limits
from ctl.plan.result import Capacity, Excluded
from hook.decide.fleet import live_pods, not_rotated, pools_decide
from hook.decide.node import excluded
from hook.decide.reasons import Reason
from hook.decide.result import Condition, NodeState
from hook.format import timestamp
from hook.objects import names
from hook.objects.nodes import small_number

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ctl.plan.limits import UpgradePolicy
    from ctl.plan.result import Budget
    from hook.decide.fleet import Context, Fleet
    from hook.objects import Node, Pod
    from hook.objects.policies import Policy


GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
"""GPU feature discovery: number of physical GPUs of a node, regardless of MIG and time slicing."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with one upgrade policy, in their current state."""

    fleet: Fleet
    name: str
    policy: UpgradePolicy
    where: str
    """Where users find the policy: kind and field."""
    manual: str
    """Why nothing rotates its driver pods; empty where the upgrade controller does."""
    nodes: tuple[str, ...]
    """Nodes that will reload their driver."""
    excluded: tuple[Excluded, ...] = ()

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """Return all nodes, including excluded ones."""
        return (*self.nodes, *(excluded.node for excluded in self.excluded))

    @property
    def pods(self) -> list[Pod]:
        """Return the driver pods of all nodes."""
        return [pod for name in self.all_nodes for pod in self.fleet.drivers_on(name)]

    @property
    def managed(self) -> list[str]:
        """Return the nodes that the upgrade controller knows: those with a driver pod."""
        return [name for name in self.all_nodes if self.fleet.drivers_on(name)]

    @property
    def moving(self) -> list[str]:
        """Return the nodes that are being upgraded now. Their current availability does not last."""
        idle = {*names.STATES_QUIET, names.STATE_REQUIRED, names.STATE_FAILED}
        return [name for name in self.managed if self._state(name) not in idle]

    @property
    def stuck(self) -> list[str]:
        """Return the nodes whose upgrade failed."""
        return [name for name in self.managed if self._state(name) == names.STATE_FAILED]

    @property
    def lost(self) -> list[str]:
        """Return the nodes that are cordoned or not Ready, but not because of the upgrade."""
        moving = set(self.moving)
        return [name for name in self.managed if name not in moving and _unavailable(self.node(name))]

    @property
    def cordoned(self) -> list[str]:
        """Return the nodes that were cordoned before. The upgrade controller upgrades them without a place."""
        lost = set(self.lost)
        return [name for name in self.nodes if name in lost and (node := self.node(name)) is not None and node.cordoned]

    @property
    def to_come(self) -> list[str]:
        """Return the nodes that an upgrade in progress has not finished."""
        live = ((name, pod) for name in self.nodes for pod in live_pods(self.fleet.drivers_on(name)))
        return sorted({*self.moving, *(name for name, pod in live if self.fleet.context.is_outdated(pod))})

    def budget(self, waiting: int) -> Budget:
        """Return how many of so many waiting nodes the upgrade controller upgrades at once."""
        return limits.budget(self.policy, len(self.managed), waiting, self.lost, self.stuck)

    def node(self, name: str) -> Node | None:
        """Return a node of the snapshot."""
        return self.fleet.snapshot.nodes.get(name)

    def _state(self, name: str) -> str:
        node = self.node(name)
        return node.labels.get(self.fleet.stack.upgrade.state, "") if node is not None else ""


def split(fleet: Fleet, policy: Policy, now: datetime) -> list[Pool]:
    """Return the pools of a stack, each with its nodes."""
    blockers = {
        name: _away(view.node, fleet.context, now) or excluded(view, fleet.context)
        for name, view in fleet.nodes.items()
    }
    away = {
        name: Excluded(name, blocker.reason, blocker.message)
        for name, blocker in blockers.items()
        # A driver without automatic upgrade concerns the whole pool, not the node.
        if blocker is not None and blocker.state is NodeState.EXCLUDED and blocker.reason is not Reason.MANUAL_UPGRADE
    }
    decide = policy.driver.pooled and pools_decide(fleet.snapshot.nodes.values(), fleet.snapshot.pools, fleet.stack)
    kind = fleet.stack.pool if decide else None
    pools = [_whole(fleet, policy)] if kind is None else _of_objects(fleet, policy, kind)
    return [_without_excluded(pool, away) for pool in pools]


def _away(node: Node | None, context: Context, now: datetime) -> Condition | None:
    """Exclude a node that has been NotReady for long. A plan has only one look, so it goes by the node's own time."""
    if node is None or node.ready or node.ready_since is None:
        return None
    if now - node.ready_since < context.settings.node_timeout:
        return None
    return Condition(NodeState.EXCLUDED, Reason.NODE_NOT_READY, f"it is NotReady since {timestamp(node.ready_since)}")


def _without_excluded(pool: Pool, excluded: dict[str, Excluded]) -> Pool:
    """Separate the nodes that will not reload: excluded nodes, and nodes whose upgrade failed."""
    message = f"its upgrade state is {names.STATE_FAILED}, until an administrator resets the node"
    failed = {name: Excluded(name, Reason.UPGRADE_FAILED, message) for name in pool.stuck}
    apart = failed | excluded
    return replace(
        pool,
        nodes=tuple(name for name in pool.nodes if name not in apart),
        excluded=tuple(apart[name] for name in pool.nodes if name in apart),
    )


def _whole(fleet: Fleet, policy: Policy) -> Pool:
    return Pool(
        fleet,
        name=str(policy),
        policy=limits.upgrade_policy(policy, fleet.stack),
        where=f"{policy} {fleet.stack.policy.upgrade}",
        manual=policy.manual or "",
        nodes=tuple(fleet.nodes),
    )


def _of_objects(fleet: Fleet, policy: Policy, kind: type[Policy]) -> list[Pool]:
    """Return one pool per object, and one for the nodes that belong to none."""
    by_uid: dict[str, list[str]] = {}
    for name in fleet.nodes:
        by_uid.setdefault(_owner(name, fleet), []).append(name)
    pools = [
        Pool(
            fleet,
            name=str(owner),
            policy=limits.upgrade_policy(owner, fleet.stack),
            where=f"{owner} {kind.upgrade}",
            manual=not_rotated(owner, policy, decides=True),
            nodes=tuple(by_uid.get(owner.uid, ())),
        )
        for owner in sorted(fleet.snapshot.pools, key=lambda owner: owner.name)
    ]
    rest = Pool(
        fleet,
        name=f"no {kind.kind}",
        policy=limits.upgrade_policy(policy, fleet.stack),
        where=kind.kind,
        manual=f"no {kind.kind} selects them",
        nodes=tuple(by_uid.get("", ())),
    )
    return [pool for pool in (*pools, rest) if pool.nodes]


def _owner(name: str, fleet: Fleet) -> str:
    """Return the UID of a node's pool: the object that its driver is rendered from, or that its label names."""
    for pod in live_pods(fleet.drivers_on(name)):
        driver = fleet.context.drivers.get(pod.owner_uid)
        if driver is not None and driver.source is not None:
            return driver.source.uid
    node = fleet.snapshot.nodes.get(name)
    named = node.labels.get(fleet.stack.nodes.pool, "") if node is not None else ""
    return next((pool.uid for pool in fleet.snapshot.pools if pool.name == named), "")


def _unavailable(node: Node | None) -> bool:
    """Return whether the upgrade controller counts a node as unavailable."""
    return node is not None and (node.cordoned or not node.ready)


def capacity(pool: Pool, nodes: Iterable[str], at_once: int) -> Capacity:
    """Calculate the GPUs that are unavailable while so many of the nodes are upgraded at once."""
    counts = {name: _gpu_count(name, pool) for name in pool.all_nodes}
    known = {name: count for name, count in counts.items() if count is not None}
    worst = sorted((known.get(name, 0) for name in nodes), reverse=True)[:at_once]
    unknown = tuple(name for name in counts if name not in known)
    return Capacity(gpus=sum(known.values()), away=sum(worst), unknown=unknown)


def _gpu_count(name: str, pool: Pool) -> int | None:
    """Return the number of GPUs of a node, by the most reliable source.

    MIG and time slicing change the capacity. MIG and passthrough to virtual machines change the number of devices.
    """
    node = pool.node(name)
    label = small_number(node.labels.get(GPU_COUNT_LABEL, "")) if node is not None else None
    if label is not None:
        return label
    if node is not None and node.gpus is not None:
        return node.gpus
    return sum(device_slice.devices for device_slice in pool.fleet.nodes[name].slices) or None
