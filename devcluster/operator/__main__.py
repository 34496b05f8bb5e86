"""``python -m devcluster.operator``: run the simulated operator as its pod would."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from devcluster.controller.process import run
from devcluster.controller.upgrading import upgrade
from devcluster.operator.cluster import ClusterController
from devcluster.operator.drivers import DriverController
from devcluster.operator.names import LEASE
from devcluster.operator.policy import PolicyController
from devcluster.operator.settings import Settings
from devcluster.operator.world import World

if TYPE_CHECKING:
    from devcluster.client import Api


def main() -> None:
    """Start."""
    settings = Settings.from_environment(os.environ)

    async def work(api: Api) -> None:
        """Watch and reconcile."""
        world = World(settings.namespace)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.follow(api))
            await world.wait_for_sync()
            group.create_task(PolicyController(api, world, settings).run())
            group.create_task(DriverController(api, world, settings).run())
            group.create_task(ClusterController(api, world, settings).run())
            group.create_task(upgrade(settings, "gpu", modern=settings.is_modern))

    run(settings, LEASE, work)


if __name__ == "__main__":
    main()
