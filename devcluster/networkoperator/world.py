"""What the operator sees, and which of its controllers each change wakes."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import labels_of, name_of
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
    def driver_pods(self) -> list[Object]:
        """The driver's pods."""
        return [each for each in self._pods.objects if n.DRIVER in labels_of(each)]
