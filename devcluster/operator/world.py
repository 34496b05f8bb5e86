"""What the operator sees."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import age, lives
from devcluster.controller.world import DriverWorld
from devcluster.operator import names as n

Object = dict[str, Any]

LABELS = {n.COMPONENT: n.DRIVER}
"""By these the upgrade controller finds drivers, and misses those whose labels a user replaced."""


class World(DriverWorld):
    """Mirrors of the operator's own objects besides what every driver operator sees."""

    def __init__(self, namespace: str, *, assigns_owners: bool) -> None:
        super().__init__(namespace)
        self.policy_mirror = self.own(n.POLICIES)
        self.driver_mirror = self.own(n.DRIVERS)
        self.cluster_mirror = self.own(n.CLUSTERS)
        self._assigns_owners = assigns_owners

    @property
    def policy(self) -> Object | None:
        """The oldest policy; others are ignored, and nobody writes that they are."""
        return min(self.policy_mirror.objects, key=age, default=None)

    @property
    def drivers(self) -> list[Object]:
        """All NVIDIADrivers, the oldest first."""
        return sorted((each for each in self.driver_mirror.objects if lives(each)), key=age)

    @property
    def clusters(self) -> list[Object]:
        """All GPUClusters, the oldest first."""
        return sorted((each for each in self.cluster_mirror.objects if lives(each)), key=age)

    @property
    def rotations(self) -> list[tuple[list[Object], Object]]:
        """Which nodes are upgraded under which upgradePolicy: the policy's, or each driver object's for its own."""
        policy = self.policy
        if policy is None and not self.clusters:
            return []
        if policy is not None and n.has_sandboxes(policy):
            return [(self.nodes, {})]
        if policy is not None and not (n.delegates(policy) and self._assigns_owners):
            return [(self.nodes, policy["spec"]["driver"].get("upgradePolicy", {}))]
        return [(self._nodes_of(driver), driver["spec"].get("upgradePolicy", {})) for driver in self.drivers]

    @property
    def driver_daemonsets(self) -> list[Object]:
        """The drivers' DaemonSets as the upgrade controller finds them: by a label that a user may have replaced."""
        return [each for each in self.daemonsets if n.is_driver(each) and n.matches(each, LABELS)]

    @property
    def orphans(self) -> list[Object]:
        """The driver pods that nobody owns any more."""
        pods = (each for each in self._pods.objects if n.matches(each, LABELS))
        return [each for each in pods if not each["metadata"].get("ownerReferences")]

    def _nodes_of(self, driver: Object) -> list[Object]:
        return [node for node in self.nodes if n.matches(node, {n.DRIVER_OWNER: n.name_of(driver)})]
