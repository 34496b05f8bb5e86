"""Group the nodes of a stack by their upgrade policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hook.core import eligibility, intent, names
from hook.core.plan.values import LeftAlone
from hook.core.reasons import Reason
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.stack import PolicyKind
    from hook.objects.policies import Policy, UpgradePolicy
    from hook.objects.views import Node, Pod


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
    left_alone: tuple[LeftAlone, ...] = ()

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """Return all nodes, including excluded ones."""
        return (*self.nodes, *(excluded.node for excluded in self.left_alone))

    @property
    def pods(self) -> list[Pod]:
        """Return the driver pods of all nodes."""
        return [pod for name in self.all_nodes for pod in self.fleet.driver_pods.get(name, ())]

    @property
    def managed(self) -> list[str]:
        """Return the nodes that the upgrade controller knows: those with a driver pod."""
        return [name for name in self.all_nodes if self.fleet.driver_pods.get(name)]

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
        live = (
            (name, pod) for name in self.nodes for pod in eligibility.live_pods(self.fleet.driver_pods.get(name, ()))
        )
        return sorted({*self.moving, *(name for name, pod in live if eligibility.outdated(pod, self.fleet))})

    def node(self, name: str) -> Node | None:
        """Return a node of the snapshot."""
        return self.fleet.seen.nodes.get(name)

    def _state(self, name: str) -> str:
        node = self.node(name)
        return node.labels.get(self.fleet.stack.upgrade.state, "") if node is not None else ""


def split(fleet: Fleet, policy: Policy, now: datetime) -> list[Pool]:
    """Return the pools of a stack, each with its nodes."""
    gates = {name: eligibility.left_alone(name, fleet.seen.nodes.get(name), fleet, now) for name in fleet.node_names}
    left = {
        name: LeftAlone(name, gate.reason, gate.message)
        for name, gate in gates.items()
        # A driver without automatic upgrade concerns the whole pool, not the node.
        if gate is not None and gate.state is NodeState.EXCLUDED and gate.reason is not Reason.MANUAL_UPGRADE
    }
    decide = policy.pooled and intent.pools_decide(fleet.seen.nodes.values(), fleet.seen.pools, fleet.stack)
    kind = fleet.stack.pool if decide else None
    pools = [_whole(fleet, policy)] if kind is None else _of_objects(fleet, policy, kind)
    return [_sorted(pool, left) for pool in pools]


def _sorted(pool: Pool, left: dict[str, LeftAlone]) -> Pool:
    """Separate the nodes that will not reload: excluded nodes, and nodes whose upgrade failed."""
    message = f"its upgrade state is {names.STATE_FAILED}, until an administrator resets the node"
    failed = {name: LeftAlone(name, Reason.UPGRADE_FAILED, message) for name in pool.stuck}
    apart = failed | left
    return replace(
        pool,
        nodes=tuple(name for name in pool.nodes if name not in apart),
        left_alone=tuple(apart[name] for name in pool.nodes if name in apart),
    )


def _whole(fleet: Fleet, policy: Policy) -> Pool:
    return Pool(
        fleet,
        name=str(policy),
        policy=policy.upgrade,
        where=f"{policy} {fleet.stack.policy.upgrade}",
        manual=policy.manual or "",
        nodes=tuple(fleet.node_names),
    )


def _of_objects(fleet: Fleet, policy: Policy, kind: PolicyKind) -> list[Pool]:
    """Return one pool per object, and one for the nodes that belong to none."""
    by_uid: dict[str, list[str]] = {}
    for name in fleet.node_names:
        by_uid.setdefault(_owner(name, fleet), []).append(name)
    pools = [
        Pool(
            fleet,
            name=str(owner),
            policy=owner.upgrade,
            where=f"{owner} {kind.upgrade}",
            manual=intent.not_rotated(owner, policy, decides=True),
            nodes=tuple(by_uid.get(owner.uid, ())),
        )
        for owner in sorted(fleet.seen.pools, key=lambda owner: owner.name)
    ]
    rest = Pool(
        fleet,
        name=f"no {kind.kind}",
        policy=policy.upgrade,
        where=kind.kind,
        manual=f"no {kind.kind} selects them",
        nodes=tuple(by_uid.get("", ())),
    )
    return [pool for pool in (*pools, rest) if pool.nodes]


def _owner(name: str, fleet: Fleet) -> str:
    """Return the UID of a node's pool: the object that its driver is rendered from, or that its label names."""
    for pod in eligibility.live_pods(fleet.driver_pods.get(name, ())):
        if pod.owner_uid in fleet.intents:
            return fleet.intents[pod.owner_uid].uid
    node = fleet.seen.nodes.get(name)
    named = node.labels.get(fleet.stack.nodes.pool, "") if node is not None else ""
    return next((pool.uid for pool in fleet.seen.pools if pool.name == named), "")


def _unavailable(node: Node | None) -> bool:
    """Return whether the upgrade controller counts a node as unavailable."""
    return node is not None and (node.cordoned or not node.ready)
