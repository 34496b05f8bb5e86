"""``python -m devcluster.operator``: run the simulated operator as its pod would."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from devcluster.controller.process import run, upgrade
from devcluster.operator.controllers import ClusterController, DriverController, PolicyController
from devcluster.operator.names import LEASE
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
            for controller in (PolicyController, DriverController, ClusterController):
                group.create_task(controller(api, world, settings).run())
            group.create_task(upgrade(settings, "gpu", modern=settings.is_modern))

    run(settings, LEASE, work)


if __name__ == "__main__":
    main()
