"""What the operator sees, and which of its controllers each change wakes."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import annotations_of, labels_of, name_of
from devcluster.controller.world import DriverWorld
from devcluster.networkoperator import names as n

Object = dict[str, Any]


class World(DriverWorld):
    """The policies besides what every driver operator sees."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.policy_mirror = self.own(n.POLICIES)

    @property
    def policy(self) -> Object | None:
        """The policy with the one name that counts."""
        return next((each for each in self.policies if name_of(each) == n.POLICY), None)

    @property
    def policies(self) -> list[Object]:
        """All policies."""
        return self.policy_mirror.objects

    @property
    def rotations(self) -> list[tuple[list[Object], Object]]:
        """All nodes, as the policy wants it. It has no limit of its own for unavailable nodes."""
        policy = self.policy
        if policy is None:
            return []
        limits = (policy["spec"].get("ofedDriver") or {}).get("upgradePolicy") or {}
        return [(self.nodes, limits | {"maxUnavailable": "100%"})]

    @property
    def driver_daemonsets(self) -> list[Object]:
        """The driver's DaemonSets, one a kind of node."""
        return [each for each in self.daemonsets if n.DRIVER in labels_of(each)]

    @property
    def driver_pods(self) -> list[Object]:
        """The driver's pods."""
        return [each for each in self._pods.objects if n.DRIVER in labels_of(each)]

    def daemonset_changed(self, before: Object | None, after: Object | None) -> None:
        """Wake the upgrade controller on every change of a DaemonSet, also of its status."""
        super().daemonset_changed(before, after)
        self.rotation_due.set()

    def node_changed(self, before: Object | None, after: Object | None) -> None:
        """Wake the upgrade controller for annotations as well: a driver asks by one to be let in."""
        super().node_changed(before, after)
        if before is None or after is None or annotations_of(before) != annotations_of(after):
            self.rotation_due.set()
