"""Sort a stack's nodes by the upgrade policy that they share."""

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
    """Nodes with one upgrade policy, as they stand now."""

    fleet: Fleet
    name: str
    policy: UpgradePolicy
    where: str
    """Where the policy is, for people: kind and field."""
    manual: str
    """Why nobody rotates its driver pods; empty where the upgrade controller does."""
    nodes: tuple[str, ...]
    """Nodes that will reload."""
    left_alone: tuple[LeftAlone, ...] = ()

    @property
    def all_nodes(self) -> tuple[str, ...]:
        """Those that are left alone included."""
        return (*self.nodes, *(one.node for one in self.left_alone))

    @property
    def pods(self) -> list[Pod]:
        """The driver pods on them."""
        return [pod for name in self.all_nodes for pod in self.fleet.driver_pods.get(name, ())]

    @property
    def managed(self) -> list[str]:
        """Nodes that the upgrade controller knows: those with a driver pod."""
        return [name for name in self.all_nodes if self.fleet.driver_pods.get(name)]

    @property
    def moving(self) -> list[str]:
        """Nodes that are in the middle of an upgrade: what they are now says nothing of what they will be."""
        idle = {*names.STATES_QUIET, names.STATE_REQUIRED, names.STATE_FAILED}
        return [name for name in self.managed if self._state(name) not in idle]

    @property
    def stuck(self) -> list[str]:
        """Nodes whose upgrade failed."""
        return [name for name in self.managed if self._state(name) == names.STATE_FAILED]

    @property
    def lost(self) -> list[str]:
        """Nodes that are cordoned or not Ready, and not by the upgrade."""
        moving = set(self.moving)
        return [name for name in self.managed if name not in moving and _unavailable(self.node(name))]

    @property
    def cordoned(self) -> list[str]:
        """Nodes that will reload although, and as soon as, they are cordoned already: they need no place."""
        lost = set(self.lost)
        return [name for name in self.nodes if name in lost and (node := self.node(name)) is not None and node.cordoned]

    @property
    def to_come(self) -> list[str]:
        """Nodes of an upgrade that is going on now, and that are not done."""
        live = (
            (name, pod) for name in self.nodes for pod in eligibility.live_pods(self.fleet.driver_pods.get(name, ()))
        )
        return sorted({*self.moving, *(name for name, pod in live if eligibility.outdated(pod, self.fleet))})

    def node(self, name: str) -> Node | None:
        """Give a node as it was read."""
        return self.fleet.seen.nodes.get(name)

    def _state(self, name: str) -> str:
        node = self.node(name)
        return node.labels.get(self.fleet.stack.upgrade.state, "") if node is not None else ""


def split(fleet: Fleet, policy: Policy, now: datetime) -> list[Pool]:
    """Give the pools of a stack, each with its nodes."""
    gates = {name: eligibility.left_alone(name, fleet.seen.nodes.get(name), fleet, now) for name in fleet.node_names}
    left = {
        name: LeftAlone(name, gate.reason, gate.message)
        for name, gate in gates.items()
        # Whether anybody rotates its driver is a matter of the whole pool.
        if gate is not None and gate.state is NodeState.EXCLUDED and gate.reason is not Reason.MANUAL_UPGRADE
    }
    decide = policy.pooled and intent.pools_decide(fleet.seen.nodes.values(), fleet.seen.pools, fleet.stack)
    kind = fleet.stack.pool if decide else None
    pools = [_whole(fleet, policy)] if kind is None else _of_objects(fleet, policy, kind)
    return [_sorted(pool, left) for pool in pools]


def _sorted(pool: Pool, left: dict[str, LeftAlone]) -> Pool:
    """Set apart what will not reload: nodes that are left alone, and those that failed and stay so."""
    message = f"its upgrade state is {names.STATE_FAILED}, and stays so until somebody puts the node back"
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
    """Give one pool an object, and one of the nodes that belong to none."""
    by_uid: dict[str, list[str]] = {}
    for name in fleet.node_names:
        by_uid.setdefault(_owner(name, fleet), []).append(name)
    pools = [
        Pool(
            fleet,
            name=str(one),
            policy=one.upgrade,
            where=f"{one} {kind.upgrade}",
            manual=intent.not_rotated(one, policy, decides=True),
            nodes=tuple(by_uid.get(one.uid, ())),
        )
        for one in sorted(fleet.seen.pools, key=lambda one: one.name)
    ]
    rest = Pool(
        fleet,
        name=f"no {kind.kind}",
        policy=policy.upgrade,
        where=kind.kind,
        manual=f"no {kind.kind} has them",
        nodes=tuple(by_uid.get("", ())),
    )
    return [pool for pool in (*pools, rest) if pool.nodes]


def _owner(name: str, fleet: Fleet) -> str:
    """Give the UID of a node's pool: of what its driver is rendered from, else of the object that its label names."""
    for pod in eligibility.live_pods(fleet.driver_pods.get(name, ())):
        if pod.owner_uid in fleet.intents:
            return fleet.intents[pod.owner_uid].uid
    node = fleet.seen.nodes.get(name)
    named = node.labels.get(fleet.stack.nodes.pool, "") if node is not None else ""
    return next((pool.uid for pool in fleet.seen.pools if pool.name == named), "")


def _unavailable(node: Node | None) -> bool:
    """Whether the upgrade controller counts a node as unavailable."""
    return node is not None and (node.cordoned or not node.ready)
