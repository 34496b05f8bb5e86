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

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.policy_mirror = self.own(n.POLICIES)
        self.driver_mirror = self.own(n.DRIVERS)
        self.cluster_mirror = self.own(n.CLUSTERS)

    @property
    def policy(self) -> Object | None:
        """The oldest policy; others are ignored, and that is not written anywhere."""
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
    def orphans(self) -> list[Object]:
        """The driver pods without an owner."""
        pods = (each for each in self._pods.objects if n.matches(each, LABELS))
        return [each for each in pods if not each["metadata"].get("ownerReferences")]
